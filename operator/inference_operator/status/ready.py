"""Ready: whether a request gets an answer."""

from collections.abc import Mapping

from inference_operator.api.reasons import ConditionType, Reason
from inference_operator.observed.answer import Conflict, Failed, Rejected, Waiting
from inference_operator.status.facts import Facts
from inference_operator.status.verdict import Verdict

_OBSTACLES: Mapping[type[Conflict | Waiting | Rejected | Failed], Reason] = {
    Conflict: Reason.NAME_CONFLICT,
    Waiting: Reason.WAITING_FOR_DELETION,
    Rejected: Reason.CHILD_REJECTED,
    Failed: Reason.REQUEST_FAILED,
}


def ready(facts: Facts) -> Verdict:
    """Decide whether a request gets an answer, and say what is missing where not."""
    if facts.paused:
        return _paused(facts)
    if facts.at_zero and facts.connected and facts.routers.ready:
        return Verdict("True", Reason.SCALED_TO_ZERO, "No engine is wanted; raise `spec.replicas` to serve.")
    if facts.serving:
        message = f"{facts.engines.ready} of {facts.wanted} engines serve."
        return Verdict("True", Reason.SERVING, " ".join(filter(None, (message, _refused(facts), facts.notice))))
    if facts.refusal:
        return Verdict("False", facts.refusal.reason, facts.refusal.message)
    if facts.blocked and not (isinstance(facts.blocked, Failed) and facts.complete):
        return Verdict("False", _OBSTACLES[type(facts.blocked)], _obstacle(facts.blocked))
    if facts.at_zero or facts.engines.ready:
        return Verdict("False", Reason.ROUTER_UNAVAILABLE, _with("No router is ready.", facts))
    if _has_served(facts):
        return Verdict(
            "False", Reason.ENGINES_UNAVAILABLE, _with("Engines have served before; none is ready now.", facts)
        )
    return _beginning(facts)


def _obstacle(blocked: Conflict | Waiting | Rejected | Failed) -> str:
    where = "Reconciling" if isinstance(blocked, Waiting | Failed) else "Stalled"
    return f"{blocked.ref} cannot be made yet: see the condition {where}."


def _refused(facts: Facts) -> str:
    """That what is asked now is not what serves."""
    return f"An edit is refused ({facts.refusal.reason}): see the condition Stalled." if facts.refusal else ""


def _beginning(facts: Facts) -> Verdict:
    """Where nothing has served yet."""
    if facts.inspecting:
        return Verdict("False", Reason.INSPECTING_MODEL, facts.inspecting)
    return Verdict("False", Reason.STARTING, _with(f"Waiting for the first of {facts.wanted} engines.", facts))


def _with(message: str, facts: Facts) -> str:
    """What is told, and what keeps a pod from running or where the start is."""
    return f"{message} {facts.rejection or missing_node(facts) or _trouble(facts) or facts.progress}".strip()


def missing_node(facts: Facts) -> str:
    """That the engines wait for GPUs which no node has, and what helps; empty where they do not."""
    if not (facts.homeless and facts.awaited):
        return ""
    cure = "Wait for the node autoscaler, add such a node, or name other GPUs in `spec.hardware.gpu.products`."
    return f"No node with {facts.awaited} is there yet. {cure}"


def _trouble(facts: Facts) -> str:
    return facts.stuck.message if facts.stuck else ""


def _paused(facts: Facts) -> Verdict:
    """What serves is told as ever; why something does not is nothing that the operator would act upon."""
    idle = facts.at_zero and facts.connected and facts.routers.ready > 0
    counted = f"{facts.engines.ready} of {facts.wanted} engines and {facts.routers.ready} routers are ready."
    message = f"Nothing is changed while `spec.paused` is true. {counted}"
    return Verdict("True" if facts.serving or idle else "False", Reason.PAUSED, message)


_AFTER_SERVING = frozenset({Reason.SERVING, Reason.ENGINES_UNAVAILABLE, Reason.ROUTER_UNAVAILABLE})


def _has_served(facts: Facts) -> bool:
    """Whether engines have been ready, as far as the Ready condition remembers.

    It forgets with any other reason, such as an object in the way: what comes after that is a start again.
    """
    before = facts.previous.condition(ConditionType.READY)
    if before is None:
        return False
    return before.reason in _AFTER_SERVING or (before.reason, before.status) == (Reason.PAUSED, "True")
