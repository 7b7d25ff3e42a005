"""Conditions RouterAvailable and Exposed: whether a router is ready, and is reached from outside the cluster."""

from inference_operator.api.explanations import with_cure
from inference_operator.api.reasons import Reason
from inference_operator.chain import Chain
from inference_operator.diagnosis.pending_causes import rejection_reason
from inference_operator.diagnosis.pod_diagnosis import cure_of
from inference_operator.sentences import sentences
from inference_operator.status.observation import ConditionVerdict, Observation


def _external(observation: Observation) -> ConditionVerdict | None:
    """A Gateway or another router sends requests. The message names where it finds the engines."""
    path = observation.path
    if not path.external:
        return None
    message = (
        f"No router runs: `spec.router.strategy` is `External`. Send requests to port {path.engine_port} of the pods"
        f" with the labels {path.engines_selector}. The Service {observation.key.name} selects them too."
    )
    return ConditionVerdict("True", Reason.EXTERNAL_ROUTING, message)


def _serving(observation: Observation) -> ConditionVerdict | None:
    ready, problem = observation.routers.ready, observation.router_problem
    if ready == 0:
        return None
    counted = f"{ready} of {observation.routers.desired} routers are ready."
    return ConditionVerdict("True", Reason.SERVING, sentences(counted, problem.message if problem else ""))


def _pod_refused(observation: Observation) -> ConditionVerdict | None:
    """Kubernetes rejects the pod of a router."""
    rejection = observation.routers.rejection
    if not rejection:
        return None
    reason = rejection_reason(rejection)
    message = with_cure(f"Kubernetes refuses a router's pod: {rejection}", cure_of(reason))
    return ConditionVerdict("False", reason, message)


def _pod_problem(observation: Observation) -> ConditionVerdict | None:
    """The pod of a router does not run."""
    problem = observation.router_problem
    if problem is None:
        return None
    return ConditionVerdict("False", problem.reason, sentences("No router is ready.", problem.message))


def _not_ready(_: Observation) -> ConditionVerdict:
    return ConditionVerdict("False", Reason.ROUTER_UNAVAILABLE, "No router is ready.")


router_available: Chain[Observation, ConditionVerdict] = Chain(
    (_external, _serving, _pod_refused, _pod_problem), otherwise=_not_ready
)
"""Whether a router is ready, and why not."""


def _without_address(observation: Observation) -> ConditionVerdict | None:
    """An object that exposes the router has no address."""
    missing = [exposure for exposure in observation.path.exposures if exposure.reason is not Reason.EXPOSED]
    if not missing:
        return None
    return ConditionVerdict("False", missing[0].reason, sentences(*(exposure.message for exposure in missing)))


def _exposed(observation: Observation) -> ConditionVerdict | None:
    exposures = observation.path.exposures
    if not exposures:
        return None
    return ConditionVerdict("True", Reason.EXPOSED, sentences(*(exposure.message for exposure in exposures)))


exposed: Chain[Observation, ConditionVerdict | None] = Chain((_without_address,), otherwise=_exposed)
"""Whether each object that exposes the router has an address; None if clients are inside the cluster only."""
