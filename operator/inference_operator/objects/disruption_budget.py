"""The budget within which nodes may be drained."""

from inference_operator.manifest import DISRUPTION_BUDGET, Manifest, Owner
from inference_operator.objects.child import child
from inference_operator.objects.names import selector_labels

FEWEST_REPLICAS = 2
"""With one replica a budget could only block a drain for ever, unless somebody opens it."""


def disruption_budget(name: str, component: str, *, owner: Owner, keeps: int = 0) -> Manifest:
    """One pod of the component at a time; a pod that is not ready never blocks a drain.

    Args:
        name: its name.
        component: the component of the pods.
        owner: the owner of the pods.
        keeps: pods of the last engine, of which none goes while no other engine is ready; 0 to let it go.
    """
    content = {
        "spec": {
            **({"minAvailable": keeps} if keeps else {"maxUnavailable": 1}),
            "selector": {"matchLabels": selector_labels(owner.key.name, component)},
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        }
    }
    return child(DISRUPTION_BUDGET, name, owner=owner, component=component, content=content)
