"""The turn of an InferenceDeployment in a change of the owner: what decides about it, and how far it is."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from inference_operator.api.reasons import ConditionType, Reason
from inference_operator.fleet.brake import FleetState, may_begin
from inference_operator.fleet.turn import TurnInputs, recorded_turn, state_of_turns
from inference_operator.manifest import Manifest
from inference_operator.objects.pinned import PinUse
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.outcomes import Outcome, Planned
from inference_operator.views.workload import WORKLOAD_KINDS, WorkloadView, role_view

TURN_RECHECK = timedelta(seconds=15)
"""Interval between two looks at a turn, of which few run at a time. It ends by conditions of the status too, whose
writes cause no event."""


def turn_inputs(inputs: Inputs) -> TurnInputs:
    """What is known about the InferenceDeployment. One that has begun may go on."""
    resource = inputs.resource
    views = (role_view(inputs.workloads()), inputs.routers)
    has_begun = any(recorded_turn(one) for one in _workloads(inputs))
    return TurnInputs(
        now=inputs.now,
        may_begin=has_begun or may_begin(inputs.fleet, resource.key, inputs.settings.rollouts),
        is_edited=resource.generation != resource.status.observed_generation,
        is_ready=_is_true(inputs, ConditionType.READY) and not any(map(_is_down, views)),
        is_stalled=_is_true(inputs, ConditionType.STALLED),
    )


def with_fleet_state(inputs: Inputs, outcome: Outcome) -> Outcome:
    """The outcome with how far a change of the owner's settings is, and when to look at that again."""
    state = _state(inputs, outcome)
    if state not in {FleetState.ROLLING, FleetState.FAILED}:
        return replace(outcome, fleet_state=state)
    due = filter(None, (outcome.recheck_at, inputs.now + TURN_RECHECK))
    return replace(outcome, fleet_state=state, recheck_at=min(due))


def _state(inputs: Inputs, outcome: Outcome) -> FleetState:
    observed = state_of_turns(_workloads(inputs), turn_inputs(inputs))
    if not isinstance(outcome, Planned):  # nothing is changed: only pods that are being replaced count
        return observed if observed is FleetState.ROLLING else FleetState.UNDECIDED
    if outcome.router_use is PinUse.HELD:
        return FleetState.WAITING
    if outcome.router_use is PinUse.SETTINGS:
        return FleetState.FAILED if _is_rejected(inputs) else FleetState.ROLLING
    return observed


def _is_rejected(inputs: Inputs) -> bool:
    """Whether a child cannot be written. A turn that was not written cannot end."""
    condition = inputs.resource.status.condition(ConditionType.STALLED)
    return condition is not None and condition.reason in {Reason.CHILD_REJECTED, Reason.NAME_CONFLICT}


def _workloads(inputs: Inputs) -> Sequence[Manifest]:
    return [live for ref, live in inputs.children.items() if ref.kind in WORKLOAD_KINDS]


def _is_down(workload: WorkloadView) -> bool:
    """Whether no pod is ready of those that should be: the condition Ready is that of the former reconcile."""
    return workload.desired > 0 and workload.ready == 0


def _is_true(inputs: Inputs, kind: ConditionType) -> bool:
    condition = inputs.resource.status.condition(kind)
    return condition is not None and condition.status == "True"
