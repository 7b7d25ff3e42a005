"""Findings from pods and resources of the namespace, and from a pod that asks from inside: image pull, DNS, hub."""

from collections.abc import Iterator

from inference_operator.api.explanations import EXPLANATIONS
from inference_operator.api.reasons import ConditionType, Reason
from inference_operator.cli.doctor.facts import ClusterFacts, Finding, Health, name_of, unseen
from inference_operator.manifest import INFERENCE_DEPLOYMENT, POD
from inference_operator.views.raw import condition, mapping, objects
from inference_operator.views.untrusted_text import one_line

PULL_ERRORS = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "RegistryUnavailable"})
"""Reasons of a waiting container (Kubernetes 1.36, `pkg/kubelet/images/types.go`)."""
PROBE = "Pod in the cluster"


def images(facts: ClusterFacts) -> Iterator[Finding]:
    """The findings about images that pods of the namespace cannot pull."""
    yield from unseen("Image pull", facts.of(POD))
    failed = {
        str(state.get("image") or "?"): (name_of(pod), one_line(waiting.get("message")))
        for pod in facts.pods
        for state in _container_states(pod)
        if (waiting := mapping(mapping(state, "state"), "waiting")).get("reason") in PULL_ERRORS
    }
    for image, (pod, message) in sorted(failed.items()):
        cure = EXPLANATIONS[Reason.IMAGE_PULL_FAILED].cure
        yield Finding("Image pull", Health.BAD, f"{pod} cannot pull {image}: {message}", cure)
    if facts.pods and not failed:
        yield Finding("Image pull", Health.GOOD, f"None of {len(facts.pods)} pods fails to pull its images.")


def _container_states(pod: dict[str, object]) -> Iterator[dict[str, object]]:
    status = mapping(pod, "status")
    yield from objects(status, "initContainerStatuses")
    yield from objects(status, "containerStatuses")


def hub(facts: ClusterFacts) -> Iterator[Finding]:
    """The findings about the hub, as far as the resources of the namespace tell."""
    resolved = [
        (name_of(one), condition(mapping(one, "status"), ConditionType.MODEL_RESOLVED))
        for one in facts.seen(INFERENCE_DEPLOYMENT)
    ]
    failed = [name for name, state in resolved if state.get("reason") == Reason.HUB_UNREACHABLE]
    if failed:
        message = f"Pods of {', '.join(failed)} do not reach the hub."
        yield Finding("Hub", Health.BAD, message, EXPLANATIONS[Reason.HUB_UNREACHABLE].cure)
    elif facts.probe is None:
        cure = "infd doctor --cluster asks the hub from a pod."
        yield Finding("Hub", Health.UNKNOWN, "No resource tells whether pods reach the hub.", cure)


def probe(facts: ClusterFacts) -> Iterator[Finding]:
    """The findings of the pod that asked from inside."""
    found = facts.probe
    if found is None:
        return
    if found.problem:
        yield Finding(PROBE, Health.BAD, f"It did not run: {found.problem}", "kubectl get events shows more.")
        return
    yield Finding(PROBE, Health.GOOD, "It was scheduled, and its image was pulled.")
    if found.dns_error:
        cure = "Look at the pods of CoreDNS, and at NetworkPolicies that deny port 53."
        yield Finding("DNS from a pod", Health.BAD, f"It resolves no Service: {found.dns_error}.", cure)
    else:
        yield Finding("DNS from a pod", Health.GOOD, "It resolves Services.")
    if found.hub_error:
        yield Finding(
            "Hub",
            Health.BAD,
            f"It does not reach the hub: {found.hub_error}.",
            EXPLANATIONS[Reason.HUB_UNREACHABLE].cure,
        )
    else:
        yield Finding("Hub", Health.GOOD, "It reaches the hub.")
