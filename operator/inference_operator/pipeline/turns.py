"""How far an InferenceDeployment is in a change of the owner."""

from dataclasses import replace
from datetime import timedelta

from inference_operator.api.reasons import ConditionType, Reason
from inference_operator.fleet.rollout_slots import FleetState
from inference_operator.fleet.turn import state_of_turns
from inference_operator.objects.pinned import PinUse
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.outcomes import Outcome, Planned
from inference_operator.pipeline.turn_inputs import turn_inputs, workloads_by_role

TURN_RECHECK = timedelta(seconds=15)
"""Interval between two looks at a turn, of which few run at a time. It ends by conditions of the status too, whose
writes cause no event."""


def with_fleet_state(inputs: Inputs, outcome: Outcome) -> Outcome:
    """The outcome with how far a change of the owner's settings is, and when to look at that again."""
    state = _state(inputs, outcome)
    if state not in {FleetState.ROLLING, FleetState.FAILED}:
        return replace(outcome, fleet_state=state)
    due = filter(None, (outcome.recheck_at, inputs.now + TURN_RECHECK))
    return replace(outcome, fleet_state=state, recheck_at=min(due))


def _state(inputs: Inputs, outcome: Outcome) -> FleetState:
    observed = state_of_turns(workloads_by_role(inputs), turn_inputs(inputs))
    if not isinstance(outcome, Planned) or outcome.is_frozen:
        # nothing is changed: only pods that are being replaced count
        return observed if observed is FleetState.ROLLING else FleetState.UNDECIDED
    uses = {outcome.router_use, *(role.template_use for role in outcome.roles)}
    if PinUse.SETTINGS in uses:
        return FleetState.FAILED if _is_rejected(inputs) else FleetState.ROLLING
    return FleetState.WAITING if PinUse.HELD in uses else observed


def _is_rejected(inputs: Inputs) -> bool:
    """Whether a child cannot be written. A turn that was not written cannot end."""
    condition = inputs.resource.status.condition(ConditionType.STALLED)
    return condition is not None and condition.reason in {Reason.CHILD_REJECTED, Reason.NAME_CONFLICT}
