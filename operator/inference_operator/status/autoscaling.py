"""The state of autoscaling, and `status.autoscaling`: the last decision about the number of engines."""

from collections.abc import Sequence
from dataclasses import dataclass

from inference_operator.api.autoscaling import AutoscalingSpec
from inference_operator.api.conditions import time_text
from inference_operator.api.spec import Spec
from inference_operator.api.status import AutoscalingStatus, LoadStatus
from inference_operator.autoscaling.inputs import ScalingResult, start_seconds
from inference_operator.autoscaling.target import Target
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.replicas import ObservedScaling, observed_scaling
from inference_operator.pipeline.role import Role
from inference_operator.roles.context import LiveRole
from inference_operator.sizing.serving import TYPICAL_LOAD, Load
from inference_operator.views.engine import EngineView

SET_BY_OTHERS = "`spec.replicas`, as the other autoscaler sets it"
SET_ON_WORKLOAD = "the number of the Deployment, as the other autoscaler sets it"
FIRST_NUMBER = "the first number of engines, until the demand has been observed"
FACTOR_DIGITS = 3
"""Of the correction factor: its steps differ by a tenth."""
PERCENT_DIGITS = 1
"""Of parts of the requests in percent."""


@dataclass(frozen=True, slots=True)
class ScalingObservation:
    status: AutoscalingStatus | None
    """The last decision about the number of engines; None without autoscaling."""
    observed: ObservedScaling
    """The autoscalers, the schedule and the loop's result, from which the number is decided."""
    requested: int | None
    """`spec.replicas`, if `/scale` is about the role; None if not, or if the specification is invalid."""
    without_gpu: int
    """Engines that should run and have no node; 0 without autoscaling."""


def scaling_observation(
    inputs: Inputs,
    stated: Spec | None,
    live: LiveRole,
    decided: Role | None,
    *,
    target: Target | None,
    engines: Sequence[EngineView],
) -> ScalingObservation:
    observed = observed_scaling(inputs, stated, live) if stated else ObservedScaling()
    before = inputs.resource.status.of_role(live.name, has_scale=live.has_scale).autoscaling
    status = _status(inputs, decided, observed, before, target) if decided else before
    return ScalingObservation(
        status=status,
        observed=observed,
        requested=stated.replicas if stated and live.has_scale else None,
        without_gpu=_without_gpu(decided, engines) if status else 0,
    )


def _without_gpu(decided: Role | None, engines: Sequence[EngineView]) -> int:
    """Engines that wait for a node, and those that fixed capacity rules out."""
    capped = decided.change.wanted - decided.workload.replicas if decided else 0
    return max(0, capped) + sum(engine.is_unschedulable for engine in engines)


def _status(
    inputs: Inputs, role: Role, scaling: ObservedScaling, before: AutoscalingStatus | None, target: Target | None
) -> AutoscalingStatus | None:
    """The last decision.

    It changes with the number of engines, with the target of one, and with a start that took much longer or shorter.
    """
    limits = role.context.spec.stated.autoscaling
    if limits is None:
        return None
    if before and scaling.conflict and scaling.conflict.is_open:
        return before
    start = start_seconds(before, role.context.live.engines)
    known = {"start_seconds": None if start is None else int(start), **_target(target), **_kept(scaling.result)}
    if before is not None and before.desired_replicas == role.change.wanted:
        return before.model_copy(update=known)
    decided = AutoscalingStatus(
        desired_replicas=role.change.wanted,
        reason=_reason(scaling, limits, role.change.wanted),
        last_scale_time=time_text(inputs.now),
    )
    return decided.model_copy(update=known)


def _target(target: Target | None) -> dict[str, object]:
    if target is None:
        return {}
    factor = round(target.factor, FACTOR_DIGITS)
    return {
        "target_concurrency": round(target.concurrency),
        "target_bound": str(target.bound),
        "target_factor": None if factor == 1 else factor,
        "load": None if target.load == TYPICAL_LOAD else _load(target.load),
    }


def _kept(result: ScalingResult | None) -> dict[str, object]:
    """The parts of the requests by which the target was judged; nothing until then, so that the recorded ones stay."""
    judged = result.judged if result else None
    if judged is None:
        return {}
    return {
        name: round(100 * part, PERCENT_DIGITS)
        for name, part in (("attainable", judged.attainable), ("kept", judged.kept))
    }


def _load(load: Load) -> LoadStatus:
    return LoadStatus(
        prompt_tokens=round(load.prompt),
        answer_tokens=round(load.answer),
        cached=load.cached,
        prompt_spread=load.prompt_spread,
        answer_spread=load.answer_spread,
        accepted=load.accepted,
    )


def _reason(scaling: ObservedScaling, limits: AutoscalingSpec, replicas: int) -> str:
    result, floor = scaling.result, scaling.floor
    if scaling.external or scaling.is_frozen:
        return SET_BY_OTHERS if scaling.external else SET_ON_WORKLOAD
    if result is not None and result.decision.replicas == replicas:
        return result.decision.reason
    if floor is not None and replicas == floor.replicas:
        return f"`{floor.field}`"
    if replicas == limits.max_replicas:
        return "`autoscaling.maxReplicas`"
    return FIRST_NUMBER if result is None else result.decision.reason
