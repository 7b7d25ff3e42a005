"""Pools without nodes: a provisioner with Karpenter's rule adds nodes, which GPU feature discovery labels later."""

import json
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

import pytest

from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually
from tests.testing.node_pools import G6, P5_SMALL, Launched, NodePool, Refused, provisioned
from tests.testing.workspace import QWEN, Workspace

POOL = "empty-pool"
TAINT = {"key": "pool", "value": POOL, "effect": "NoSchedule"}
BOUND_SECONDS = 30
ASKED = {
    **QWEN,
    "hardware": {"gpu": {"products": ["H100"]}},
    "scheduling": {"nodeSelector": {"pool": POOL}, "tolerations": [TAINT]},
    "router": {"replicas": 1},
}


class Provisioner:
    """Adds a simulated node for each pending engine, if a pool can make one."""

    def __init__(self, cluster: LocalCluster, pools: Sequence[NodePool]) -> None:
        self._cluster, self._pools, self._numbers = cluster, pools, count(1)
        self.nodes: list[str] = []

    def add_node(self, pod: dict[str, Any]) -> Launched | Refused:
        """Launch a node for a pod, as Karpenter does it; GPU feature discovery has not labelled it."""
        found = provisioned(pod["spec"], self._pools)
        if isinstance(found, Launched):
            name = f"{POOL}-{next(self._numbers)}"
            self._cluster.kubectl("apply", "--filename=-", input=json.dumps(self._node(name, found)))
            self.nodes.append(name)
        return found

    def discover(self, node: str, product: str) -> None:
        """Label a node as GPU feature discovery does once it runs there."""
        self._cluster.kubectl("label", "node", node, f"nvidia.com/gpu.product={product}")

    def _node(self, name: str, launched: Launched) -> dict[str, Any]:
        room = {"cpu": "192", "memory": "2Ti", "ephemeral-storage": "10Ti", "pods": "110"}
        resources = {**room, "nvidia.com/gpu": str(launched.type.gpus)}
        basic = {"kubernetes.io/hostname": name, "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"}
        annotations = {"kwok.x-k8s.io/node": "fake", "node.alpha.kubernetes.io/ttl": "0"}
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {**basic, **launched.labels}, "annotations": annotations},
            "spec": {"taints": [TAINT]},
            "status": {"capacity": resources, "allocatable": resources},
        }


@pytest.fixture
def provisioner(kubernetes: LocalCluster) -> Iterator[Provisioner]:
    """Pools of H100s, and of cheaper GPUs with 24 GB."""
    made = Provisioner(kubernetes, [NodePool([G6, P5_SMALL], {"pool": POOL})])
    yield made
    if made.nodes:
        kubernetes.kubectl("delete", "node", *made.nodes)


def pending(workspace: Workspace) -> dict[str, Any]:
    """The engine that the scheduler has refused."""

    def look() -> dict[str, Any]:
        found = workspace.all("pods", "app.kubernetes.io/component=engine")
        return next((one for one in found if _refused(one)), {})

    return eventually(look, seconds=BOUND_SECONDS, what="an engine is unschedulable")


def _refused(pod: dict[str, Any]) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any(c["type"] == "PodScheduled" and c["status"] == "False" for c in conditions)


def await_engines(workspace: Workspace, number: int) -> None:
    eventually(
        lambda: workspace.get("infd", "qwen")["status"].get("readyReplicas") == number,
        seconds=BOUND_SECONDS,
        what=lambda: f"{number} engines are ready: {workspace.get('infd', 'qwen').get('status')}",
    )


def test_every_engine_gets_a_node_of_its_gpus_from_an_empty_pool_before_gpu_feature_discovery_runs(
    workspace: Workspace, provisioner: Provisioner
) -> None:
    workspace.create("qwen", ASKED)
    for number in (1, 2):
        launched = provisioner.add_node(pending(workspace))
        assert isinstance(launched, Launched), launched
        assert launched.type == P5_SMALL
        await_engines(workspace, number)
        provisioner.discover(provisioner.nodes[-1], "NVIDIA-H100-80GB-HBM3")
        workspace.patch("qwen", {"replicas": 2})
    engines = workspace.all("pods", "app.kubernetes.io/component=engine")
    assert sorted(one["spec"]["nodeName"] for one in engines) == sorted(provisioner.nodes)


def test_an_engine_that_no_pool_can_run_names_its_labels_and_the_setting(
    workspace: Workspace, provisioner: Provisioner
) -> None:
    """One engine serves, and the second one finds neither a node nor a pool."""
    workspace.create("qwen", ASKED)
    assert isinstance(provisioner.add_node(pending(workspace)), Launched)
    await_engines(workspace, 1)
    provisioner.discover(provisioner.nodes[-1], "NVIDIA-H100-80GB-HBM3")
    workspace.patch("qwen", {"replicas": 2})
    refused = Provisioner(workspace.cluster, [NodePool([G6], {"pool": POOL})]).add_node(pending(workspace))
    assert isinstance(refused, Refused)
    told = workspace.settled("qwen", "EnginesAvailable", "False", "Unschedulable")["message"]
    assert told.startswith("1 of 2 engines are ready.")
    assert "It waits for a node with `pool=empty-pool` and one of `nvidia.com/gpu.product` `NVIDIA-H100" in told
    assert "`karpenter.k8s.aws/instance-gpu-name` `h100`" in told
    assert " UTC. " in told
    assert "`gpuNodeLabels`" in told
    assert workspace.condition("qwen", "Ready")["status"] == "True"
