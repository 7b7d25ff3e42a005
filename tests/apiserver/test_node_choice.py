"""Which nodes Kubernetes' scheduler chooses for pods without GPUs."""

import json
from typing import Any

from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually
from tests.testing.workspace import QWEN, Workspace

ROUTERS = "inference-operator.dev/name=qwen,app.kubernetes.io/component=router"
WINDOWS = "win-0"
ROLLOUTS = 2
"""Without a spread by revision, every second rollout ended with both routers on one node."""


def test_a_windows_node_without_a_taint_gets_no_pod(kubernetes: LocalCluster, workspace: Workspace) -> None:
    room = {"cpu": "64", "memory": "512Gi", "pods": "110", "ephemeral-storage": "1Ti"}
    labels = {"kubernetes.io/os": "windows", "kubernetes.io/arch": "amd64", "kubernetes.io/hostname": WINDOWS}
    annotations = {"kwok.x-k8s.io/node": "fake", "node.alpha.kubernetes.io/ttl": "0"}
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": WINDOWS, "labels": labels, "annotations": annotations},
        "status": {"capacity": room, "allocatable": room},
    }
    kubernetes.kubectl("apply", "--filename=-", input=json.dumps(node))
    try:
        eventually(lambda: _is_ready(kubernetes, WINDOWS), seconds=20, what="the Windows node is ready")
        workspace.create("qwen", {**QWEN, "router": {"replicas": 6}})
        workspace.settled("qwen")
        assert WINDOWS not in eventually(lambda: _nodes(workspace, 6), seconds=30, what="six routers have nodes")
    finally:
        kubernetes.kubectl("delete", "node", WINDOWS, "--wait=false")


def test_two_routers_stay_on_two_nodes_over_rollouts(kubernetes: LocalCluster, workspace: Workspace) -> None:
    kubernetes.kubectl("cordon", "gpu-2", "gpu-3")
    try:
        workspace.create("qwen", QWEN)
        workspace.settled("qwen")
        for number in range(1, ROLLOUTS + 1):
            workspace.patch("qwen", {"router": {"queue": {"maxSize": 100 + number}}})
            eventually(lambda: _is_rolled(workspace, number), seconds=60, what="the routers are rolled out")  # noqa: B023 - called at once
            nodes = eventually(lambda: _nodes(workspace, 2), seconds=30, what="two routers are left")
            assert len(set(nodes)) == 2, f"rollout {number}"
    finally:
        kubernetes.kubectl("uncordon", "gpu-2", "gpu-3")


def _is_ready(kubernetes: LocalCluster, name: str) -> bool:
    node = json.loads(kubernetes.kubectl("get", "node", name, "--output=json"))
    found = {condition["type"]: condition["status"] for condition in node["status"].get("conditions", [])}
    return found.get("Ready") == "True" and not node["spec"].get("taints")


def _nodes(workspace: Workspace, count: int) -> list[str]:
    """The nodes of the routers that are not ending; empty until there are `count`, each with a node."""
    pods = [pod for pod in workspace.all("pods", ROUTERS) if not pod["metadata"].get("deletionTimestamp")]
    nodes = [pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName")]
    return nodes if len(nodes) == len(pods) == count else []


def _is_rolled(workspace: Workspace, number: int) -> bool:
    deployment: dict[str, Any] = workspace.get("deployment", "qwen-router")
    status, generation = deployment["status"], deployment["metadata"]["generation"]
    counts = {status.get(name) for name in ("updatedReplicas", "replicas", "readyReplicas")}
    return status.get("observedGeneration") == generation > number and counts == {2}
