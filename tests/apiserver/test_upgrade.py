"""An upgrade from an earlier commit and back, with the operator of that commit, while a model serves."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.localkube import local
from e2e.localkube.binaries import Level
from e2e.localkube.handle import LocalCluster
from tests.testing.operated_cluster import CHART, RELEASE, SETTINGS, SYSTEM, token_kubeconfig
from tests.testing.operator_process import COMMAND, OperatorProcess
from tests.testing.workspace import QUIET_SECONDS, QWEN, Workspace

EARLIER = "9f5266d7"
"""The commit before that which reads nothing of earlier builds any more. There was no release before it."""
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
    (tmp_path / EARLIER).mkdir()
    command = ["tar", "--extract", f"--file={archive}"]
    subprocess.run(command, cwd=tmp_path / EARLIER, check=True)
    return tmp_path / EARLIER


def pods(workspace: Workspace, component: str) -> set[str]:
    found = workspace.all("pods", f"inference-operator.dev/name=qwen,app.kubernetes.io/component={component}")
    return {pod["metadata"]["uid"] for pod in found if "deletionTimestamp" not in pod["metadata"]}


def works(workspace: Workspace, account: Path, folder: Path, name: str, command: tuple[str, ...]) -> None:
    """Run an operator until it has nothing left to do, and stop it."""
    operator = OperatorProcess(account, folder / f"{name}.log", SETTINGS, command, forked=False)
    operator.start()
    workspace.settled("qwen")
    workspace.settled("qwen", "Reconciling", "False")
    time.sleep(QUIET_SECONDS)
    workspace.settled("qwen", "Reconciling", "False")
    assert "Traceback" not in operator.log(), operator.log()
    operator.stop()


def test_an_upgrade_from_an_earlier_commit_and_a_rollback_restart_no_pod(
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

    works(workspace, account, tmp_path, "earlier", former)
    engines, routers = pods(workspace, "engine"), pods(workspace, "router")
    assert engines
    assert routers

    cluster.helm("upgrade", RELEASE, str(CHART), "--reset-then-reuse-values", *flags)
    works(workspace, account, tmp_path, "now", COMMAND)
    assert pods(workspace, "engine") == engines
    assert pods(workspace, "router") == routers

    cluster.helm("rollback", RELEASE, "1", *flags)
    works(workspace, account, tmp_path, "earlier-again", former)
    assert pods(workspace, "engine") == engines
    assert pods(workspace, "router") == routers
