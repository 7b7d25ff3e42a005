"""Condition ModelResolved: whether the model's architecture and size are known."""

from inference_operator.api.reasons import Reason
from inference_operator.models.checkpoint import WeightFormat, format_of
from inference_operator.models.facts import ModelFacts
from inference_operator.models.source import ImageModel, ModelSource
from inference_operator.status.facts import Facts
from inference_operator.status.verdict import Verdict
from inference_operator.units import GIB

UNREADABLE = frozenset(
    {
        Reason.MODEL_GATED,
        Reason.MODEL_NOT_FOUND,
        Reason.HUB_UNREACHABLE,
        Reason.INSPECTION_FAILED,
        Reason.MODEL_NOT_UNDERSTOOD,
        Reason.PICKLE_WEIGHTS,
    }
)
"""Reasons for which a model is unknown."""


def model_resolved(facts: Facts) -> Verdict:
    """Whether the model is known, and what it is."""
    if facts.inspection:
        return Verdict("Unknown", Reason.INSPECTING_MODEL, facts.inspection)
    if facts.refusal and facts.refusal.reason is Reason.VERIFICATION_FAILED:
        return Verdict("False", Reason.VERIFICATION_FAILED, facts.refusal.message)
    if facts.model is None and facts.refusal and facts.refusal.reason in UNREADABLE:
        return Verdict("False", facts.refusal.reason, facts.refusal.message)
    if facts.model is None:
        message = f"No model facts available: the model has not been inspected.{_tag(facts.source)}"
        return Verdict("Unknown", Reason.MODEL_UNKNOWN, message)
    model = facts.model.facts
    if not isinstance(model, ModelFacts):
        return Verdict("False", Reason.MODEL_NOT_UNDERSTOOD, f"{model.message} Read from {facts.model.origin}.")
    size = f"{model.weight_bytes / GIB:.1f} GiB of weights ({model.weights_from})"
    name = model.architecture or "A model whose config names no architecture"
    notes = f"{_tag(facts.source)}{_pickle(model)}{_without_chat(model)}"
    message = f"{name}: {size}, up to {model.context:,} tokens. From {facts.model.origin}.{notes}"
    return Verdict("True", Reason.MODEL_KNOWN, message)


def _tag(source: ModelSource | None) -> str:
    """A sentence about an image that may change under its name; empty for other sources."""
    if not isinstance(source, ImageModel) or source.is_pinned:
        return ""
    return (
        f" The image `{source.reference}` has no digest in its name, so engines may get different files under one tag:"
        " add its digest, `@sha256:...`, to `spec.model.source`."
    )


def _pickle(model: ModelFacts) -> str:
    """A sentence about weights that can run code; empty for others."""
    if format_of(model.weights_from) is not WeightFormat.PICKLE:
        return ""
    return (
        " Its weights are pickle files, which can run code in the engine; `spec.model.allowPickle` allows them. To be"
        " safe, convert them to safetensors."
    )


def _without_chat(model: ModelFacts) -> str:
    """A sentence about a model of text whose files have no chat template; empty for others."""
    if model.is_pooling or model.side.has_chat_template is not False:
        return ""
    return (
        " Its files have no chat template, so `/v1/chat/completions` works only if the engine has one for this model:"
        " name one with `--chat-template` in `spec.engine.args`, or use a chat model."
    )
