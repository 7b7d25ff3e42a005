"""The budget within which nodes may be drained."""

from collections.abc import Iterable
from dataclasses import dataclass

from inference_operator.manifest import DISRUPTION_BUDGET, Manifest, Owner
from inference_operator.objects.child import child
from inference_operator.objects.names import selector_labels

FEWEST_REPLICAS = 2
"""With one replica a budget could only block a drain for ever, unless somebody opens it."""


@dataclass(frozen=True, slots=True)
class Budget:
    """How many pods of a component may go."""

    keeps: int = 0
    """Pods of the only replica, of which none goes while no other replica is ready; 0: one pod may go at a time."""
    temporary: int = 0
    """Pods above the wanted number that need not be ready for that. Kubernetes expects every pod of a workload to be
    (Kubernetes 1.36, pkg/controller/disruption/disruption.go, `getExpectedPodCount`)."""


def temporary_pods(workloads: Iterable[Manifest], wanted: int) -> int:
    """The pods that these Deployments and StatefulSets have above the wanted number.

    Examples:
        >>> temporary_pods([{"spec": {"replicas": 3}}], wanted=2)
        1
    """
    made: int = sum(one["spec"].get("replicas", 1) for one in workloads)
    return max(0, made - wanted)


def disruption_budget(name: str, component: str, budget: Budget, *, owner: Owner) -> Manifest:
    """One pod of the component at a time; a pod that is not ready never blocks a drain.

    Args:
        name: its name.
        component: the component of the pods.
        budget: how many of them may go.
        owner: the owner of the pods.
    """
    content = {
        "spec": {
            **({"minAvailable": budget.keeps} if budget.keeps else {"maxUnavailable": 1 + budget.temporary}),
            "selector": {"matchLabels": selector_labels(owner.key.name, component)},
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        }
    }
    return child(DISRUPTION_BUDGET, name, owner=owner, component=component, content=content)
