"""EnginesAvailable: whether as many engines as wanted are ready."""

from inference_operator.api.reasons import Reason
from inference_operator.resources.names import ENGINE
from inference_operator.status.facts import Facts
from inference_operator.status.verdict import Verdict


def engines_available(facts: Facts) -> Verdict:
    """Count the engines."""
    wanted, ready = facts.wanted, facts.engines.ready
    if facts.refusal and not facts.engines.exists:
        return Verdict("False", facts.refusal.reason, "There are no engines: the specification cannot be served.")
    if facts.at_zero:
        return Verdict("True", Reason.SCALED_TO_ZERO, "No engine is wanted.")
    counted = f"{ready} of {wanted} engines are ready."
    if ready >= wanted:
        return Verdict("True", Reason.SERVING, counted)
    if facts.engines.rejection:
        return Verdict("False", Reason.POD_REJECTED, f"{counted} Kubernetes refuses a pod: {facts.engines.rejection}")
    if facts.stuck and facts.stuck.pod.component == ENGINE:
        return Verdict("False", facts.stuck.reason, f"{counted} {facts.stuck.message}")
    return Verdict("False", Reason.STARTING if ready == 0 else Reason.ENGINES_UNAVAILABLE, counted)
