"""Drains of nodes with the eviction API: the only engine stays until its successor serves, or until none can be had."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from e2e.localkube.errors import ClusterError
from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually
from tests.testing.workspace import QWEN, Workspace

POOL, SECOND = "drained", "drained-second"
TAINT = {"key": POOL, "value": "test", "effect": "NoSchedule"}
MOVE_SECONDS = 60
GIVE_UP_SECONDS = 90
"""A successor waits for a node for `SURGE_WAIT_SECONDS` (tests/testing/impatient_operator.py)."""
KARPENTER, SPOT = "karpenter.sh/disrupted", "aws-node-termination-handler/spot-itn"
AUTOSCALER = "ToBeDeletedByClusterAutoscaler"
"""Its value is the time in seconds (kubernetes/autoscaler, cluster-autoscaler/utils/taints/taints.go)."""
DRAIN = ("--ignore-daemonsets", "--delete-emptydir-data")

AddNode = Callable[[str], None]


@pytest.fixture
def add_node(kubernetes: LocalCluster) -> Iterator[AddNode]:
    """Adds nodes with one GPU each, for one test alone."""
    made: list[str] = []

    def add(name: str) -> None:
        node = json.loads(kubernetes.kubectl("get", "node", "gpu-0", "--output=json"))
        room = {**node["status"]["capacity"], "nvidia.com/gpu": "1"}
        labels = {**node["metadata"]["labels"], "kubernetes.io/hostname": name, "pool": POOL}
        annotations = {"kwok.x-k8s.io/node": "fake", "node.alpha.kubernetes.io/ttl": "0"}
        manifest = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels, "annotations": annotations},
            "spec": {"taints": [TAINT]},
            "status": {"capacity": room, "allocatable": room},
        }
        made.append(name)
        kubernetes.kubectl("apply", "--filename=-", input=json.dumps(manifest))

    yield add
    kubernetes.kubectl("delete", "node", "--ignore-not-found", *made)


@pytest.fixture
def alone(workspace: Workspace, add_node: AddNode) -> Workspace:
    """A workspace with a service of one engine and one router, both on the only node of their pool."""
    add_node(POOL)
    where = {"nodeSelector": {"pool": POOL}, "tolerations": [TAINT]}
    workspace.create("qwen", {**QWEN, "scheduling": where, "router": {"replicas": 1, "scheduling": where}})
    workspace.settled("qwen")
    workspace.settled("qwen", "Reconciling", "False")
    await_seen(workspace, "engine")
    await_seen(workspace, "router")
    return workspace


def await_seen(workspace: Workspace, component: str) -> None:
    """Wait until Kubernetes counts the only pod of the component in its budget."""
    eventually(
        lambda: budget(workspace, component)["status"].get("currentHealthy") == 1,
        seconds=MOVE_SECONDS,
        what=lambda: f"the budget has seen the pod: {budget(workspace, component)}",
    )


def budget(workspace: Workspace, component: str = "engine") -> dict[str, Any]:
    return workspace.get("poddisruptionbudget", f"qwen-{component}")


def engines(workspace: Workspace) -> dict[str, str]:
    """The nodes of the engines that stay, by the names of their pods."""
    return places(workspace, "engine")


def places(workspace: Workspace, component: str) -> dict[str, str]:
    """The nodes of the component's pods that stay, by the names of the pods."""
    selector = f"inference-operator.dev/name=qwen,app.kubernetes.io/component={component}"
    pods = workspace.all("pods", selector)
    return {
        pod["metadata"]["name"]: pod["spec"].get("nodeName", "")
        for pod in pods
        if "deletionTimestamp" not in pod["metadata"]
    }


def evict(workspace: Workspace, pod: str) -> None:
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
    path = f"/api/v1/namespaces/{workspace.namespace}/pods/{pod}/eviction"
    workspace.cluster.kubectl("create", f"--raw={path}", "--filename=-", input=json.dumps(eviction))


