"""How much of an extended resource the scheduler reserves for a pod."""

from inference_operator.manifest import Manifest


def whole_amount(amount: object) -> int:
    """An amount of an extended resource, which Kubernetes counts in whole numbers; 0 where there is none.

    Examples:
        >>> whole_amount("8"), whole_amount(8), whole_amount(""), whole_amount(None)
        (8, 8, 0, 0)
    """
    text = str(amount)
    return int(text) if text.isdecimal() else 0


def requested_amount(pod: Manifest, resource: str) -> int:
    """What is reserved for a pod of this specification: its containers together, or its largest step of initialisation.

    Containers of the initialisation that go on running count beside both (Kubernetes documentation, "Sidecar
    Containers", resource sharing).

    Examples:
        >>> one = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
        >>> sidecar = {**one, "restartPolicy": "Always"}
        >>> requested_amount({"containers": [one, one], "initContainers": [one, sidecar]}, "nvidia.com/gpu")
        3
    """
    steps = pod.get("initContainers") or ()
    sidecars = sum(_limit(c, resource) for c in steps if c.get("restartPolicy") == "Always")
    largest = max((_limit(c, resource) for c in steps if c.get("restartPolicy") != "Always"), default=0)
    return sidecars + max(largest, sum(_limit(c, resource) for c in pod.get("containers") or ()))


def _limit(container: Manifest, resource: str) -> int:
    return whole_amount(((container.get("resources") or {}).get("limits") or {}).get(resource))
