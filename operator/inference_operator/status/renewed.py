"""Condition Renewed: how far a change of the owner's settings is. It is reported only while one is not done."""

from collections.abc import Mapping

from inference_operator.api.explanations import EXPLANATIONS, with_cure
from inference_operator.api.reasons import Reason
from inference_operator.fleet.brake import FleetState
from inference_operator.status.observation import ConditionVerdict, Observation

_REASONS: Mapping[FleetState, Reason] = {
    FleetState.WAITING: Reason.WAITING_FOR_TURN,
    FleetState.ROLLING: Reason.ROLLING_OUT,
    FleetState.FAILED: Reason.ROLLOUT_STOPPED,
}
_ROLLING = "Pods are being replaced, because the operator's settings have changed."


def renewed(observation: Observation) -> ConditionVerdict | None:
    """Why pods are not as the owner's settings say; None if they are, or if nothing is decided.

    The message tells nothing of other InferenceDeployments, which may be of other users.
    """
    reason = _REASONS.get(observation.fleet_state)
    if reason is None:
        return None
    if reason is Reason.ROLLING_OUT:
        return ConditionVerdict("False", reason, _ROLLING)
    explained = EXPLANATIONS[reason]
    return ConditionVerdict("False", reason, with_cure(explained.cause, explained.cure))
