"""Rollouts with few or no free GPUs: they complete, and their strategy changes at most once."""

import json
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from e2e.localkube.audit_log import AuditLog
from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually
from tests.testing.impatient_operator import SURGE_WAIT_SECONDS
from tests.testing.operated_cluster import SETTINGS
from tests.testing.operator_process import OperatorProcess
from tests.testing.workspace import QWEN, Workspace

NAMES = ("one", "two")
POOL = "rollout"
TAINT = {"key": POOL, "value": "test", "effect": "NoSchedule"}
ROLL_SECONDS = 90
"""A switch comes after `SURGE_WAIT_SECONDS`; the rest is pods that come and go without running."""
SWITCH_SECONDS = SURGE_WAIT_SECONDS - 2
"""Pods name the second in which they were made."""
HOUR_SECONDS = 3600
EDIT = {"engine": {"args": ["--seed=8"]}}


@pytest.fixture
def pool(kubernetes: LocalCluster) -> Iterator[str]:
    """A node for these tests alone, with room for three GPUs and for two engines of 1500 millicores."""
    node = json.loads(kubernetes.kubectl("get", "node", "gpu-0", "--output=json"))
    meta = node["metadata"]
    room = {**node["status"]["capacity"], "nvidia.com/gpu": "3", "cpu": "3500m"}
    made = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": POOL,
            "labels": {**meta["labels"], "kubernetes.io/hostname": POOL, "pool": POOL},
            "annotations": {"kwok.x-k8s.io/node": "fake", "node.alpha.kubernetes.io/ttl": "0"},
        },
        "spec": {"taints": [TAINT]},
        "status": {"capacity": room, "allocatable": room},
    }
    kubernetes.kubectl("apply", "--filename=-", input=json.dumps(made))
    yield POOL
    kubernetes.kubectl("delete", "node", POOL)


