"""Rules that several conditions have, each with its own status."""

from collections.abc import Callable
from typing import TypeAlias

from inference_operator.api.reasons import Reason
from inference_operator.status.observation import ConditionStatus, ConditionVerdict, Observation

ConditionRule: TypeAlias = Callable[[Observation], ConditionVerdict | None]


def paused(consequence: str) -> ConditionRule:
    """The user paused the resource; with the consequence for what the condition describes."""
    verdict = ConditionVerdict("False", Reason.PAUSED, f"Paused: {consequence} while `spec.paused` is true.")
    return lambda observation: verdict if observation.paused else None


def refused(status: ConditionStatus) -> ConditionRule:
    """The specification is refused."""

    def rule(observation: Observation) -> ConditionVerdict | None:
        refusal = observation.refusal
        return ConditionVerdict(status, refusal.reason, refusal.message) if refusal else None

    return rule


def inspecting(status: ConditionStatus) -> ConditionRule:
    """The model is being inspected, and nothing is decided before that."""

    def rule(observation: Observation) -> ConditionVerdict | None:
        message = observation.inspection
        return ConditionVerdict(status, Reason.INSPECTING_MODEL, message) if message else None

    return rule


def model_wait(status: ConditionStatus) -> ConditionRule:
    """Engines wait for the download of the model to a claim, or for the verification of its signature."""

    def rule(observation: Observation) -> ConditionVerdict | None:
        wait = observation.model_wait
        return ConditionVerdict(status, wait.reason, wait.message) if wait else None

    return rule
