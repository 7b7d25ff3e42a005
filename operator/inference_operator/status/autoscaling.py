"""`status.autoscaling`: the last decision about the number of engines."""

from datetime import UTC

from inference_operator.api.autoscaling import AutoscalingSpec
from inference_operator.api.spec import Spec
from inference_operator.api.status import AutoscalingStatus
from inference_operator.autoscaling.request import ScalingResult, start_seconds
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.outcomes import Outcome, Planned

SET_BY_OTHERS = "`spec.replicas`, as the other autoscaler sets it"
FIRST_NUMBER = "the first number of engines, until the demand has been observed"


def autoscaling_status(inputs: Inputs, outcome: Outcome) -> AutoscalingStatus | None:
    """The last decision. It changes with the number of engines, and with a start that took much longer or shorter."""
    spec, before = inputs.resource.spec, inputs.resource.status.autoscaling
    if not isinstance(outcome, Planned):
        return before
    if not isinstance(spec, Spec) or spec.autoscaling is None:
        return None
    role = outcome.roles[0]
    start = start_seconds(before, role.pods)
    measured = None if start is None else int(start)
    if before is not None and before.desired_replicas == role.replicas:
        return before.model_copy(update={"start_seconds": measured})
    return AutoscalingStatus(
        desired_replicas=role.replicas,
        reason=SET_BY_OTHERS if inputs.autoscaler else _reason(spec.autoscaling, inputs.scaling, role.replicas),
        last_scale_time=inputs.now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        start_seconds=measured,
    )


def _reason(limits: AutoscalingSpec, result: ScalingResult | None, replicas: int) -> str:
    if result is not None and result.decision.replicas == replicas:
        return result.decision.reason
    if replicas == limits.min_replicas:
        return "`autoscaling.minReplicas`"
    if replicas == limits.max_replicas:
        return "`autoscaling.maxReplicas`"
    return FIRST_NUMBER if result is None else result.decision.reason
