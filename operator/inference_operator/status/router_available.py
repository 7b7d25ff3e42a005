"""Condition RouterAvailable: whether a router is ready."""

from inference_operator.api.explanations import with_cure
from inference_operator.api.reasons import Reason
from inference_operator.diagnosis.pod_diagnosis import cure_of
from inference_operator.status.facts import Facts, rejection_reason
from inference_operator.status.verdict import Verdict


def router_available(facts: Facts) -> Verdict:
    """Whether a router is ready, and why not."""
    if facts.path.external:
        return Verdict("True", Reason.EXTERNAL_ROUTING, _external(facts))
    ready, wanted = facts.routers.ready, facts.routers.desired
    problem = facts.router_diagnosis
    if ready > 0:
        counted = f"{ready} of {wanted} routers are ready."
        return Verdict("True", Reason.SERVING, f"{counted} {problem.message}" if problem else counted)
    if facts.routers.rejection:
        reason = rejection_reason(facts.routers)
        message = f"Kubernetes refuses a router's pod: {facts.routers.rejection}"
        return Verdict("False", reason, with_cure(message, cure_of(reason)))
    if problem:
        return Verdict("False", problem.reason, f"No router is ready. {problem.message}")
    return Verdict("False", Reason.ROUTER_UNAVAILABLE, "No router is ready.")


def _external(facts: Facts) -> str:
    """Where a Gateway or another router finds the engines."""
    path = facts.path
    return (
        f"No router runs: `spec.router.strategy` is `External`. Send requests to port {path.engine_port} of the pods"
        f" with the labels {path.engines_selector}. The Service {facts.key.name} selects them too."
    )
