"""Condition Ready: whether a request would be answered."""

from collections.abc import Callable, Mapping, Sequence

from inference_operator.api.reasons import ConditionType, Reason
from inference_operator.sentences import sentences
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
    """Whether a request would be answered, and what is missing if not: the first of `_RULES` that applies."""
    return next(verdict for rule in _RULES if (verdict := rule(facts)))


def missing_node(facts: Facts) -> str:
    """That no node has the GPUs that the engines need, and what to do; empty if that is not the cause."""
    if not (facts.unschedulable and facts.missing_gpu_kind):
        return ""
    said = facts.diagnosis.autoscaler if facts.diagnosis else ""
    first = f"{said} Otherwise add" if said else "Wait for the node autoscaler, add"
    cure = f"{first} such a node, or name other GPUs in `spec.hardware.gpu.products`."
    return f"No node has {facts.missing_gpu_kind} yet. {cure}"


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


_AFTER_SERVING = frozenset({Reason.SERVING, Reason.ENGINES_UNAVAILABLE, Reason.ROUTER_UNAVAILABLE})


def _has_served(facts: Facts) -> bool:
    """Whether engines have been ready, as far as the previous Ready condition shows.

    After any other reason, such as a name conflict, it counts as a first start again.
    """
    before = facts.previous.condition(ConditionType.READY)
    if before is None:
        return False
    return before.reason in _AFTER_SERVING or (before.reason, before.status) == (Reason.PAUSED, "True")


def _paused(facts: Facts) -> Verdict | None:
    """The user paused it: what runs is counted, without a cause, since the operator does nothing about it."""
    if not facts.paused:
        return None
    idle = facts.at_zero and facts.path.connected and facts.routable
    counted = f"{facts.engines.ready} of {facts.desired} engines and {facts.routers.ready} routers are ready."
    message = f"Paused: the operator changes nothing while `spec.paused` is true. {counted}"
    return Verdict("True" if facts.serving or idle else "False", Reason.PAUSED, message)


def _scaled_to_zero(facts: Facts) -> Verdict | None:
    """No engine should run, and a router is ready."""
    if not (facts.at_zero and facts.path.connected and facts.routable):
        return None
    cure = (
        "The next request starts an engine." if facts.scaling.status else "Set `spec.replicas` to 1 or more to serve."
    )
    return Verdict("True", Reason.SCALED_TO_ZERO, f"Scaled to zero. {cure}")


def _serving(facts: Facts) -> Verdict | None:
    """Engines and routers are ready; the message says if the last edit is refused."""
    if not facts.serving:
        return None
    refused = f"The last edit is refused ({facts.refusal.reason}): see the condition Stalled." if facts.refusal else ""
    return Verdict("True", Reason.SERVING, sentences(_engines_ready(facts), refused, facts.notice))


def _refused(facts: Facts) -> Verdict | None:
    """The specification is refused, and nothing serves."""
    return Verdict("False", facts.refusal.reason, facts.refusal.message) if facts.refusal else None


def _child_not_written(facts: Facts) -> Verdict | None:
    """A child cannot be written. A failed request counts only while something is missing."""
    blocked = facts.blocked
    if blocked is None or (isinstance(blocked, Failed) and facts.complete):
        return None
    condition = "Reconciling" if isinstance(blocked, Waiting | Failed) else "Stalled"
    message = f"{blocked.ref} cannot be created yet: see the condition {condition}."
    return Verdict("False", _OBSTACLES[type(blocked)], message)


def _no_router(facts: Facts) -> Verdict | None:
    """Engines are ready, or none should run, but no router is ready."""
    if facts.routable or not (facts.at_zero or facts.engines.ready):
        return None
    return Verdict("False", Reason.ROUTER_UNAVAILABLE, sentences("No router is ready.", _cause(facts)))


def _no_engine(facts: Facts) -> Verdict | None:
    """Engines have served before, and none is ready now."""
    if not _has_served(facts):
        return None
    message = sentences("No engine is ready. Engines have served before.", _cause(facts))
    return Verdict("False", Reason.ENGINES_UNAVAILABLE, message)


def _inspecting(facts: Facts) -> Verdict | None:
    """A first start waits for the inspection of the model."""
    return Verdict("False", Reason.INSPECTING_MODEL, facts.inspection) if facts.inspection else None


def _model_wait(facts: Facts) -> Verdict | None:
    """A first start waits for the download of the model to a claim, or for the verification of its signature."""
    wait = facts.model_wait
    return Verdict("False", wait.reason, wait.message) if wait else None


def _first_start(facts: Facts) -> Verdict | None:
    """A first start: the cause if it is known, else `Starting`."""
    return Verdict("False", _cause_reason(facts), sentences(_engines_ready(facts), _cause(facts)))


_RULES: Sequence[Callable[[Facts], Verdict | None]] = (
    _paused,
    _scaled_to_zero,
    _serving,
    _refused,
    _child_not_written,
    _no_router,
    _no_engine,
    _inspecting,
    _model_wait,
    _first_start,
)
