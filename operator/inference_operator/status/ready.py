"""Condition Ready: whether a request would be answered."""

from collections.abc import Mapping

from inference_operator.api.reasons import ConditionType, Reason
from inference_operator.status.facts import Facts, rejection_reason
from inference_operator.status.verdict import Verdict
from inference_operator.status.write_results import Conflict, Failed, Rejected, Waiting

_OBSTACLES: Mapping[type[Conflict | Waiting | Rejected | Failed], Reason] = {
    Conflict: Reason.NAME_CONFLICT,
    Waiting: Reason.WAITING_FOR_DELETION,
    Rejected: Reason.CHILD_REJECTED,
    Failed: Reason.REQUEST_FAILED,
}


def ready(facts: Facts) -> Verdict:
    """Whether a request would be answered, and what is missing if not.

    The first rule that applies:

    - Paused: what runs is counted, and no cause is given, since the operator does nothing about it.
    - Scaled to zero, with a ready router: True.
    - Engines and routers are ready: True, with a note if an edit is refused.
    - The specification is refused: its reason.
    - A child cannot be written, and not everything exists yet: that reason.
    - Engines are ready but no router is.
    - Engines have served before.
    - A first start: the cause if it is known, else `Starting`.
    """
    if facts.paused:
        return _paused(facts)
    if facts.at_zero and facts.connected and facts.routers.ready:
        message = "Scaled to zero. Set `spec.replicas` to 1 or more to serve."
        return Verdict("True", Reason.SCALED_TO_ZERO, message)
    if facts.serving:
        return Verdict("True", Reason.SERVING, _sentences(_engines_ready(facts), _refused_edit(facts), facts.notice))
    if facts.refusal:
        return Verdict("False", facts.refusal.reason, facts.refusal.message)
    if facts.blocked and not (isinstance(facts.blocked, Failed) and facts.complete):
        return Verdict("False", _OBSTACLES[type(facts.blocked)], _obstacle(facts.blocked))
    if facts.at_zero or facts.engines.ready:
        return Verdict("False", Reason.ROUTER_UNAVAILABLE, _sentences("No router is ready.", _cause(facts)))
    if _has_served(facts):
        message = _sentences("No engine is ready. Engines have served before.", _cause(facts))
        return Verdict("False", Reason.ENGINES_UNAVAILABLE, message)
    return _first_start(facts)


def missing_node(facts: Facts) -> str:
    """That no node has the GPUs that the engines need, and what to do; empty if that is not the cause."""
    if not (facts.unschedulable and facts.missing_gpu_kind):
        return ""
    cure = "Wait for the node autoscaler, add such a node, or name other GPUs in `spec.hardware.gpu.products`."
    return f"No node has {facts.missing_gpu_kind} yet. {cure}"


def _first_start(facts: Facts) -> Verdict:
    if facts.inspection:
        return Verdict("False", Reason.INSPECTING_MODEL, facts.inspection)
    return Verdict("False", _cause_reason(facts), _sentences(_engines_ready(facts), _cause(facts)))


def _cause_reason(facts: Facts) -> Reason:
    """The reason of the cause that `_cause` describes; `Starting` if none is known."""
    if facts.rejected_workload:
        return rejection_reason(facts.rejected_workload)
    if missing_node(facts):
        return Reason.WAITING_FOR_NODE
    return facts.diagnosis.reason if facts.diagnosis else Reason.STARTING


def _cause(facts: Facts) -> str:
    """Why a pod does not run; else the progress of a start; empty if neither is known."""
    problem = facts.diagnosis.message if facts.diagnosis else ""
    return facts.rejection or missing_node(facts) or problem or facts.progress


def _engines_ready(facts: Facts) -> str:
    return f"{facts.engines.ready} of {facts.desired} engines are ready."


def _obstacle(blocked: Conflict | Waiting | Rejected | Failed) -> str:
    condition = "Reconciling" if isinstance(blocked, Waiting | Failed) else "Stalled"
    return f"{blocked.ref} cannot be created yet: see the condition {condition}."


def _refused_edit(facts: Facts) -> str:
    """That the latest specification is not the one that serves; empty if it is."""
    return f"The last edit is refused ({facts.refusal.reason}): see the condition Stalled." if facts.refusal else ""


def _paused(facts: Facts) -> Verdict:
    idle = facts.at_zero and facts.connected and facts.routers.ready > 0
    counted = f"{facts.engines.ready} of {facts.desired} engines and {facts.routers.ready} routers are ready."
    message = f"Paused: the operator changes nothing while `spec.paused` is true. {counted}"
    return Verdict("True" if facts.serving or idle else "False", Reason.PAUSED, message)


def _sentences(*sentences: str) -> str:
    return " ".join(filter(None, sentences))


_AFTER_SERVING = frozenset({Reason.SERVING, Reason.ENGINES_UNAVAILABLE, Reason.ROUTER_UNAVAILABLE})


def _has_served(facts: Facts) -> bool:
    """Whether engines have been ready, as far as the previous Ready condition shows.

    After any other reason, such as a name conflict, it counts as a first start again.
    """
    before = facts.previous.condition(ConditionType.READY)
    if before is None:
        return False
    return before.reason in _AFTER_SERVING or (before.reason, before.status) == (Reason.PAUSED, "True")