def spec(pool: str, *, cpu: str = "100m", **fields: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    where = {"nodeSelector": {"pool": pool}, "tolerations": [TAINT]}
    engine = {"resources": {"requests": {"cpu": cpu}}}
    return {**QWEN, "scheduling": where, "router": {"replicas": 1}, "engine": engine, **fields}


def roll(workspace: Workspace, audit: AuditLog) -> dict[str, int]:
    """Change both at once, and wait until both have come to rest; returns how often each Deployment was written."""
    mark = audit.mark()
    for name in NAMES:
        workspace.patch(name, EDIT)
    for name in NAMES:
        await_rolled(workspace, name)
    writes = audit.writes(mark, namespace=workspace.namespace)
    return {name: [w.name for w in writes if w.resource == "deployments"].count(f"{name}-engine") for name in NAMES}


def await_rolled(workspace: Workspace, name: str, *, engines: int = 1) -> None:
    eventually(
        lambda: _has_rolled(workspace, name, engines),
        seconds=ROLL_SECONDS,
        what=lambda: f"{name} has rolled: {workspace.get('infd', name)['status']['conditions']}",
    )


def _has_rolled(workspace: Workspace, name: str, engines: int) -> bool:
    deployment = workspace.get("deployment", f"{name}-engine")
    asked = "--seed=8" in deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    status = deployment["status"]
    seen = status["observedGeneration"] == deployment["metadata"]["generation"]
    counts = {status.get(count) for count in ("updatedReplicas", "replicas", "readyReplicas")}
    return asked and seen and counts == {engines}


def how(workspace: Workspace, name: str) -> dict[str, Any]:
    """The decision that a Deployment carries, with its strategy."""
    deployment = workspace.get("deployment", f"{name}-engine")
    carried = json.loads(deployment["metadata"]["annotations"]["inference-operator.dev/rollout"])
    return {**carried, **deployment["spec"]["strategy"]["rollingUpdate"]}


def serve(workspace: Workspace, asked: dict[str, Any]) -> None:
    for name in NAMES:
        workspace.create(name, asked)
    for name in NAMES:
        workspace.settled(name)
        workspace.settled(name, "Reconciling", "False")


def test_two_surge_rollouts_that_compete_for_a_free_gpu_both_complete(
    workspace: Workspace, audit: AuditLog, pool: str
) -> None:
    serve(workspace, spec(pool))
    written = roll(workspace, audit)
    assert all(writes in (1, 2) for writes in written.values()), written
    for name in NAMES:
        decided = how(workspace, name)
        assert decided["why"] in ("FreeSlot", "NodeMayCome", "NoNodeCame")
        assert (written[name] == 2) is (decided["why"] == "NoNodeCame")


def test_a_rollout_of_two_engines_on_a_full_gpu_pool_uses_replace_from_the_start(
    workspace: Workspace, audit: AuditLog, pool: str
) -> None:
    serve(workspace, spec(pool))
    workspace.kubectl("scale", "infd/one", "--replicas=2")
    eventually(
        lambda: workspace.get("infd", "one")["status"]["readyReplicas"] == len(NAMES), seconds=20, what="two engines"
    )
    mark = audit.mark()
    workspace.patch("one", EDIT)
    await_rolled(workspace, "one", engines=len(NAMES))
    writes = [w for w in audit.writes(mark, namespace=workspace.namespace) if w.resource == "deployments"]
    assert [w.name for w in writes] == ["one-engine"]
    decided = how(workspace, "one")
    assert (decided["why"], decided["maxSurge"], decided["maxUnavailable"]) == ("NoFreeSlot", 0, 1)


def test_two_cpu_rollouts_without_free_cpu_switch_to_replace_once_and_complete(
    workspace: Workspace, audit: AuditLog, pool: str
) -> None:
    """On CPUs nobody counts slots: both surge, neither finds room, and each makes its own."""
    serve(workspace, spec(pool, cpu="1500m", hardware={"device": "CPU"}))
    began = time.monotonic()
    written = roll(workspace, audit)
    assert time.monotonic() - began > SWITCH_SECONDS
    # Whoever is switched first makes room, which the other may take before its own time has come.
    switched = [name for name in NAMES if written[name] == 2]
    assert switched
    assert set(written.values()) <= {1, 2}
    for name in switched:
        decided = how(workspace, name)
        assert (decided["why"], decided["maxSurge"], decided["maxUnavailable"]) == ("NoNodeCame", 0, 1)
        workspace.settled(name, "Reconciling", "False", "Settled")


@pytest.fixture
def an_hour_behind(operator: OperatorProcess, account: Path, tmp_path: Path) -> Iterator[OperatorProcess]:
    """An operator whose machine has the wrong time, in the place of the other one."""
    command = (sys.executable, "-m", "tests.apiserver.wrong_clock", str(-HOUR_SECONDS))
    process = OperatorProcess(account, tmp_path / "log", SETTINGS, command)
    operator.stop()
    try:
        process.start()
        yield process
        assert "Traceback" not in process.log(), process.log()
    finally:
        process.stop()
        operator.start()


def test_an_operator_clock_that_is_wrong_by_an_hour_does_not_change_a_rollout(
    workspace: Workspace, pool: str, an_hour_behind: OperatorProcess
) -> None:
    serve(workspace, spec(pool, cpu="1500m", hardware={"device": "CPU"}))
    assert "s behind the API server's" in an_hour_behind.log()
    began = time.monotonic()
    workspace.patch("one", EDIT)
    workspace.settled("one", "Reconciling", "True", "Unschedulable")
    an_hour_behind.set_clock()  # the limit passes for who believes it, as it never would have before
    await_rolled(workspace, "one")
    assert time.monotonic() - began > SWITCH_SECONDS
    assert how(workspace, "one")["why"] == "NoNodeCame"
    changed = datetime.fromisoformat(workspace.condition("one", "Ready")["lastTransitionTime"])
    assert abs(datetime.now(UTC) - changed) < timedelta(seconds=HOUR_SECONDS / 10)


def test_a_node_selector_that_no_gpu_node_matches_stops_no_serving_engine(workspace: Workspace, pool: str) -> None:
    workspace.create("one", spec(pool))
    workspace.settled("one")
    workspace.settled("one", "Reconciling", "False")
    nowhere = {"scheduling": {"nodeSelector": {"pool": "nosuch"}}}
    workspace.patch("one", nowhere)
    workspace.settled("one", "Stalled", "True", "NoSuitableGpu", saying="No node has a GPU that this engine may use.")
    assert workspace.condition("one", "Ready")["status"] == "True"


def test_a_rollout_that_waits_for_a_new_node_stops_no_serving_engine(workspace: Workspace, pool: str) -> None:
    workspace.create("one", spec(pool))
    workspace.settled("one")
    workspace.settled("one", "Reconciling", "False")
    products = {"hardware": {"gpu": {"products": ["H200"]}}}
    workspace.patch("one", {"scheduling": {"nodeSelector": {"pool": "nosuch"}}, **products})
    workspace.settled(
        "one",
        "Reconciling",
        "True",
        "Unschedulable",
        saying="have labels that do not match the node selector or affinity",
    )
    assert how(workspace, "one")["why"] == "NoUse"
    time.sleep(1)
    assert workspace.condition("one", "Ready")["status"] == "True"
