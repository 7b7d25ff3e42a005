"""A real API server with simulated GPU nodes, and the operator beside it with the rights that the chart gives it."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest
import yaml

from e2e.localkube import local
from e2e.localkube.audit_log import AuditLog
from e2e.localkube.binaries import Level
from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually
from inference_operator.manifest import POD
from tests.testing.definitions import await_established
from tests.testing.operator_process import OperatorProcess
from tests.testing.reads import reader
from tests.testing.workspace import Workspace, served

CHART = Path(__file__).parents[2] / "charts" / "inference-operator"
RELEASE = "inference-operator"
SYSTEM = "inference-operator-system"
ACCOUNT = f"system:serviceaccount:{SYSTEM}:{RELEASE}"
RESYNC_SECONDS = 15
"""Longer than a test waits for a child to be restored: only a watch event can be that early."""
PATIENT_LEASE = {
    "LEASE_DURATION_SECONDS": "90",
    "LEASE_RENEW_DEADLINE_SECONDS": "70",
    "LEASE_RENEW_SECONDS": "5",
    "WRITE_TIMEOUT_SECONDS": "10",
}
"""Longer than an API server on a busy machine stands still: nothing restarts a process that has lost its Lease. Tests
that kill a process delete its Lease."""
QUICK_LEASE = {
    "LEASE_DURATION_SECONDS": "10",
    "LEASE_RENEW_DEADLINE_SECONDS": "7",
    "LEASE_RENEW_SECONDS": "1",
    "WRITE_TIMEOUT_SECONDS": "2",
}
"""Shorter than shipped, for tests that wait for a takeover."""
SCRAPE_SECONDS, NO_PROGRESS_SECONDS, STALL_SECONDS = 1, 4, 10
"""The shortest there are; the pods here have addresses that nobody has, so that nothing stands still by chance."""
PROMETHEUS = json.dumps(
    {
        "url": "https://prometheus.example:9092",
        "clusterTriggerAuthentication": "thanos",
        "authModes": ["bearer"],
        "namespace": "Resource",
    }
)
"""The setting `prometheus` of the chart and of the operator, which is none of the chart."""
SETTINGS = {
    "RESYNC_SECONDS": str(RESYNC_SECONDS),
    "SCRAPE_SECONDS": str(SCRAPE_SECONDS),
    "NO_PROGRESS_SECONDS": str(NO_PROGRESS_SECONDS),
    "STALL_SECONDS": str(STALL_SECONDS),
    "SURGE_WAIT_SECONDS": "30",
    "LOG_FORMAT": "text",
    "PROMETHEUS": PROMETHEUS,
    **PATIENT_LEASE,
}
IMPATIENT_OPERATOR = "tests.testing.impatient_operator"
KINDS_SECONDS = 90
"""Limit of the time until the operator knows that a kind has come or gone."""
DELETION_SECONDS = 120
"""Limit of the deletion of a namespace with all its objects, on a busy machine."""
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
            f"--set-json=settings.prometheus={PROMETHEUS}",
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
    """The running operator, with the waits of tests."""
    log = tmp_path_factory.mktemp("operator") / "log"
    process = OperatorProcess(account, log, SETTINGS, (sys.executable, "-m", IMPATIENT_OPERATOR))
    process.start()
    yield process
    process.kill()
    assert "Traceback" not in process.log(), process.log()


def await_free_gpus(cluster: LocalCluster) -> None:
    """Wait until the engines of earlier tests are gone. Their namespaces may stay longer."""
    selector = "app.kubernetes.io/component=engine"

    def engines() -> list[str]:
        pods = reader(cluster.kubeconfig).all(POD, None, selector)
        return [f"{pod['metadata']['namespace']}/{pod['metadata']['name']}" for pod in pods]

    eventually(lambda: not engines(), seconds=DELETION_SECONDS, what=lambda: f"no engines: {engines()}")


@contextmanager
def operated_by(module: str, operator: OperatorProcess, account: Path, log: Path) -> Iterator[OperatorProcess]:
    """The operator of a module of the tests, with its own engines or roles, in the place of the shipped one."""
    operator.stop()
    process = OperatorProcess(account, log, SETTINGS, (sys.executable, "-m", module))
    process.start()
    yield process
    process.stop()
    operator.start()
    assert "Traceback" not in process.log(), process.log()


@contextmanager
def optional_kinds(cluster: LocalCluster, operator: OperatorProcess, *definitions: Path) -> Iterator[None]:
    """Kinds that the operator uses where they exist, until the block ends. It finds them while it runs."""
    names: list[str] = []
    try:
        for definition in definitions:
            names += cluster.kubectl("create", "--output=name", f"--filename={definition}").split()
        await_established(cluster, *names)
        await_used(operator, *names)
        yield
    finally:
        if names:
            cluster.kubectl("delete", "--ignore-not-found", *names)
            await_used(operator, *names, used=False)


def await_used(operator: OperatorProcess, *definitions: str, used: bool = True) -> None:
    """Wait until the operator uses the kinds of these definitions, or none of them any more."""
    kinds = [name.rpartition("/")[2] for name in definitions]
    lines = [f'infd_optional_kind_used{{resource="{kind}"}} {float(used)}' for kind in kinds]

    def is_so() -> bool:
        return set(lines) <= set(operator.metrics(["infd_optional_kind_used"]).splitlines())

    eventually(is_so, seconds=KINDS_SECONDS, what=lambda: f"{lines}; the operator's log:\n{operator.log()[-4000:]}")


def new_workspace(cluster: LocalCluster, name: str = "ws") -> Workspace:
    """A new namespace, of this name with a number that no other has."""
    numbered = f"{name}-{next(_numbers)}"
    reader(cluster.kubeconfig).create_namespace(numbered)
    return Workspace(cluster, numbered)


@contextmanager
def temporary_workspace(cluster: LocalCluster, name: str = "ws") -> Iterator[Workspace]:
    """A new namespace, which is deleted at the end, so that its engines take no GPU from later tests."""
    found = new_workspace(cluster, name)
    yield found
    reader(cluster.kubeconfig).delete_namespace(found.namespace)


def free_lease(cluster: LocalCluster) -> None:
    """Delete the Lease of an operator that was killed, so that a test need not wait until it has run out."""
    cluster.kubectl("--namespace", SYSTEM, "delete", "lease", RELEASE)


@pytest.fixture
def audit(kubernetes: LocalCluster) -> AuditLog:
    """What the operator's account did."""
    return AuditLog(kubernetes.audit_log, ACCOUNT)


@pytest.fixture
def workspace(kubernetes: LocalCluster, operator: OperatorProcess) -> Iterator[Workspace]:
    """A namespace of the test's own, watched by the operator."""
    assert operator.is_running(), operator.log()
    with temporary_workspace(kubernetes) as found:
        yield found


@pytest.fixture
def qwen(workspace: Workspace) -> Workspace:
    """A workspace in which `qwen` serves and nothing is left to do."""
    return served(workspace)
