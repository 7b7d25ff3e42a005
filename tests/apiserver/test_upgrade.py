"""An upgrade from an earlier commit and back, with the operator of that commit, while a model serves."""

import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.cluster import local
from e2e.cluster.binaries import Level
from e2e.cluster.handle import LocalCluster
from tests.testing.operated_cluster import CHART, RELEASE, SETTINGS, SYSTEM, token_kubeconfig
from tests.testing.operator_process import COMMAND, OperatorProcess
from tests.testing.workspace import QUIET_SECONDS, QWEN, Workspace

EARLIER = "d036b61"
"""A commit before the first release, with resources that later releases must go on serving."""
REPOSITORY = Path(__file__).parents[2]

pytestmark = pytest.mark.full


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    name = f"upgrade-{os.getpid()}"
    yield local.up(name, Level.CONTROL_PLANE, owned=True)
    local.down(name, purge=True)


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    """The tree of the earlier commit."""
    archive = tmp_path / "earlier.tar"
    command = ["git", "archive", f"--output={archive}", EARLIER]
    subprocess.run(command, cwd=REPOSITORY, check=True)
    with tarfile.open(archive) as files:
        files.extractall(tmp_path / EARLIER, filter="data")
    return tmp_path / EARLIER


EXPANDED = {**QWEN, "engine": {"args": ["--seed=$(SEED)"]}, "rollout": {"strategy": "Surge"}}
"""Its argument was expanded by Kubernetes until that became impossible."""


def pods(workspace: Workspace, component: str, name: str = "qwen") -> set[str]:
    found = workspace.all("pods", f"inference-operator.dev/name={name},app.kubernetes.io/component={component}")
    return {pod["metadata"]["uid"] for pod in found if "deletionTimestamp" not in pod["metadata"]}


def works(workspace: Workspace, account: Path, folder: Path, name: str, command: tuple[str, ...]) -> None:
    """Run an operator until it has nothing left to do, and stop it."""
    operator = OperatorProcess(account, folder / f"{name}.log", SETTINGS, command)
    operator.start()
    for resource in ("qwen", "expanded"):
        workspace.settled(resource)
        workspace.settled(resource, "Reconciling", "False")
        time.sleep(QUIET_SECONDS)
        workspace.settled(resource, "Reconciling", "False")
    assert "Traceback" not in operator.log(), operator.log()
    operator.stop()


def test_an_upgrade_from_an_earlier_commit_and_a_rollback_restart_no_engine_but_one_with_an_expanded_argument(
    cluster: LocalCluster, earlier: Path, tmp_path: Path
) -> None:
    flags = (f"--namespace={SYSTEM}", "--wait", "--timeout=120s")
    cluster.helm("install", RELEASE, str(earlier / "charts" / RELEASE), "--create-namespace", *flags)
    account = token_kubeconfig(cluster, SYSTEM, RELEASE, tmp_path / "kubeconfig")
    start = "from inference_operator.app import main; main()"
    former = ("env", f"PYTHONPATH={earlier / 'operator'}", sys.executable, "-c", start)
    cluster.kubectl("create", "namespace", "models")
    workspace = Workspace(cluster, "models")
    workspace.create("qwen", QWEN)
    workspace.create("expanded", EXPANDED)

    works(workspace, account, tmp_path, "earlier", former)
    engines, routers = pods(workspace, "engine"), pods(workspace, "router")
    expanded = pods(workspace, "engine", "expanded")
    assert expanded
    assert engines
    assert routers

    cluster.helm("upgrade", RELEASE, str(CHART), "--reset-then-reuse-values", *flags)
    works(workspace, account, tmp_path, "now", COMMAND)
    assert pods(workspace, "engine") == engines
    assert not pods(workspace, "router") & routers, "that commit did not pin routers, so they are replaced once"
    renewed = pods(workspace, "engine", "expanded")
    assert renewed
    assert not renewed & expanded, "Kubernetes expanded their argument"
    (container,) = workspace.get("deployment", "expanded-engine")["spec"]["template"]["spec"]["containers"]
    assert "--seed=$$(SEED)" in container["args"]

    cluster.helm("rollback", RELEASE, "1", *flags)
    works(workspace, account, tmp_path, "earlier-again", former)
    assert pods(workspace, "engine") == engines