def await_moved(workspace: Workspace, to: str) -> None:
    """Wait until the service has one engine on this node, and nothing is left to do."""
    eventually(
        lambda: list(engines(workspace).values()) == [to] and workspace.replicas("qwen") == 1,
        seconds=MOVE_SECONDS,
        what=lambda: f"one engine on {to}: {engines(workspace)}, {workspace.get('infd', 'qwen')['status']}",
    )
    workspace.settled("qwen", "Reconciling", "False")


def test_a_cordon_and_an_eviction_at_once_end_no_engine_before_its_successor(
    alone: Workspace, add_node: AddNode, kubernetes: LocalCluster
) -> None:
    """The eviction follows the cordon: it is refused by a budget that was there before.

    The place for a successor comes after it: on a busy machine an engine has moved before kubectl starts again.
    """
    ((first, place),) = engines(alone).items()
    kubernetes.kubectl("cordon", place)
    with pytest.raises(ClusterError, match="disruption budget"):
        evict(alone, first)
    add_node(SECOND)
    await_moved(alone, SECOND)
    assert first not in engines(alone), "the operator ended it itself"


def test_a_cordon_and_an_eviction_at_once_do_not_end_the_only_router_before_its_successor(
    workspace: Workspace, add_node: AddNode, kubernetes: LocalCluster
) -> None:
    add_node(POOL)
    where = {"nodeSelector": {"pool": POOL}, "tolerations": [TAINT]}
    workspace.create("qwen", {**QWEN, "router": {"replicas": 1, "scheduling": where}})
    workspace.settled("qwen")
    workspace.settled("qwen", "Reconciling", "False")
    await_seen(workspace, "router")
    ((first, place),) = places(workspace, "router").items()
    kubernetes.kubectl("cordon", place)
    with pytest.raises(ClusterError, match="disruption budget"):
        evict(workspace, first)
    moving = workspace.settled("qwen", "Reconciling", "True", "NodeLeaving")
    assert "The only router moves away from a node that is leaving." in moving["message"]
    add_node(SECOND)
    kubernetes.kubectl("drain", POOL, *DRAIN, f"--timeout={MOVE_SECONDS}s")
    eventually(
        lambda: list(places(workspace, "router").values()) == [SECOND],
        seconds=MOVE_SECONDS,
        what=lambda: (
            f"one router on {SECOND}: {places(workspace, 'router')}, {workspace.get('infd', 'qwen')['status']}"
        ),
    )
    workspace.settled("qwen", "Reconciling", "False")
    assert workspace.get("deployment", "qwen-router")["spec"]["replicas"] == 1
    assert "minAvailable" in budget(workspace, "router")["spec"], "the next drain waits too"


def test_kubectl_drain_waits_until_the_successor_serves(
    alone: Workspace, add_node: AddNode, kubernetes: LocalCluster
) -> None:
    add_node(SECOND)
    kubernetes.kubectl("drain", POOL, *DRAIN, f"--timeout={MOVE_SECONDS}s")
    await_moved(alone, SECOND)
    assert "minAvailable" in budget(alone)["spec"], "the next drain waits too"


def test_an_uncordoned_node_keeps_its_engine(alone: Workspace, kubernetes: LocalCluster) -> None:
    before = engines(alone)
    kubernetes.kubectl("cordon", POOL)
    alone.settled("qwen", "Reconciling", "True", "NodeLeaving")
    assert alone.replicas("qwen") == 2
    kubernetes.kubectl("uncordon", POOL)
    await_moved(alone, POOL)
    assert engines(alone) == before


def test_without_a_place_for_a_successor_the_drain_goes_on_after_the_wait_for_a_node(
    alone: Workspace, kubernetes: LocalCluster
) -> None:
    (first,) = engines(alone)
    kubernetes.kubectl("cordon", POOL)
    moving = alone.settled("qwen", "Reconciling", "True", "NodeLeaving")
    assert "An engine moves away from a node that is leaving." in moving["message"]
    with pytest.raises(ClusterError, match="disruption budget"):
        evict(alone, first)
    kubernetes.kubectl("drain", POOL, *DRAIN, f"--timeout={GIVE_UP_SECONDS}s")
    assert first not in engines(alone)


