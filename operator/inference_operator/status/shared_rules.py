"""Rules that several conditions have, each with its own status."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeAlias

from inference_operator.api.reasons import Reason
from inference_operator.sentences import sentences
from inference_operator.status.observation import ConditionStatus, ConditionVerdict, Observation

ConditionRule: TypeAlias = Callable[[Observation], ConditionVerdict | None]


def ready_of(ready: int, wanted: int, what: str) -> str:
    """How many are ready, in a sentence.

    Examples:
        >>> ready_of(1, 1, "engine"), ready_of(0, 2, "router")
        ('1 of 1 engine is ready.', '0 of 2 routers are ready.')
    """
    return f"{ready} of {wanted} {what} is ready." if wanted == 1 else f"{ready} of {wanted} {what}s are ready."


def of_roles(verdicts: Mapping[str, ConditionVerdict]) -> ConditionVerdict:
    """The verdict about several roles, by their names: what is not true of one is not true of all."""
    worst = min(verdicts.values(), key=lambda verdict: verdict.status == "True")
    if len(verdicts) == 1:
        return worst
    return replace(worst, message=sentences(*(f"Role `{name}`: {role.message}" for name, role in verdicts.items())))


def paused(consequence: str) -> ConditionRule:
    """The user paused the resource; with the consequence for what the condition describes."""
    verdict = ConditionVerdict("False", Reason.PAUSED, f"Paused: {consequence} while `spec.paused` is true.")
    return lambda observation: verdict if observation.paused else None


def refused(status: ConditionStatus, short: str = "") -> ConditionRule:
    """The specification is refused; with a short message where another condition tells why."""

    def rule(observation: Observation) -> ConditionVerdict | None:
        refusal = observation.refusal
        return ConditionVerdict(status, refusal.reason, short or refusal.message) if refusal else None

    return rule


def refused_part(observation: Observation) -> str:
    """Whether the last edit is refused, or by a policy perhaps an earlier one, in a sentence; empty if neither."""
    if observation.refusal is None:
        return ""
    by_policy = observation.refusal.reason is Reason.REFUSED_BY_POLICY
    return "The cluster's policy refuses the specification." if by_policy else "The last edit is refused."


def waiting(status: ConditionStatus, short: str = "") -> ConditionRule:
    """Engines wait for a Job: for the model's inspection, its download to a claim, or its signature's verification."""

    def rule(observation: Observation) -> ConditionVerdict | None:
        wait = observation.wait
        return ConditionVerdict(status, wait.reason, short or wait.message) if wait else None

    return rule
