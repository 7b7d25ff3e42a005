"""A second engine and a second role on a real API server."""

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
from tests.testing.forks import ROOT
from tests.testing.operated_cluster import operated_by
from tests.testing.operator_process import READY_SECONDS, OperatorProcess
from tests.testing.workspace import QWEN, Workspace, manifest

SECOND_ENGINE = "tests.testing.second_engine"


@pytest.fixture
def two_roles(account: Path, operator: OperatorProcess, tmp_path: Path) -> Iterator[OperatorProcess]:
    """The operator with the second engine in a second role."""
    with operated_by(SECOND_ENGINE, operator, account, tmp_path / "log") as process:
        yield process


def test_two_roles_of_two_engines_become_two_deployments_that_serve(
    kubernetes: LocalCluster, two_roles: OperatorProcess
) -> None:
    assert two_roles.is_running()
    kubernetes.kubectl("create", "namespace", "two-roles")
    workspace = Workspace(kubernetes, "two-roles")
    workspace.create("qwen", QWEN)
    eventually(
        lambda: {"deployment.apps/qwen-engine", "deployment.apps/qwen-helper"} <= workspace.children("qwen"),
        seconds=READY_SECONDS,
        what="two Deployments",
    )
    engines = {}
    for role in ("engine", "helper"):
        deployment = workspace.get("deployment", f"qwen-{role}")
        engines[role] = json.loads(deployment["metadata"]["annotations"][PLAN_ANNOTATION.key])["engine"]
        assert deployment["spec"]["template"]["spec"]["containers"][0]["name"] == role
    assert engines == {"engine": "VLLM", "helper": "ECHO"}
    assert workspace.settled("qwen", saying="4 of 4")["message"] == "4 of 4 engines are ready."
    kubernetes.kubectl("delete", "namespace", "two-roles", "--wait=false")


def test_infd_plan_sizes_for_a_second_engine_on_the_nodes_of_the_cluster(kubernetes: LocalCluster) -> None:
    command = [sys.executable, "-m", SECOND_ENGINE, "infd", "plan", "--cluster", "--filename=-", "--output=json"]
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
    plan = json.loads(result.stdout)
    assert (plan["planned"], plan["plan"]["gpu"]) == (True, "H100-80GB")
