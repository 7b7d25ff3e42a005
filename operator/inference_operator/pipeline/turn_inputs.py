"""What decides about the turn of an InferenceDeployment in a change of the owner."""

from collections.abc import Sequence

from inference_operator.api.reasons import ConditionType
from inference_operator.api.spec import RolloutStrategy
from inference_operator.fleet.rollout_slots import TurnInputs, may_begin, recorded_turn
from inference_operator.manifest import Manifest
from inference_operator.objects.names import component_of
from inference_operator.pipeline.inputs import Inputs
from inference_operator.views.workload import WORKLOAD_KINDS, newest_first, role_view
from inference_operator.workload.eviction.rollout import ROLLOUT_ANNOTATION


def turn_inputs(inputs: Inputs) -> TurnInputs:
    """What is known about the InferenceDeployment. One that has begun may go on."""
    resource = inputs.resource
    by_role = workloads_by_role(inputs)
    in_turn = [workload for of_role in by_role for workload in of_role if recorded_turn(workload)]
    views = map(role_view, by_role)
    is_down = any(view.desired > 0 and view.ready == 0 for view in views)  # Ready is that of the former reconcile
    return TurnInputs(
        now=inputs.now,
        may_begin=bool(in_turn) or may_begin(inputs.shared.fleet, resource.key, inputs.settings.rollouts),
        is_ready=_is_true(inputs, ConditionType.READY) and not is_down,
        is_stalled=_is_true(inputs, ConditionType.STALLED),
        has_gap=any(map(_replaces_first, in_turn)),
    )


def workloads_by_role(inputs: Inputs) -> Sequence[Sequence[Manifest]]:
    by_role: dict[str, list[Manifest]] = {}
    for ref, live in inputs.children.items():
        if ref.kind in WORKLOAD_KINDS:
            by_role.setdefault(component_of(live), []).append(live)
    return [newest_first(of_role) for of_role in by_role.values()]


def _replaces_first(workload: Manifest) -> bool:
    rollout = ROLLOUT_ANNOTATION.read(workload)
    return rollout is not None and rollout.strategy is RolloutStrategy.REPLACE


def _is_true(inputs: Inputs, kind: ConditionType) -> bool:
    condition = inputs.resource.status.condition(kind)
    return condition is not None and condition.status == "True"
