"""The budget within which nodes may be drained."""

from inference_operator.manifest import DISRUPTION_BUDGET, Manifest, Owner
from inference_operator.objects.child import child
from inference_operator.objects.names import selector_labels

FEWEST_REPLICAS = 2
"""With one replica a budget could only block a drain for ever."""


def disruption_budget(name: str, component: str, *, owner: Owner) -> Manifest:
    """One pod of the component at a time; a pod that is not ready never blocks a drain."""
    content = {
        "spec": {
            "maxUnavailable": 1,
            "selector": {"matchLabels": selector_labels(owner.key.name, component)},
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        }
    }
    return child(DISRUPTION_BUDGET, name, owner=owner, component=component, content=content)
