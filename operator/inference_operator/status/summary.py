"""The summary of all conditions: one reason and one message, which `kubectl get` prints.

Ready says whether a request would be answered. Beside it something else may be wrong, such as a refused edit. So:

1. Stalled, if it is True: waiting does not help.
2. Reconciling, if it is True: work goes on, or waits for what its message names.
3. A condition of `DETAILS` that is False, or has a reason of `NOTICES`, in the order of `DETAILS`.
4. Ready.
"""

from collections.abc import Mapping

from inference_operator.api.reasons import ConditionType, Reason
from inference_operator.status.observation import ConditionVerdict

DETAILS = (
    ConditionType.ENGINES_AVAILABLE,
    ConditionType.ROUTER_AVAILABLE,
    ConditionType.EXPOSED,
    ConditionType.SCALING_ACTIVE,
    ConditionType.ADAPTERS_AVAILABLE,
)
NOTICES = frozenset(
    {Reason.ROUTER_VULNERABLE, Reason.NETWORK_DEVICES_UNUSED, Reason.METRICS_MISSING, Reason.CAPACITY_LIMITED}
)
"""Reasons with which a condition is True, and somebody should act."""
_WITHOUT_TROUBLE = frozenset({Reason.PAUSED, Reason.SCALED_TO_ZERO})
"""Reasons of Ready that explain all other conditions."""


def summary(verdicts: Mapping[ConditionType, ConditionVerdict]) -> ConditionVerdict:
    ready = verdicts[ConditionType.READY]
    for kind in (ConditionType.STALLED, ConditionType.RECONCILING):
        if verdicts[kind].status == "True":
            return verdicts[kind]
    if ready.reason in _WITHOUT_TROUBLE:
        return ready
    details = (verdicts[kind] for kind in DETAILS if kind in verdicts)
    return next((detail for detail in details if detail.status == "False" or detail.reason in NOTICES), ready)
