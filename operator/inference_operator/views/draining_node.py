"""Draining nodes: which of their fields say that their pods must go. One table, with the source of each sign.

A node may also be a candidate only, as with `DeletionCandidateOfClusterAutoscaler`: that taint is set and removed with
the load, so it is no sign (kubernetes/autoscaler, cluster-autoscaler/FAQ.md, "soft tainting").
"""

from collections.abc import Mapping
from dataclasses import dataclass

from inference_operator.text_tables import blocks
from inference_operator.views.node import NodeView, Taint

OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
"""Taint by which a person or a controller says that a node is off (Kubernetes documentation, "Node Shutdowns",
non-graceful node shutdown handling)."""


@dataclass(frozen=True, slots=True)
class Sign:
    key: str
    value: str = ""
    """The value that it must have; empty for any."""
    is_soon: bool = False
    """Whether the machine ends within minutes whatever happens, so that an eviction that is held back only loses time
    to answer what runs."""

    def matches(self, taint: Taint) -> bool:
        return taint.key == self.key and self.value in {"", taint.value}


def _sign(line: str) -> Sign:
    taint, *soon = line.split()
    key, _, value = taint.partition("=")
    return Sign(key, value, is_soon=bool(soon))


SIGNS = [_sign(line) for block in blocks(__package__, "draining-signs") for line in block]

_LABELS: Mapping[str, str] = {"cloud.google.com/active-node-maintenance": "ONGOING"}
"""Labels that say the same, with their values (GKE documentation, "Manage GKE node disruption for GPUs and TPUs")."""


@dataclass(frozen=True, slots=True)
class DrainingNode:
    """A node whose pods must go, also before anybody evicts them."""

    name: str
    why: str
    """A phrase that follows the name of the node."""
    is_soon: bool = False
    """Whether the machine ends within minutes, whatever happens."""


def draining_node(node: NodeView) -> DrainingNode | None:
    """Why a node counts as draining; None if it does not. Of several signs, one of a machine that ends soon counts."""
    signs = [sign for sign in SIGNS if any(map(sign.matches, node.taints))]
    if signs:
        sign = max(signs, key=lambda sign: sign.is_soon)
        return DrainingNode(node.name, f"which has the taint `{sign.key}`", sign.is_soon)
    if node.unschedulable:
        return DrainingNode(node.name, "which is cordoned")
    labelled = (name for name, value in _LABELS.items() if node.labels.get(name) == value)
    return next((DrainingNode(node.name, f"which has the label `{name}`") for name in labelled), None)
