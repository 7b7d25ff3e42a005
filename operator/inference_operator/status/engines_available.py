"""Condition EnginesAvailable: whether as many engines as desired are ready."""

from collections.abc import Sequence

from inference_operator.api.reasons import ConditionType, Reason
from inference_operator.objects.names import ROUTER
from inference_operator.status.facts import Facts, rejection_reason
from inference_operator.status.verdict import Verdict


def engines_available(facts: Facts) -> Verdict:
    """Whether enough engines are ready, and why not."""
    desired, ready = facts.desired, facts.engines.ready
    if facts.refusal and not facts.engines.exists:
        return Verdict("False", facts.refusal.reason, "There are no engines: the specification cannot be served.")
    if facts.at_zero:
        return Verdict("True", Reason.SCALED_TO_ZERO, "Scaled to zero.")
    if facts.stall:
        return Verdict("False", Reason.ENGINE_STALLED, f"{facts.stall}; it is being replaced.")
    counted = " ".join([f"{ready} of {desired} engines are ready.", *_out_of_traffic(facts)])
    replaced = _stall_before(facts)
    if ready >= desired and not replaced:
        return _enough_ready(facts, counted)
    if facts.engines.rejection:
        return Verdict("False", rejection_reason(facts.engines), f"{counted} {facts.rejection}")
    if facts.diagnosis and facts.diagnosis.pod.component != ROUTER:
        return Verdict("False", facts.diagnosis.reason, f"{counted} {facts.diagnosis.message}")
    if replaced:
        return Verdict("False", Reason.ENGINE_STALLED, replaced)
    return Verdict("False", Reason.STARTING if ready == 0 else Reason.ENGINES_UNAVAILABLE, counted)


def _unread(facts: Facts) -> str:
    """That an engine that hangs would not be found, and how to cure it; empty if all metrics can be read."""
    if not facts.unread:
        return ""
    return (
        f" The metrics of {facts.unread} of them cannot be read, so an engine that hangs is not found: "
        "let the operator's pods reach the port `http` of engines (NetworkPolicies, service mesh)."
    )


def _enough_ready(facts: Facts, counted: str) -> Verdict:
    if facts.out_of_traffic:
        return Verdict("False", Reason.ENGINE_NOT_PROGRESSING, counted)
    return Verdict("True", Reason.SERVING, f"{counted}{_unread(facts)}")


def _out_of_traffic(facts: Facts) -> Sequence[str]:
    return [f"Pod `{name}` makes no progress and gets no new requests." for name in facts.out_of_traffic]


def _stall_before(facts: Facts) -> str:
    """The message about a stalled engine, until its replacement is ready; empty if there is none."""
    before = facts.previous.condition(ConditionType.ENGINES_AVAILABLE)
    stalled = before is not None and before.reason == Reason.ENGINE_STALLED and facts.replacing
    return before.message if before and stalled else ""
