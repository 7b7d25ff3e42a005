"""Stalled: whether waiting cannot help; and until when waiting may."""

from datetime import datetime, timedelta

from inference_operator.api.reasons import ConditionType, Reason
from inference_operator.observed.answer import Conflict, Rejected
from inference_operator.resources.engine_deployment import STARTUP_SECONDS
from inference_operator.status.facts import Facts
from inference_operator.status.verdict import Verdict

PROGRESS_DEADLINE = timedelta(seconds=STARTUP_SECONDS)
"""How long a problem that could pass by itself may last: as long as an engine may take to start."""


def stalled(facts: Facts) -> Verdict:
    """Decide whether waiting cannot help."""
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
    deadline = progress_deadline(facts)
    if deadline is not None and facts.now >= deadline:
        minutes = PROGRESS_DEADLINE // timedelta(minutes=1)
        lasting = facts.trouble or "No engine is ready."
        return Verdict("True", Reason.PROGRESS_DEADLINE_EXCEEDED, f"For {minutes} minutes: {lasting}")
    return Verdict("False", Reason.UNOBSTRUCTED, "Nothing stands in the way.")


_PASSING_ONLY_BY_HAND = frozenset(
    {
        Reason.IMAGE_PULL_FAILED,
        Reason.CONTAINER_CONFIG_ERROR,
        Reason.VOLUME_UNAVAILABLE,
        Reason.OUT_OF_MEMORY,
        Reason.CRASH_LOOP,
    }
)
"""What the kubelet names; a pod without a node waits for one as long as it takes."""


def progress_deadline(facts: Facts) -> datetime | None:
    """When the problem there is, if any, has lasted too long."""
    if facts.serving and not facts.rolling:
        return None
    pod = facts.stuck
    if pod and pod.created and pod.problem and pod.problem.reason in _PASSING_ONLY_BY_HAND:
        return pod.created + PROGRESS_DEADLINE
    ready = facts.previous.condition(ConditionType.READY)
    if ready is None or ready.reason != Reason.ENGINES_UNAVAILABLE or facts.serving:
        return None
    return ready.since + PROGRESS_DEADLINE
