"""An engine of two pods, without metrics and with a budget of its own, on a real API server."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually
from inference_operator.roles.pinned_plan import PLAN_ANNOTATION
from tests.apiserver.test_autoscaling import router
from tests.testing.forks import ROOT
from tests.testing.operated_cluster import await_free_gpus, new_workspace, operated_by
from tests.testing.operator_process import OperatorProcess
from tests.testing.pair_engine import make_pairs, open_gate
from tests.testing.preallocating_engine import BATCH, SLOTS
from tests.testing.workspace import QWEN, Workspace, manifest

PAIR_ENGINE = "tests.testing.pair_engine"
SECONDS = 90
"""Limit of a step; scaling down takes the shortest delay that the API allows, 30 s."""
SCALED = {
    **QWEN,
    "router": {"replicas": 1},
    "autoscaling": {"minReplicas": 1, "maxReplicas": 3, "targetConcurrency": 4, "scaleDownDelay": "30s"},
}


@pytest.fixture
def pairs(
    kubernetes: LocalCluster, account: Path, operator: OperatorProcess, tmp_path: Path
) -> Iterator[OperatorProcess]:
    """The operator with the engine of two pods. Three engines take 18 of the cluster's 32 GPUs."""
    await_free_gpus(kubernetes)
    with operated_by(PAIR_ENGINE, operator, account, tmp_path / "log") as process:
        yield process


def test_engines_of_two_pods_without_metrics_are_sized_counted_and_scaled_by_what_the_router_sees(
    kubernetes: LocalCluster, pairs: OperatorProcess
) -> None:
    assert pairs.is_running()
    workspace = new_workspace(kubernetes, "pairs")
    workspace.create("qwen", SCALED)
    workspace.settled("qwen", saying="1 of 1 engine")
    status = workspace.get("infd", "qwen")["status"]
    deployment = workspace.get("deployment", "qwen-engine")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["llama-server"]
    assert status["plan"]["maxNumSeqs"] == SLOTS
    plan = PLAN_ANNOTATION.read(deployment)
    assert plan
    assert plan.plan.max_num_batched_tokens == BATCH, "its own budget"
    # an engine is ready with all of its pods
    (worker,) = make_pairs(workspace)
    workspace.settled("qwen", "Reconciling", saying=f"No engine is ready. Pod {worker} waits")
    assert workspace.get("infd", "qwen")["status"]["ready"] == "0/1"
    open_gate(workspace, worker)
    workspace.settled("qwen", saying="1 of 1 engine")
    # its demand comes from the router, so nothing says that metrics are missing
    (pod,) = workspace.all("pods", "inference-operator.dev/name=qwen,app.kubernetes.io/component=router")
    with router(workspace, pod["metadata"]["name"]) as process:
        workspace.settled("qwen", "ScalingActive", reason="FollowingDemand")
        process.held = 9
        eventually(lambda: workspace.replicas("qwen") == 3, seconds=SECONDS, what="three engines")
        eventually(lambda: _all_ready(workspace, 3), seconds=SECONDS, what=lambda: str(_status(workspace)))
        process.held = 0
        eventually(lambda: workspace.replicas("qwen") == 1, seconds=SECONDS, what="one engine again")
        assert workspace.settled("qwen", "ScalingActive")["reason"] == "FollowingDemand"
    kubernetes.kubectl("delete", "namespace", workspace.namespace, "--wait=false")


def _status(workspace: Workspace) -> object:
    return workspace.get("infd", "qwen")["status"]


def _all_ready(workspace: Workspace, engines: int) -> bool:
    for worker in make_pairs(workspace):
        open_gate(workspace, worker)
    pods = workspace.all("pods", "inference-operator.dev/name=qwen,app.kubernetes.io/component=engine")
    return len(pods) == 2 * engines and workspace.get("infd", "qwen")["status"]["readyReplicas"] == engines


def test_infd_plan_shows_the_budget_of_the_engine_on_the_nodes_of_the_cluster(kubernetes: LocalCluster) -> None:
    command = [sys.executable, "-m", PAIR_ENGINE, "infd", "plan", "--cluster", "--filename=-", "--output=json"]
    result = subprocess.run(
        command,
        input=manifest("qwen", QWEN),
        env={**os.environ, "KUBECONFIG": str(kubernetes.kubeconfig)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    (plan,) = json.loads(result.stdout)["items"]
    assert (plan["planned"], plan["plan"]["maxNumSeqs"], plan["plan"]["maxNumBatchedTokens"]) == (True, SLOTS, BATCH)
