"""Real gang schedulers place engines over several nodes whole or not at all: Coscheduling and Kueue."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from e2e.go_modules import coscheduling_definition
from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually
from tests.testing.coscheduler import SCHEDULER, coscheduler
from tests.testing.kueue import kueue, queue
from tests.testing.operated_cluster import optional_kinds, temporary_workspace
from tests.testing.operator_process import OperatorProcess
from tests.testing.workspace import QWEN, Workspace

pytestmark = pytest.mark.full
POOL = "gangs"
TAINT = {"key": "pool", "value": POOL, "effect": "NoSchedule"}
NODES = [f"{POOL}-{number}" for number in range(3)]
"""Room for one and a half engines of two nodes each."""
PLACED_SECONDS, STILL_SECONDS = 120, 20
NAMES = ("first", "second")
QUEUE = "team"


@pytest.fixture(scope="module")
def pool(kubernetes: LocalCluster) -> Iterator[None]:
    for name in NODES:
        kubernetes.kubectl("apply", "--filename=-", input=json.dumps(_node(name)))
    yield
    kubernetes.kubectl("delete", "node", *NODES)


@pytest.fixture(scope="module")
def scheduled(
    kubernetes: LocalCluster,
    operator: OperatorProcess,
    pool: None,  # noqa: ARG001 - the nodes
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[LocalCluster]:
    with (
        optional_kinds(kubernetes, operator, coscheduling_definition()),
        coscheduler(kubernetes, tmp_path_factory.mktemp("coscheduler")),
    ):
        yield kubernetes


@pytest.fixture(scope="module")
def queued(kubernetes: LocalCluster, operator: OperatorProcess, pool: None) -> Iterator[LocalCluster]:  # noqa: ARG001
    with kueue().running(kubernetes):
        yield kubernetes


@contextmanager
def crowded(cluster: LocalCluster) -> Iterator[Workspace]:
    """A workspace whose nodes are free at first."""
    eventually(lambda: not _pods_on(cluster), seconds=PLACED_SECONDS, what="the nodes are free")
    with temporary_workspace(cluster) as found:
        yield found
        for name in NAMES:
            found.kubectl("delete", "infd", name, "--ignore-not-found")


def _node(name: str) -> dict[str, Any]:
    room = {"cpu": "192", "memory": "2Ti", "ephemeral-storage": "10Ti", "pods": "110", "nvidia.com/gpu": "8"}
    basic = {"kubernetes.io/hostname": name, "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"}
    labels = {**basic, "pool": POOL, "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": {"kwok.x-k8s.io/node": "fake"}},
        "spec": {"taints": [TAINT]},
        "status": {"capacity": room, "allocatable": room},
    }


def _pods_on(cluster: LocalCluster) -> list[dict[str, Any]]:
    found = json.loads(cluster.kubectl("get", "pods", "--all-namespaces", "--output=json"))["items"]
    return [pod for pod in found if pod["spec"].get("nodeName") in NODES]


def asked(**scheduling: object) -> dict[str, Any]:
    return {
        **QWEN,
        "parallelism": {"tensor": 8, "nodes": 2},
        "router": {"replicas": 1},
        "scheduling": {"nodeSelector": {"pool": POOL}, "tolerations": [TAINT], **scheduling},
    }


def placed(workspace: Workspace) -> dict[str, int]:
    """How many pods of each resource's engine have a node."""
    pods = workspace.all("pod", "app.kubernetes.io/component=engine")
    names = [pod["metadata"]["labels"]["inference-operator.dev/name"] for pod in pods if pod["spec"].get("nodeName")]
    return {name: names.count(name) for name in NAMES}


def pending(workspace: Workspace) -> int:
    pods = workspace.all("pod", "app.kubernetes.io/component=engine")
    return sum("nodeName" not in pod["spec"] for pod in pods)


def assert_one_after_the_other(workspace: Workspace, **scheduling: object) -> str:
    """Assert that of two engines with room for one, the other holds no node until its turn; returns its name."""
    for name in NAMES:
        workspace.create(name, asked(**scheduling))
    eventually(
        lambda: sorted(placed(workspace).values()) == [0, 2] and pending(workspace) == 2,
        seconds=PLACED_SECONDS,
        what=lambda: f"one engine is whole and the other waits: {placed(workspace)}",
    )
    end = time.monotonic() + STILL_SECONDS
    while time.monotonic() < end:
        assert sorted(placed(workspace).values()) == [0, 2]
        time.sleep(0.5)
    winner, waiting = sorted(NAMES, key=placed(workspace).__getitem__, reverse=True)
    workspace.kubectl("delete", "infd", winner)
    eventually(
        lambda: placed(workspace)[waiting] == 2,
        seconds=PLACED_SECONDS,
        what=lambda: f"{waiting} has its turn: {placed(workspace)}",
    )
    return waiting


def test_with_coscheduling_the_second_engine_holds_no_node_until_its_turn(scheduled: LocalCluster) -> None:
    with crowded(scheduled) as workspace:
        assert_one_after_the_other(workspace, schedulerName=SCHEDULER)


def test_switched_off_the_second_engine_holds_a_node_that_it_cannot_use(scheduled: LocalCluster) -> None:
    with crowded(scheduled) as workspace:
        for name in NAMES:
            workspace.create(name, asked(schedulerName=SCHEDULER, gang="Off"))
        eventually(
            lambda: sorted(placed(workspace).values()) == [1, 2],
            seconds=PLACED_SECONDS,
            what=lambda: f"one and a half engines have nodes: {placed(workspace)}",
        )


def test_with_kueue_the_second_engine_holds_no_node_until_its_turn_and_is_rolled_in_its_quota(
    queued: LocalCluster,
) -> None:
    with crowded(queued) as workspace, queue(workspace, QUEUE, gpus=16):
        name = assert_one_after_the_other(workspace, queueName=QUEUE)
        before = _uids(workspace)
        workspace.patch(name, {"engine": {"maxNumSeqs": 7}, "rollout": {"strategy": "Replace"}})
        eventually(
            lambda: len(_uids(workspace)) == 2 and not before & _uids(workspace) and placed(workspace)[name] == 2,
            seconds=PLACED_SECONDS,
            what=lambda: f"two new members have nodes: {placed(workspace)}",
        )
        [group] = workspace.all("statefulset", "app.kubernetes.io/component=engine")
        assert group["metadata"]["generation"] == 1, "the operator leaves it as Kueue's webhook has changed it"
        workspace.kubectl("delete", "infd", name)
        eventually(lambda: not _uids(workspace), seconds=PLACED_SECONDS, what="no pod is queued")


def _uids(workspace: Workspace) -> set[str]:
    pods = workspace.all("pod", "app.kubernetes.io/component=engine")
    return {pod["metadata"]["uid"] for pod in pods}