@pytest.fixture
def stuck(alone: Workspace) -> Iterator[Workspace]:
    """The same with a quota, so that no pod of a successor is created."""
    alone.kubectl("create", "quota", "no-successor", "--hard=pods=0")
    yield alone
    alone.kubectl("delete", "quota", "no-successor")


def test_the_drain_goes_on_after_the_wait_although_a_successor_that_is_stuck_is_never_given_up(
    stuck: Workspace, kubernetes: LocalCluster
) -> None:
    stuck.patch("qwen", {"scheduling": {"evictionWait": "10s"}})
    (first,) = engines(stuck)
    kubernetes.kubectl("cordon", POOL)
    stuck.settled("qwen", "Reconciling", "True", "NodeLeaving")
    with pytest.raises(ClusterError, match="disruption budget"):
        evict(stuck, first)
    kubernetes.kubectl("drain", POOL, *DRAIN, f"--timeout={GIVE_UP_SECONDS}s")
    assert first not in engines(stuck)


def test_the_drain_goes_on_at_once_where_the_service_is_paused_in_the_middle_of_a_move_or_its_machine_ends(
    stuck: Workspace, kubernetes: LocalCluster
) -> None:
    kubernetes.kubectl("taint", "node", POOL, f"{KARPENTER}:NoSchedule")
    stuck.settled("qwen", "Reconciling", "True", "NodeLeaving")
    stuck.patch("qwen", {"paused": True})
    stuck.settled("qwen", reason="Paused")
    await_allowed(stuck)
    stuck.patch("qwen", {"paused": False})
    stuck.settled("qwen", "Reconciling", "True", "NodeLeaving")
    kubernetes.kubectl("taint", "node", POOL, f"{SPOT}=event:NoSchedule")
    await_allowed(stuck)
    (first,) = engines(stuck)
    evict(stuck, first)


def await_allowed(workspace: Workspace) -> None:
    """Wait until Kubernetes lets the engine go while its temporary successor does not serve."""
    assert workspace.replicas("qwen") == 2
    eventually(
        lambda: budget(workspace)["status"]["disruptionsAllowed"] == 1,
        seconds=MOVE_SECONDS,
        what=lambda: f"an eviction is allowed: {budget(workspace)}",
    )


def test_a_node_that_an_autoscaler_or_a_spot_notice_takes_away_is_left_too(
    alone: Workspace, add_node: AddNode, kubernetes: LocalCluster
) -> None:
    add_node(SECOND)
    kubernetes.kubectl("taint", "node", POOL, f"{KARPENTER}:NoSchedule")
    await_moved(alone, SECOND)
    kubernetes.kubectl("taint", "node", SECOND, f"{SPOT}=event:NoSchedule")
    eventually(
        lambda: budget(alone)["spec"].get("minAvailable") == 0,
        seconds=MOVE_SECONDS,
        what="a machine that ends in two minutes lets its engine go",
    )
    kubernetes.kubectl("taint", "node", POOL, f"{KARPENTER}-")
    await_moved(alone, POOL)
    kubernetes.kubectl("taint", "node", SECOND, f"{SPOT}-")
    kubernetes.kubectl("taint", "node", POOL, f"{AUTOSCALER}={int(time.time())}:NoSchedule")
    await_moved(alone, SECOND)


def test_a_paused_service_holds_no_drain(alone: Workspace, kubernetes: LocalCluster) -> None:
    alone.patch("qwen", {"paused": True})
    alone.settled("qwen", reason="Paused")
    (first,) = engines(alone)
    kubernetes.kubectl("cordon", POOL)

    def gone() -> bool:
        with suppress(ClusterError):
            evict(alone, first)
        return first not in engines(alone)

    eventually(gone, seconds=MOVE_SECONDS, what=lambda: f"the eviction is allowed: {budget(alone)}")
