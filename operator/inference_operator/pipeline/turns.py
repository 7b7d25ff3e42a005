"""How far an InferenceDeployment is in a change of the owner."""

from datetime import timedelta

from inference_operator.api.reasons import ConditionType, Reason
from inference_operator.fleet.rollout_slots import FleetState, state_of_turns
from inference_operator.objects.pinned import PinUse
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.outcomes import Outcome, Planned
from inference_operator.pipeline.part import Feature, Part
from inference_operator.pipeline.turn_inputs import turn_inputs, workloads_by_role

TURN_RECHECK = timedelta(seconds=15)
"""Interval between two looks at a turn, of which few run at a time. It ends by conditions of the status too, whose
writes cause no event."""


def fleet_turn(inputs: Inputs, verdict: Outcome) -> Part:
    state = _state(inputs, verdict)
    is_turn = state in {FleetState.ROLLING, FleetState.FAILED}
    return Part(feature=Feature.FLEET, fleet_state=state, due=inputs.now + TURN_RECHECK if is_turn else None)


def _state(inputs: Inputs, verdict: Outcome) -> FleetState:
    observed = state_of_turns(workloads_by_role(inputs), turn_inputs(inputs))
    if not isinstance(verdict, Planned) or verdict.is_frozen:
        # nothing is changed: only pods that are being replaced count
        return observed if observed is FleetState.ROLLING else FleetState.UNDECIDED
    uses = {verdict.router.use, *(role.used.use for role in verdict.roles)}
    if PinUse.SETTINGS in uses:
        stalled = inputs.resource.status.condition(ConditionType.STALLED)
        is_written = stalled is None or stalled.reason not in {Reason.CHILD_REJECTED, Reason.NAME_CONFLICT}
        return FleetState.ROLLING if is_written else FleetState.FAILED  # what was not written cannot end
    return FleetState.WAITING if PinUse.HELD in uses else observed
