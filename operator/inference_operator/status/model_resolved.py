"""Condition ModelResolved: whether the model's architecture and size are known."""

from inference_operator.api.reasons import Reason
from inference_operator.jobs.inspection_result import inspection_refusal
from inference_operator.models.checkpoint import WeightFormat, format_of
from inference_operator.models.facts import ModelFacts
from inference_operator.models.source import ImageModel, model_source
from inference_operator.planning.known_model import KnownModel
from inference_operator.sentences import sentences
from inference_operator.status.observation import ConditionVerdict, Observation
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

_WITHOUT_POD = frozenset(
    {
        Reason.IMAGE_PULL_FAILED,
        Reason.CONTAINER_CONFIG_ERROR,
        Reason.VOLUME_UNAVAILABLE,
        Reason.UNSCHEDULABLE,
        Reason.QUOTA_EXCEEDED,
        Reason.POD_REJECTED,
    }
)
"""Reasons why the pod of a Job did not run in time."""


def is_unreadable(observation: Observation) -> bool:
    refusal = observation.refusal
    if refusal is None:
        return False
    return refusal.reason in UNREADABLE or (observation.outcome.model is None and refusal.reason in _WITHOUT_POD)


def model_resolved(observation: Observation) -> ConditionVerdict:
    refusal, failure, wait = observation.refusal, observation.outcome.model_failure, observation.inspection
    if wait:
        return ConditionVerdict("Unknown", wait.reason, "The model is being inspected.")
    if refusal and refusal.reason is Reason.VERIFICATION_FAILED:
        return ConditionVerdict("False", refusal.reason, "The signature of the model is not verified.")
    if observation.outcome.model:
        return _known(observation, observation.outcome.model)
    if refusal and is_unreadable(observation):
        return ConditionVerdict("False", refusal.reason, "The model cannot be read.")
    if failure:  # engines start without a check
        message = sentences("The model's files could not be read.", failure.message, _tag(observation))
        return ConditionVerdict("Unknown", inspection_refusal(failure).reason, message)
    message = sentences("No model facts available: the model has not been inspected.", _tag(observation))
    return ConditionVerdict("Unknown", Reason.MODEL_UNKNOWN, message)


def _known(observation: Observation, known: KnownModel) -> ConditionVerdict:
    """The model was read: what it is, or which figure it lacks."""
    model, origin = known.facts, known.origin
    if not isinstance(model, ModelFacts):
        return ConditionVerdict("False", Reason.MODEL_NOT_UNDERSTOOD, f"{model.message} Read from {origin}.")
    size = f"{model.weight_bytes / GIB:.1f} GiB of weights ({model.weights_from})"
    name = model.architecture or "A model whose config names no architecture"
    message = sentences(
        f"{name}: {size}, up to {model.context:,} tokens. From {origin}.",
        _tag(observation),
        _pickle(model),
        _without_chat(model),
    )
    return ConditionVerdict("True", Reason.MODEL_KNOWN, message)


def _tag(observation: Observation) -> str:
    """A sentence about an image that may change under its name; empty for other sources."""
    source = model_source(observation.spec.model.source) if observation.spec else None
    if not isinstance(source, ImageModel) or source.is_pinned:
        return ""
    return (
        f"The image `{source.reference}` has no digest in its name, so engines may get different files under one tag:"
        " add its digest, `@sha256:...`, to `spec.model.source`."
    )


def _pickle(model: ModelFacts) -> str:
    """A sentence about weights that can run code; empty for others."""
    if format_of(model.weights_from) is not WeightFormat.PICKLE:
        return ""
    return (
        "Its weights are pickle files, which can run code in the engine; `spec.model.allowPickle` allows them. To be"
        " safe, convert them to safetensors."
    )


def _without_chat(model: ModelFacts) -> str:
    """A sentence about a model of text whose files have no chat template; empty for others."""
    if model.is_pooling or model.side.has_chat_template is not False:
        return ""
    return (
        "Its files have no chat template, so `/v1/chat/completions` works only if the engine has one for this model:"
        " name one with `--chat-template` in `spec.engine.args`, or use a chat model."
    )
