"""The status of an InferenceDeployment, and when it should be looked at again although nothing happened."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, timedelta

from inference_operator.api.conditions import MAX_MESSAGE_LENGTH, Condition
from inference_operator.api.reasons import ConditionType
from inference_operator.api.status import EngineStatus, PlanStatus, Status
from inference_operator.observed.answer import Answer
from inference_operator.observed.look import Look
from inference_operator.pipeline import Inputs, Outcome
from inference_operator.resources.names import ENGINE, selector_text
from inference_operator.resources.router_service import url
from inference_operator.status.engines_available import engines_available
from inference_operator.status.facts import Facts, facts
from inference_operator.status.model_resolved import model_resolved
from inference_operator.status.ready import ready
from inference_operator.status.reconciling import reconciling
from inference_operator.status.router_available import router_available
from inference_operator.status.sized import sized
from inference_operator.status.stalled import progress_deadline, stalled
from inference_operator.status.verdict import Verdict

RULES: dict[ConditionType, Callable[[Facts], Verdict]] = {
    ConditionType.READY: ready,
    ConditionType.RECONCILING: reconciling,
    ConditionType.STALLED: stalled,
    ConditionType.MODEL_RESOLVED: model_resolved,
    ConditionType.SIZED: sized,
    ConditionType.ENGINES_AVAILABLE: engines_available,
    ConditionType.ROUTER_AVAILABLE: router_available,
}

RECHECK = timedelta(seconds=15)
"""How often what no watch shows, an object that is not ours, is looked at again: one request each time."""


@dataclass(frozen=True, slots=True)
class After:
    """A wish to look again."""

    seconds: float | None = None
    """After this time; None: only when something happens."""
    backoff: bool = False
    """Something failed: look no sooner than in `seconds`, and later with each failure in a row."""
    looks: tuple[Look, ...] = ()
    """What is to be looked up, and kept up to date for as long as every report wants it."""


@dataclass(frozen=True, slots=True)
class Report:
    """What is told, and when to look again."""

    status: Status
    again: After | None


def report(inputs: Inputs, outcome: Outcome, answers: Sequence[Answer]) -> Report:
    """Tell the state after a round of changes.

    Args:
        inputs: everything seen, with the answers' objects already in it.
        outcome: what was decided in this round.
        answers: what the API server answered in this round.
    """
    known = facts(inputs, outcome, answers)
    conditions = tuple(_condition(kind, rule(known), inputs) for kind, rule in RULES.items())
    decided = known.decided
    status = Status(
        observed_generation=inputs.resource.generation,
        conditions=conditions,
        url=url(inputs.resource.owner, cluster_domain=inputs.settings.cluster_domain),
        replicas=known.engines.replicas,
        ready_replicas=known.engines.ready,
        ready=f"{known.engines.ready}/{known.wanted}",
        selector=selector_text(known.key.name, ENGINE),
        plan=PlanStatus.model_validate({**asdict(decided.plan), "asked": decided.asked}) if decided else None,
        engine=EngineStatus(image=decided.image, kv_cache=known.kv_cache) if decided else None,
    )
    looks = (*outcome.looks, *known.looks)
    again = replace(_again(known, status), looks=looks)
    return Report(status, again if again != After() else None)


def _condition(kind: ConditionType, verdict: Verdict, inputs: Inputs) -> Condition:
    before = inputs.resource.status.condition(kind)
    unmoved = before is not None and before.status == verdict.status
    now = inputs.now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return Condition(
        type=kind,
        status=verdict.status,
        reason=verdict.reason,
        message=verdict.message[:MAX_MESSAGE_LENGTH],
        observed_generation=inputs.resource.generation,
        last_transition_time=before.last_transition_time if before and unmoved else now,
    )


def _again(known: Facts, status: Status) -> After:
    """Look again at what is in the way, and when a deadline passes."""
    if known.failures:
        return After(max(failure.retry_after for failure in known.failures), backoff=True)
    if known.blocked is not None:
        return After(RECHECK.total_seconds())
    stalling = progress_deadline(replace(known, previous=status))  # it may begin with this very status
    due = [moment - known.now for moment in (stalling, *known.due) if moment and moment > known.now]
    return After(min(due).total_seconds()) if due else After()
