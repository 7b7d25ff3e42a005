"""ModelResolved: whether the model's config and size are known."""

from inference_operator.api.reasons import Reason
from inference_operator.models.facts import ModelFacts
from inference_operator.status.facts import Facts
from inference_operator.status.verdict import Verdict

GIB = 2**30

UNREADABLE = frozenset(
    {
        Reason.MODEL_GATED,
        Reason.MODEL_NOT_FOUND,
        Reason.HUB_UNREACHABLE,
        Reason.INSPECTION_FAILED,
        Reason.MODEL_NOT_UNDERSTOOD,
    }
)
"""Why nothing is known of a model."""


def model_resolved(facts: Facts) -> Verdict:
    """Tell what the model is, as far as that is known."""
    if facts.inspecting:
        return Verdict("Unknown", Reason.INSPECTING_MODEL, facts.inspecting)
    if facts.model is None and facts.refusal and facts.refusal.reason in UNREADABLE:
        return Verdict("False", facts.refusal.reason, facts.refusal.message)
    if facts.model is None:
        return Verdict("Unknown", Reason.MODEL_UNKNOWN, "Nothing is known of the model.")
    found = facts.model.facts
    if not isinstance(found, ModelFacts):
        return Verdict("False", Reason.MODEL_NOT_UNDERSTOOD, f"{found.message} Read from {facts.model.origin}.")
    size = f"{found.weight_bytes / GIB:.1f} GiB of weights ({found.weights_from})"
    name = found.architecture or "A model whose config names no architecture"
    message = f"{name}: {size}, up to {found.context:,} tokens. From {facts.model.origin}."
    return Verdict("True", Reason.MODEL_KNOWN, message)
