"""A real API server with simulated GPU nodes, and the operator beside it with the rights that the chart gives it."""

import os
import subprocess
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
import yaml

from e2e.audit import AuditLog
from e2e.cluster import local
from e2e.cluster.binaries import Level
from e2e.cluster.handle import LocalCluster
from tests.apiserver.operator_process import OperatorProcess
from tests.apiserver.workspace import Workspace, served

CHART = Path(__file__).parents[2] / "charts" / "inference-operator"
RELEASE = "inference-operator"
SYSTEM = "inference-operator-system"
ACCOUNT = f"system:serviceaccount:{SYSTEM}:{RELEASE}"
RESYNC_SECONDS = 15
QUICK_LEASE = {
    "LEASE_DURATION_SECONDS": "15",
    "LEASE_RENEW_DEADLINE_SECONDS": "11",
    "LEASE_RENEW_SECONDS": "1",
    "WRITE_TIMEOUT_SECONDS": "3",
}
"""Shorter than shipped, so that a test need not wait long for the next process after one was killed; long enough for a
machine that is busy, since nothing starts a process again whose Lease has run out."""
SCRAPE_SECONDS, STALL_SECONDS = 1, 10
"""The shortest there are; the pods here have addresses that nobody has, so that nothing stands still by chance."""
SETTINGS = {
    "RESYNC_SECONDS": str(RESYNC_SECONDS),
    "SCRAPE_SECONDS": str(SCRAPE_SECONDS),
    "STALL_SECONDS": str(STALL_SECONDS),
    "LOG_FORMAT": "text",
    **QUICK_LEASE,
}
_numbers = count(1)


@pytest.fixture(scope="session")
def kubernetes() -> Iterator[LocalCluster]:
    """The cluster of this test run."""
    name = f"test-{os.getpid()}"
    yield local.up(name, Level.CONTROL_PLANE, owned=True)
    local.down(name, purge=True)


@pytest.fixture(scope="session")
def account(kubernetes: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A kubeconfig of the operator's ServiceAccount, after a real `helm install` of the chart."""
    subprocess.run(
        [
            kubernetes.binary("helm"),
            f"--kubeconfig={kubernetes.kubeconfig}",
            "install",
            RELEASE,
            str(CHART),
            f"--namespace={SYSTEM}",
            "--create-namespace",
        ],
        check=True,
        capture_output=True,
    )
    return token_kubeconfig(kubernetes, SYSTEM, RELEASE, tmp_path_factory.mktemp("account") / "kubeconfig")


def token_kubeconfig(cluster: LocalCluster, namespace: str, account: str, path: Path) -> Path:
    """Write a kubeconfig of a ServiceAccount."""
    token = cluster.kubectl("--namespace", namespace, "create", "token", account, "--duration=2h").strip()
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    config["users"] = [{"name": user["name"], "user": {"token": token}} for user in config["users"]]
    path.write_text(yaml.safe_dump(config))
    return path


@pytest.fixture(scope="session")
def operator(account: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OperatorProcess]:
    """The running operator."""
    log = tmp_path_factory.mktemp("operator") / "log"
    process = OperatorProcess(account, log, SETTINGS)
    process.start()
    yield process
    process.kill()
    assert "Traceback" not in process.log(), process.log()


@pytest.fixture
def audit(kubernetes: LocalCluster) -> AuditLog:
    """What the operator's account did."""
    return AuditLog(kubernetes.audit_log, ACCOUNT)


@pytest.fixture
def workspace(kubernetes: LocalCluster, operator: OperatorProcess) -> Iterator[Workspace]:
    """A namespace of the test's own, watched by the operator."""
    assert operator.is_running(), operator.log()
    name = f"ws-{next(_numbers)}"
    kubernetes.kubectl("create", "namespace", name)
    yield Workspace(kubernetes, name)
    kubernetes.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture
def qwen(workspace: Workspace) -> Workspace:
    """A workspace in which `qwen` serves and nothing is left to do."""
    return served(workspace)
