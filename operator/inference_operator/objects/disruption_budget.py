"""The budget within which nodes may be drained."""

from inference_operator.manifest import DISRUPTION_BUDGET, Manifest, Owner
from inference_operator.objects.child import child
from inference_operator.objects.names import selector_labels

FEWEST_REPLICAS = 2
"""With one replica a budget could only block a drain for ever, unless somebody opens it."""


def disruption_budget(name: str, component: str, *, owner: Owner, keeps: int | None = None) -> Manifest:
    """One pod of the component at a time, or a number of pods that stay; one that is not ready never blocks a drain.

    Args:
        name: its name.
        component: the component of the pods.
        owner: the owner of the pods.
        keeps: pods that stay ready; None to let one pod go while all that their workloads ask for are ready. That
            includes pods which are there only for a time (Kubernetes 1.36, pkg/controller/disruption/disruption.go,
            `getExpectedPodCount`).
    """
    content = {
        "spec": {
            **({"maxUnavailable": 1} if keeps is None else {"minAvailable": keeps}),
            "selector": {"matchLabels": selector_labels(owner.key.name, component)},
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        }
    }
    return child(DISRUPTION_BUDGET, name, owner=owner, component=component, content=content)
