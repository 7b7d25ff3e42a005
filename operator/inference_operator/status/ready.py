"""Ready: whether a request gets an answer."""

from inference_operator.api.reasons import ConditionType, Reason
from inference_operator.status.facts import Facts
from inference_operator.status.verdict import Verdict


def ready(facts: Facts) -> Verdict:
    """Decide whether a request gets an answer, and say what is missing where not."""
    if facts.wanted == 0 and facts.refusal is None:
        return _scaled_to_zero(facts)
    if facts.serving:
        message = f"{facts.engines.ready} of {facts.wanted} engines serve."
        return Verdict("True", Reason.SERVING, f"{message} {facts.notice}".strip())
    if facts.refusal:
        return Verdict("False", facts.refusal.reason, facts.refusal.message)
    if facts.engines.ready:
        return Verdict("False", Reason.ROUTER_UNAVAILABLE, "Engines are ready, but no router is.")
    if _has_served(facts):
        return Verdict("False", Reason.ENGINES_UNAVAILABLE, "Engines have served before; none is ready now.")
    return Verdict("False", Reason.STARTING, f"Waiting for the first of {facts.wanted} engines.")


def _scaled_to_zero(facts: Facts) -> Verdict:
    if facts.routers.ready:
        return Verdict("True", Reason.SCALED_TO_ZERO, "No engine is wanted; raise `spec.replicas` to serve.")
    return Verdict("False", Reason.ROUTER_UNAVAILABLE, "No engine is wanted, and no router is ready.")


_AFTER_SERVING = frozenset({Reason.SERVING, Reason.ENGINES_UNAVAILABLE, Reason.ROUTER_UNAVAILABLE})


def _has_served(facts: Facts) -> bool:
    """The Ready condition itself remembers: once served, the reason never goes back to `Starting`."""
    before = facts.previous.condition(ConditionType.READY)
    return before is not None and before.reason in _AFTER_SERVING
