"""EnginesAvailable: whether as many engines as wanted are ready."""

from inference_operator.api.reasons import ConditionType, Reason
from inference_operator.resources.names import ENGINE
from inference_operator.status.facts import Facts, rejection_reason
from inference_operator.status.verdict import Verdict


def engines_available(facts: Facts) -> Verdict:
    """Count the engines."""
    wanted, ready = facts.wanted, facts.engines.ready
    if facts.refusal and not facts.engines.exists:
        return Verdict("False", facts.refusal.reason, "There are no engines: the specification cannot be served.")
    if facts.at_zero:
        return Verdict("True", Reason.SCALED_TO_ZERO, "No engine is wanted.")
    if facts.standstill:
        return Verdict("False", Reason.ENGINE_STALLED, f"{facts.standstill}; it is being replaced.")
    counted = f"{ready} of {wanted} engines are ready."
    stalled = _stalled_before(facts)
    if ready >= wanted and not stalled:
        return Verdict("True", Reason.SERVING, counted)
    if facts.engines.rejection:
        return Verdict("False", rejection_reason(facts.engines), f"{counted} {facts.rejection}")
    if facts.stuck and facts.stuck.pod.component == ENGINE:
        return Verdict("False", facts.stuck.reason, f"{counted} {facts.stuck.message}")
    if stalled:
        return Verdict("False", Reason.ENGINE_STALLED, stalled)
    return Verdict("False", Reason.STARTING if ready == 0 else Reason.ENGINES_UNAVAILABLE, counted)


def _stalled_before(facts: Facts) -> str:
    """What was told of an engine that stood still, until the one that replaces it is ready."""
    before = facts.previous.condition(ConditionType.ENGINES_AVAILABLE)
    told = before is not None and before.reason == Reason.ENGINE_STALLED and facts.replacing
    return before.message if before and told else ""
