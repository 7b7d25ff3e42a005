"""What a node tells about itself."""

from collections.abc import Mapping
from dataclasses import dataclass

from inference_operator.manifest import Manifest
from inference_operator.views.resource_requests import whole_amount


@dataclass(frozen=True, slots=True)
class Taint:
    """What keeps pods away that do not tolerate it."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class NodeView:
    """One node."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    allocatable: Mapping[str, str]
    """What pods may ask for, by resource, as Kubernetes quantities."""
    ready: bool
    unschedulable: bool
    """Whether it is cordoned."""

    def count(self, resource: str) -> int:
        """How much of an extended resource it has; such resources are whole numbers."""
        return whole_amount(self.allocatable.get(resource))


def node_view(node: Manifest) -> NodeView:
    """Read a node."""
    meta, spec, status = (node.get(part) or {} for part in ("metadata", "spec", "status"))
    return NodeView(
        name=str(meta.get("name", "")),
        labels=dict(meta.get("labels") or {}),
        taints=tuple(
            Taint(str(t.get("key", "")), str(t.get("value") or ""), str(t.get("effect", "")))
            for t in spec.get("taints") or ()
        ),
        allocatable={name: str(amount) for name, amount in (status.get("allocatable") or {}).items()},
        ready=any(c.get("type") == "Ready" and c.get("status") == "True" for c in status.get("conditions") or ()),
        unschedulable=bool(spec.get("unschedulable")),
    )
