"""Condition ScalingActive: whether the number of engines follows the demand."""

from dataclasses import dataclass

from inference_operator.api.conditions import Condition
from inference_operator.api.reasons import ConditionType, Reason
from inference_operator.chain import Chain
from inference_operator.manifest import Key
from inference_operator.sentences import first_of, sentences
from inference_operator.status.autoscaling import ScalingObservation
from inference_operator.status.observation import ConditionVerdict, Observation
from inference_operator.status.shared_rules import of_roles

MOST_NAMES = 5
"""Names of pods in a message."""

_CURE_OF_CONFLICT = (
    "Delete it, or set `autoscaling.backend` to `HPA` or `KEDA` to scale by one that the operator creates."
)


@dataclass(frozen=True, slots=True)
class _Scaled:
    key: Key
    scaling: ScalingObservation
    paused: bool
    before: Condition | None
    """The condition as it was; None where it is about several roles."""


def scaling_active(observation: Observation) -> ConditionVerdict | None:
    """The number of engines follows the demand; None without autoscaling."""
    before = observation.previous.condition(ConditionType.SCALING_ACTIVE) if len(observation.roles) == 1 else None
    verdicts = {
        name: _with_autoscaling(_Scaled(observation.key, scaling, observation.paused, before))
        for name, scaling in observation.scaling.items()
        if scaling.status
    }
    return of_roles(verdicts) if verdicts else None


def _paused(scaled: _Scaled) -> ConditionVerdict | None:
    message = "Paused: the number of engines stays while `spec.paused` is true."
    return ConditionVerdict("False", Reason.PAUSED, message) if scaled.paused else None


def _external(scaled: _Scaled) -> ConditionVerdict | None:
    """A HorizontalPodAutoscaler or KEDA decides, or should."""
    external = scaled.scaling.observed.external
    if external is None:
        return None
    message = sentences(external.message, f"{_wanted(scaled)}.")
    if external.reason is not Reason.FOLLOWING_AUTOSCALER:
        pending = external.reason is Reason.AUTOSCALER_PENDING
        return ConditionVerdict("Unknown" if pending else "False", external.reason, message)
    if scaled.scaling.without_gpu:
        return ConditionVerdict("True", Reason.CAPACITY_LIMITED, sentences(message, _capacity(scaled)))
    return ConditionVerdict("True", external.reason, sentences(message, _scheduled(scaled)))


def _conflict_on_workload(scaled: _Scaled) -> ConditionVerdict | None:
    """Another autoscaler acts on the Deployment, which the operator scales."""
    conflict = scaled.scaling.observed.conflict
    if conflict is None or not conflict.on_workload:
        return None
    names = " and ".join(map(str, conflict.on_workload[:MOST_NAMES]))
    message = sentences(
        f"{names} acts on the Deployment of the engines, so the operator leaves its number ({_wanted(scaled)}).",
        "It cannot see requests held in the routers.",
        _CURE_OF_CONFLICT,
    )
    return ConditionVerdict("False", Reason.AUTOSCALER_CONFLICT, message)


def _conflict_on_scale(scaled: _Scaled) -> ConditionVerdict | None:
    """Another autoscaler acts on the resource, without effect."""
    conflict = scaled.scaling.observed.conflict
    if conflict is None or not conflict.on_scale:
        return None
    names = " and ".join(map(str, conflict.on_scale[:MOST_NAMES]))
    what = f"acts on `/scale` of {scaled.key.name}, which has no effect with the backend `BuiltIn`"
    message = sentences(f"{names} {what} ({_wanted(scaled)}).", _CURE_OF_CONFLICT)
    return ConditionVerdict("True", Reason.AUTOSCALER_CONFLICT, message)


def _undecided(scaled: _Scaled) -> ConditionVerdict | None:
    """There was no sample yet, or it is open whether another autoscaler acts: what was reported before stays."""
    conflict = scaled.scaling.observed.conflict
    if scaled.scaling.observed.result is not None and not (conflict and conflict.is_frozen):
        return None
    before = scaled.before
    reason = _REASONS.get(before.reason) if before else None
    if before and reason and reason is not Reason.PAUSED:
        return ConditionVerdict(before.status, reason, before.message)
    message = "The metrics of routers and engines have not been read yet."
    return ConditionVerdict("Unknown", Reason.METRICS_PENDING, message)


_REASONS = {str(reason): reason for reason in Reason}


def _metrics_missing(scaled: _Scaled) -> ConditionVerdict | None:
    result = scaled.scaling.observed.result
    if result is None or not result.missing:
        return None
    names = first_of([f"`{name}`" for name in result.missing], MOST_NAMES)
    message = (
        f"The metrics of {names} cannot be read, so no engine is removed ({_wanted(scaled)})."
        " Check that the pods run, and that network policies admit the operator to them."
    )
    return ConditionVerdict("False", Reason.METRICS_MISSING, message)


def _following_demand(scaled: _Scaled) -> ConditionVerdict:
    message = sentences(_decision(scaled), _scheduled(scaled))
    if scaled.scaling.without_gpu:
        return ConditionVerdict("True", Reason.CAPACITY_LIMITED, sentences(message, _capacity(scaled)))
    return ConditionVerdict("True", Reason.FOLLOWING_DEMAND, sentences(message, _without_effect(scaled)))


_with_autoscaling: Chain[_Scaled, ConditionVerdict] = Chain(
    (_paused, _external, _conflict_on_workload, _conflict_on_scale, _undecided, _metrics_missing),
    otherwise=_following_demand,
)


def _decision(scaled: _Scaled) -> str:
    status = scaled.scaling.status
    return f"{_wanted(scaled)}: {status.reason}." if status else ""


def _wanted(scaled: _Scaled) -> str:
    status = scaled.scaling.status
    number = status.desired_replicas if status else 0
    return "1 engine is wanted" if number == 1 else f"{number} engines are wanted"


def _capacity(scaled: _Scaled) -> str:
    number = scaled.scaling.without_gpu
    return f"{number} of them have no GPU: add nodes, or lower `autoscaling.maxReplicas`."


def _scheduled(scaled: _Scaled) -> str:
    """Sentence about the schedule where it keeps more engines than `minReplicas` now; empty where it does not."""
    floor = scaled.scaling.observed.floor
    if floor is None or floor.entry is None:
        return ""
    until = f" until {floor.until:%Y-%m-%dT%H:%M:%SZ}" if floor.until else ""
    return f"`autoscaling.schedule[{floor.entry}]` keeps at least {floor.replicas}{until}."


def _without_effect(scaled: _Scaled) -> str:
    """Sentence about `spec.replicas` where it differs from the decision, and has no effect; empty where it does not."""
    scaling = scaled.scaling
    if scaling.status is None or scaling.requested in (None, scaling.status.desired_replicas):
        return ""
    limits = "`autoscaling.minReplicas` and `.maxReplicas`"
    return f"`spec.replicas` is {scaling.requested} and has no effect; {limits} have one."
