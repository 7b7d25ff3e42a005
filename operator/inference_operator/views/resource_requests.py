"""The amount of an extended resource that the scheduler reserves for a pod."""

from inference_operator.manifest import Manifest


def whole_amount(amount: object) -> int:
    """An amount of an extended resource, which is a whole number; 0 without one.

    Examples:
        >>> whole_amount("8"), whole_amount(8), whole_amount(""), whole_amount(None)
        (8, 8, 0, 0)
    """
    text = str(amount)
    return int(text) if text.isdecimal() else 0


def requested_amount(pod: Manifest, resource: str) -> int:
    """The amount reserved for a pod: the sum of its containers, or its largest init container if that is more.

    Sidecar containers are added to either (Kubernetes documentation, "Sidecar Containers", resource sharing).
    """
    init = pod.get("initContainers") or ()
    sidecars = sum(_limit(c, resource) for c in init if c.get("restartPolicy") == "Always")
    largest = max((_limit(c, resource) for c in init if c.get("restartPolicy") != "Always"), default=0)
    return sidecars + max(largest, sum(_limit(c, resource) for c in pod.get("containers") or ()))


def _limit(container: Manifest, resource: str) -> int:
    return whole_amount(((container.get("resources") or {}).get("limits") or {}).get(resource))
