"""View of a node: labels, taints and allocatable resources."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from inference_operator.manifest import Manifest
from inference_operator.views.raw import condition, timestamp


@dataclass(frozen=True, slots=True)
class Taint:
    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class NodeView:
    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    allocatable: Mapping[str, str]
    """Amounts that pods can request, as Kubernetes quantities by resource name."""
    ready: bool
    unschedulable: bool
    """Whether it is cordoned."""
    unready_since: datetime | None = None
    """Since when it is not ready; None while it is, and where that is unknown."""

    def count(self, resource: str) -> int:
        return whole_amount(self.allocatable.get(resource))


def node_view(node: Manifest) -> NodeView:
    meta, spec, status = (node.get(part) or {} for part in ("metadata", "spec", "status"))
    ready = condition(status, "Ready")
    is_ready = ready.get("status") == "True"
    return NodeView(
        name=str(meta.get("name", "")),
        labels=dict(meta.get("labels") or {}),
        taints=tuple(
            Taint(str(t.get("key", "")), str(t.get("value") or ""), str(t.get("effect", "")))
            for t in spec.get("taints") or ()
        ),
        allocatable={name: str(amount) for name, amount in (status.get("allocatable") or {}).items()},
        ready=is_ready,
        unschedulable=bool(spec.get("unschedulable")),
        unready_since=None if is_ready else timestamp(ready.get("lastTransitionTime")),
    )


def whole_amount(amount: object) -> int:
    """An amount of an extended resource, which is a whole number; 0 without one."""
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
