"""Condition Exposed: whether clients outside the cluster can reach the router."""

from inference_operator.api.reasons import Reason
from inference_operator.status.facts import Facts
from inference_operator.status.verdict import Verdict


def exposed(facts: Facts) -> Verdict | None:
    """Whether each object that exposes the router has an address; None if clients are inside the cluster only."""
    if not facts.path.exposures:
        return None
    missing = [exposure for exposure in facts.path.exposures if exposure.reason is not Reason.EXPOSED]
    if missing:
        return Verdict("False", missing[0].reason, " ".join(exposure.message for exposure in missing))
    return Verdict("True", Reason.EXPOSED, " ".join(exposure.message for exposure in facts.path.exposures))
