"""Condition Stalled: whether waiting cannot help, and until when it may."""

from datetime import datetime

from inference_operator.api.duration import in_words
from inference_operator.api.reasons import ConditionType, Reason
from inference_operator.objects.names import ROUTER
from inference_operator.status.facts import Facts
from inference_operator.status.ready import ready
from inference_operator.status.verdict import Verdict
from inference_operator.status.write_results import Conflict, Rejected, Waiting


def stalled(facts: Facts) -> Verdict:
    """Whether waiting cannot help: a user must change something."""
    if facts.paused:
        return Verdict("False", Reason.PAUSED, "Paused: the operator attempts nothing while `spec.paused` is true.")
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
        return Verdict("True", Reason.CHILD_REJECTED, f"{facts.blocked.ref} was rejected: {facts.blocked.message}")
    if _deadline_exceeded(facts):
        message = f"For {in_words(facts.engines.deadline)}: {_lasting_problem(facts)}"
        return Verdict("True", Reason.PROGRESS_DEADLINE_EXCEEDED, message)
    return Verdict("False", Reason.NOT_STALLED, "No blocking problem.")


_TRANSIENT = frozenset({Reason.UNSCHEDULABLE, Reason.POD_REJECTED})
"""An unschedulable pod may wait for a node for any time, and a rejected pod is replaced. Every other problem of a pod
lasts until somebody acts."""


def _deadline_exceeded(facts: Facts) -> bool:
    """Whether a first start or a rollout makes no progress, or serving engines are down, for too long.

    Not while a rollout is undecided: the problem is one of the template that it replaces.
    """
    if isinstance(facts.blocked, Waiting) or facts.unschedulable or facts.rollout_undecided:
        return False
    deadline = progress_deadline(facts)
    if deadline is not None and facts.now >= deadline:
        return True
    if ready(facts).reason is Reason.ENGINES_UNAVAILABLE and not facts.rolling:
        return False  # the Deployment may have given up earlier, on an engine beside those that have served
    return facts.engines.failed or facts.routers.failed


def _lasting_problem(facts: Facts) -> str:
    if facts.diagnosis:
        return facts.diagnosis.message
    if facts.rejection:
        return facts.rejection
    state = ready(facts)
    return state.message if state.status == "False" else "No pod of the new specification has become ready."


def progress_deadline(facts: Facts) -> datetime | None:
    """When the current problem has lasted too long; None if there is none, or the Deployment measures it itself."""
    if facts.paused or ready(facts).status == "True" or facts.unschedulable:
        return None
    diagnosis = facts.diagnosis
    if diagnosis and diagnosis.pod.created and diagnosis.reason not in _TRANSIENT:
        return max(diagnosis.pod.created, _down_since(facts, diagnosis.pod.component)) + facts.engines.deadline
    if ready(facts).reason is Reason.ENGINES_UNAVAILABLE and not facts.rolling:
        down = _down_since(facts)
        return max(down, facts.engine_since or down) + facts.engines.deadline
    return None


def _down_since(facts: Facts, component: str = "") -> datetime:
    """Since when requests fail because the component is not available; now if that begins now."""
    available = ConditionType.ROUTER_AVAILABLE if component == ROUTER else ConditionType.ENGINES_AVAILABLE
    before = [facts.previous.condition(kind) for kind in (ConditionType.READY, available)]
    return max(condition.since if condition and condition.status == "False" else facts.now for condition in before)
