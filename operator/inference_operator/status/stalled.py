"""Stalled: whether waiting cannot help; and until when waiting may."""

from datetime import datetime

from inference_operator.api.duration import in_words
from inference_operator.api.reasons import ConditionType, Reason
from inference_operator.observed.answer import Conflict, Rejected, Waiting
from inference_operator.resources.names import ENGINE
from inference_operator.status.facts import Facts
from inference_operator.status.ready import ready
from inference_operator.status.verdict import Verdict


def stalled(facts: Facts) -> Verdict:
    """Decide whether waiting cannot help."""
    if facts.paused:
        return Verdict("False", Reason.PAUSED, "Nothing is attempted while `spec.paused` is true.")
    if facts.refusal:
        return Verdict("True", facts.refusal.reason, facts.refusal.message)
    if isinstance(facts.blocked, Conflict):
        return Verdict(
            "True",
            Reason.NAME_CONFLICT,
            f"{facts.blocked.ref} exists and belongs to {facts.blocked.holder}."
            " Delete or rename it, or create this InferenceDeployment under another name.",
        )
    if isinstance(facts.blocked, Rejected):
        return Verdict("True", Reason.CHILD_REJECTED, f"{facts.blocked.ref} was refused: {facts.blocked.message}")
    if _too_long(facts):
        lasting = f"For {in_words(facts.engines.deadline)}: {_lasting(facts)}"
        return Verdict("True", Reason.PROGRESS_DEADLINE_EXCEEDED, lasting)
    return Verdict("False", Reason.UNOBSTRUCTED, "Nothing stands in the way.")


_PASSING_BY_ITSELF = frozenset({Reason.UNSCHEDULABLE, Reason.POD_REJECTED})
"""A pod without a node waits for one as long as it takes, and one that is turned away is replaced; whatever else keeps
a pod from running passes only if somebody acts."""


def _too_long(facts: Facts) -> bool:
    """Whether a first start or a rollout makes no progress, or what has served is down for too long."""
    if isinstance(facts.blocked, Waiting) or facts.homeless:
        return False
    deadline = progress_deadline(facts)
    if deadline is not None and facts.now >= deadline:
        return True
    if ready(facts).reason is Reason.ENGINES_UNAVAILABLE and not facts.rolling:
        return False  # the Deployment may have given up long before, on an engine beside those that have served
    return facts.engines.given_up or facts.routers.given_up


def _lasting(facts: Facts) -> str:
    if facts.stuck:
        return facts.stuck.message
    if facts.rejection:
        return facts.rejection
    state = ready(facts)
    return state.message if state.status == "False" else "No pod of the new specification has become ready."


def progress_deadline(facts: Facts) -> datetime | None:
    """When the problem there is, if any, has lasted too long; Deployments know how long they have been rolling."""
    if facts.paused or ready(facts).status == "True" or facts.homeless:
        return None
    stuck = facts.stuck
    if stuck and stuck.pod.created and stuck.reason not in _PASSING_BY_ITSELF:
        return max(stuck.pod.created, _down_since(facts, stuck.pod.component)) + facts.engines.deadline
    if ready(facts).reason is Reason.ENGINES_UNAVAILABLE and not facts.rolling:
        down = _down_since(facts, ENGINE)
        return max(down, facts.engine_since or down) + facts.engines.deadline
    return None


def _down_since(facts: Facts, component: str) -> datetime:
    """Since when no request has got an answer and the component has been down; now, if that begins now."""
    available = ConditionType.ENGINES_AVAILABLE if component == ENGINE else ConditionType.ROUTER_AVAILABLE
    before = [facts.previous.condition(kind) for kind in (ConditionType.READY, available)]
    return max(one.since if one and one.status == "False" else facts.now for one in before)
