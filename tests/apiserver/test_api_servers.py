"""Restart and upgrade of the API server: its watch cache is lost, and its version may change."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.localkube.audit_log import AuditLog
from e2e.localkube.binaries import ensure_previous_api_server
from e2e.localkube.handle import Cluster
from e2e.localkube.waiting import eventually
from tests.apiserver.api_server import ApiServer
from tests.testing.operated_cluster import SETTINGS
from tests.testing.operator_process import OperatorProcess
from tests.testing.workspace import Workspace

WAIT_SECONDS = 60
PATIENT = {
    **SETTINGS,
    "RESYNC_SECONDS": "600",
    "LEASE_DURATION_SECONDS": "100",
    "LEASE_RENEW_DEADLINE_SECONDS": "90",
    "WRITE_TIMEOUT_SECONDS": "3",
}
"""Longer than a busy machine needs to start an API server, shorter than the next operator waits for its turn; and no
listing but those that something asks for."""
LISTINGS = re.compile(r'^infd_api_requests_total\{code="200",kind="Service",verb="GET"\} (\d+)', re.MULTILINE)
WATCHES = 'infd_watch_requests_total{resource="services"}'


@pytest.fixture
def server(qwen: Workspace, operator: OperatorProcess, account: Path, tmp_path: Path) -> Iterator[ApiServer]:
    """An API server for one operator alone; the other operator stands back."""
    operator.stop()
    try:
        with ApiServer(qwen.cluster, account, tmp_path) as one:
            yield one
    finally:
        operator.start()


@pytest.fixture
def process(server: ApiServer, tmp_path: Path) -> Iterator[OperatorProcess]:
    """The operator that asks this server; a test starts it."""
    one = OperatorProcess(server.kubeconfig, tmp_path / "log", PATIENT)
    yield one
    one.stop()
    assert "Traceback" not in one.log(), one.log()


def work_of(process: OperatorProcess) -> None:
    """Start it, and wait until it has listed everything and watches."""
    process.start()
    eventually(lambda: WATCHES in process.metrics(), seconds=WAIT_SECONDS, what="it watches")


def listings(process: OperatorProcess) -> int:
    found = LISTINGS.search(process.metrics())
    return int(found[1]) if found else 0


def test_after_an_api_server_restart_the_operator_lists_again_and_misses_no_deletion(
    qwen: Workspace, server: ApiServer, process: OperatorProcess
) -> None:
    """A new server answers every watch from before its start with 410 Gone: it has seen nothing of that."""
    server.start()
    work_of(process)
    before = listings(process)
    server.end()
    qwen.kubectl("delete", "service", "qwen", "--wait=true")
    server.start()
    eventually(lambda: qwen.exists("service", "qwen"), seconds=WAIT_SECONDS, what="the Service is made anew")
    assert listings(process) > before
    assert process.is_leading()


@pytest.mark.full
def test_an_upgrade_of_the_api_server_changes_no_child(
    qwen: Workspace, server: ApiServer, process: OperatorProcess, audit: AuditLog
) -> None:
    """From one minor version to the next, beside another server that is upgraded already."""
    before = qwen.versions("qwen")
    mark = audit.mark()
    server.start(ensure_previous_api_server())
    older = minor(server)
    work_of(process)
    qwen.patch("qwen", {"replicas": 2})
    eventually(lambda: qwen.replicas("qwen") == 2, seconds=WAIT_SECONDS, what="the older server is worked with")
    server.end()
    qwen.patch("qwen", {"replicas": 1})
    server.start()
    assert minor(server) == older + 1
    eventually(lambda: qwen.replicas("qwen") == 1, seconds=WAIT_SECONDS, what="the newer server is worked with")
    qwen.settled("qwen", "Reconciling", "False")
    assert process.is_leading()
    assert [w.name for w in audit.writes(mark, namespace=qwen.namespace) if w.resource == "deployments"] == [
        "qwen-engine",
        "qwen-engine",
    ]
    after = qwen.versions("qwen")
    assert {name for name in before if before[name] != after[name]} == {"Deployment/qwen-engine"}


def minor(server: ApiServer) -> int:
    asked = Cluster("one", "", server.kubeconfig)
    return int(json.loads(asked.kubectl("get", "--raw=/version"))["minor"])
