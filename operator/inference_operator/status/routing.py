"""Conditions RouterAvailable and Exposed: whether a router is ready, and is reached from outside the cluster."""

from collections.abc import Sequence

from inference_operator.api.explanations import with_cure
from inference_operator.api.reasons import Reason
from inference_operator.api.router import RouterStrategy
from inference_operator.chain import Chain
from inference_operator.diagnosis.pending_causes import rejection_reason
from inference_operator.diagnosis.pod_diagnosis import cure_of
from inference_operator.router.exposure import Exposure
from inference_operator.router.security_revision import open_attacks
from inference_operator.sentences import sentences
from inference_operator.status.observation import ConditionVerdict, Observation
from inference_operator.status.shared_rules import ready_of
from inference_operator.views.raw import mapping, objects


def _external(observation: Observation) -> ConditionVerdict | None:
    """A Gateway or another router sends requests. The message names where it finds the engines."""
    spec, bypasses = observation.spec, observation.inputs.bypasses_routers
    if not (spec.router.strategy is RouterStrategy.EXTERNAL if spec else bypasses):
        return None
    services = [mapping(role.live.service or {}, "spec") for role in observation.roles]
    ports = " or ".join(next((str(port["port"]) for port in objects(service, "ports")), "0") for service in services)
    labels = (sorted(mapping(service, "selector").items()) for service in services)
    selectors = " or ".join(",".join(f"{name}={value}" for name, value in selector) for selector in labels)
    message = (
        f"No router runs: `spec.router.strategy` is `External`. Send requests to port {ports} of the pods"
        f" with the labels {selectors}. The Service {observation.key.name} selects them too."
    )
    return ConditionVerdict("True", Reason.EXTERNAL_ROUTING, message)


def _available(observation: Observation) -> ConditionVerdict | None:
    """Routers serve, perhaps with a pod template or configuration that this release would build otherwise."""
    routers, key = observation.routers, observation.key
    if not routers.ready:
        return None
    counted, attacks = _counted(observation), open_attacks(observation.inputs.router_deployment)
    if routers.rolling:
        updated = routers.updated if routers.observed else 0  # until then the number is that of the earlier template
        message = f"{updated} of {routers.desired} have the latest pod template."
        return ConditionVerdict("True", Reason.ROLLING_OUT, sentences(counted, message))
    if attacks or observation.routers_outdated:
        why = (
            f"They do not close attacks that this release closes: {'; '.join(attacks)}."
            if attacks
            else "They keep their pod template and configuration. This release, or its settings, would build others."
        )
        cure = f"To replace them one by one, run `infd renew --routers -n {key.namespace} {key.name}`."
        reason = Reason.ROUTER_VULNERABLE if attacks else Reason.ROUTER_OUTDATED
        return ConditionVerdict("True", reason, sentences(counted, why, cure))
    older = any(sample.is_older for sample in observation.inputs.samples.routers.values())
    return ConditionVerdict("True", Reason.SERVING, sentences(counted, _OLDER if older else ""))


_OLDER = (
    "Their HAProxy is older than 3.4: it reads only the start of a long body, for adapters and affinity. A router image"
    " with 3.4 (chart value `router.image`) reads all of it."
)


def _counted(observation: Observation) -> str:
    routers, problem = observation.routers, observation.diagnoses.router_problem
    ready = min(routers.ready, routers.desired)  # a temporary one may be ready too
    return sentences(ready_of(ready, routers.desired, "router"), problem.message if problem else "")


def _pod_refused(observation: Observation) -> ConditionVerdict | None:
    rejection = observation.routers.rejection
    if not rejection:
        return None
    reason = rejection_reason(rejection)
    message = with_cure(f"Kubernetes refuses a router's pod: {rejection}", cure_of(reason))
    return ConditionVerdict("False", reason, message)


def _pod_problem(observation: Observation) -> ConditionVerdict | None:
    problem = observation.diagnoses.router_problem
    if problem is None:
        return None
    is_explained = problem is observation.problem  # by Reconciling or Stalled, since no router is ready
    return ConditionVerdict(
        "False", problem.reason, sentences("No router is ready.", "" if is_explained else problem.message)
    )


router_available: Chain[Observation, ConditionVerdict] = Chain(
    (_external, _available, _pod_refused, _pod_problem),
    otherwise=lambda _: ConditionVerdict("False", Reason.ROUTER_UNAVAILABLE, "No router is ready."),
)


def exposed(exposures: Sequence[Exposure]) -> ConditionVerdict | None:
    """Whether each object that exposes routers has an address; None if clients are inside the cluster only."""
    if not exposures:
        return None
    missing = [exposure for exposure in exposures if exposure.reason is not Reason.EXPOSED]
    message = sentences(*(exposure.message for exposure in missing or exposures))
    return ConditionVerdict("False" if missing else "True", (missing or exposures)[0].reason, message)
