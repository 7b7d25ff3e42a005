"""The number of engines of a role: everything that was observed of its autoscaling, and the replicas that follow."""

from dataclasses import dataclass

from inference_operator.api.drill import Drill, drill_of
from inference_operator.api.reasons import ConditionType
from inference_operator.api.spec import Spec
from inference_operator.api.status import AutoscalingStatus
from inference_operator.autoscaling.conflict import ScalingConflict, scale_writers, scaling_conflict
from inference_operator.autoscaling.external import external_ref
from inference_operator.autoscaling.external_state import ExternalState, external_state
from inference_operator.autoscaling.inputs import Floor, ScalingResult, autoscaled_replicas, floor_at
from inference_operator.manifest import Manifest
from inference_operator.objects.names import workload_name
from inference_operator.pipeline.inputs import Inputs
from inference_operator.planning.capacity import fixed_replicas
from inference_operator.roles.context import LiveRole, RoleContext
from inference_operator.roles.pinned_plan import PinnedPlan
from inference_operator.settings import Capacity


@dataclass(frozen=True, slots=True)
class ObservedScaling:
    """What scales a role, as observed; everything but a drill is None without autoscaling."""

    recorded: AutoscalingStatus | None = None
    result: ScalingResult | None = None
    """The latest decision of this process; None before the first one."""
    external: ExternalState | None = None
    """The state of a HorizontalPodAutoscaler or of KEDA; None if the specification requests neither."""
    conflict: ScalingConflict | None = None
    """Whether another autoscaler acts beside the operator; None where the operator does not decide."""
    floor: Floor | None = None
    drill: Drill | None = None
    """What `infd drill` asks for at present; only of the role that `/scale` is about."""

    @property
    def is_frozen(self) -> bool:
        """Whether the live number of engines stays, since another autoscaler may act on the workload."""
        return self.conflict is not None and self.conflict.is_frozen


def observed_scaling(inputs: Inputs, stated: Spec, live: LiveRole) -> ObservedScaling:
    spec, status = stated.autoscaling, inputs.resource.status
    recorded = status.of_role(live.name, has_scale=live.has_scale).autoscaling
    result = inputs.scaling.get(live.name)
    drill = drill_of(inputs.resource.annotations, inputs.now) if live.has_scale else None
    if spec is None:
        return ObservedScaling(recorded, result, drill=drill)
    key, before = inputs.resource.key, status.condition(ConditionType.SCALING_ACTIVE)
    name = workload_name(key.name, live.name)
    return ObservedScaling(
        recorded=recorded,
        result=result,
        external=external_state(
            stated,
            inputs.owner,
            inputs.child(ref) if (ref := external_ref(spec, inputs.owner)) else None,
            inputs.unavailable_kinds,
            prometheus_url=inputs.settings.prometheus.url,
            now=inputs.now,
        )
        if live.has_scale
        else None,
        conflict=scaling_conflict(
            key, stated, name, live.workload, before, lookups=inputs.lookups, has_scale=live.has_scale
        ),
        floor=floor_at(spec, inputs.now),
        drill=drill,
    )


def desired_replicas(
    context: RoleContext, plan: PinnedPlan, scaling: ObservedScaling, pod_spec: Manifest
) -> tuple[int, int]:
    """The replicas that are wanted, and those to have: with fixed capacity at most as many as fit on the nodes."""
    live = context.live.workload
    current = context.live.view.desired if live else None
    if scaling.is_frozen and current is not None:
        return current, current
    capped = context.settings.capacity is Capacity.FIXED
    wanted = autoscaled_replicas(
        context.spec.stated,
        scaling.recorded,
        live=current,
        result=scaling.result,
        external=scaling.external,
        floor=scaling.floor,
        is_own=not (capped or scale_writers(live)),
    )
    if scaling.drill:
        wanted = min(wanted, scaling.drill.replicas)
    if not capped:
        return wanted, wanted
    return wanted, fixed_replicas(wanted, context.nodes, context.live.engines, pod_spec, plan=plan.plan)
