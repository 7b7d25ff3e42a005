"""KWOK: nodes with GPUs that exist in the API only, for which pods become Ready without running."""

import json

from e2e.localkube.binaries import STAGES
from e2e.localkube.control_plane import ADMINISTRATOR, ControlPlane
from e2e.localkube.supervisor import Component

GPUS_PER_NODE = 8
"""As in the usual training and inference servers (HGX, DGX)."""
TAINT = "kwok.x-k8s.io/node"
_SELECTOR = "kwok.x-k8s.io/node=fake"
_LEASE_S = 40
"""As long as a kubelet's lease, so that the controller manager judges these nodes like real ones."""
_POD_ADDRESSES = "10.248.0.0/16"
"""Addresses that nobody can reach; outside every range that a real node uses here."""


def kwok(plane: ControlPlane) -> Component:
    """The process that plays the kubelet of every annotated node."""
    stages = sorted((plane.binaries / STAGES).glob("*.yaml"))
    command = (
        plane.binary("kwok"),
        f"--kubeconfig={plane.kubeconfig(ADMINISTRATOR)}",
        *(f"--config={stage}" for stage in stages),
        "--manage-all-nodes=false",
        f"--manage-nodes-with-annotation-selector={_SELECTOR}",
        f"--node-lease-duration-seconds={_LEASE_S}",
        f"--cidr={_POD_ADDRESSES}",
    )
    return Component("kwok", command)


def gpu_nodes(count: int, *, tainted: bool) -> str:
    """A manifest of nodes with GPUs, labelled as GPU feature discovery labels real ones.

    Tainted where a real node stands beside them: then only what tolerates the taint pretends to run.
    """
    taints = [{"key": TAINT, "value": "fake", "effect": "NoSchedule"}] if tainted else []
    nodes = [_node(f"gpu-{number}", taints) for number in range(count)]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes})


def _node(name: str, taints: list[dict[str, str]]) -> object:
    resources = {
        "cpu": "192",
        "memory": "2Ti",
        "ephemeral-storage": "10Ti",
        "pods": "110",
        "nvidia.com/gpu": str(GPUS_PER_NODE),
    }
    labels = {
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "nvidia.com/gpu.count": str(GPUS_PER_NODE),
        "nvidia.com/gpu.memory": "81559",
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
        "type": "kwok",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": labels,
            "annotations": {"kwok.x-k8s.io/node": "fake", "node.alpha.kubernetes.io/ttl": "0"},
        },
        "spec": {"taints": taints},
        "status": {"allocatable": resources, "capacity": resources},
    }
