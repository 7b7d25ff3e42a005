"""Leader election of two operator processes on a real API server: at most one of them works."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.localkube.audit_log import AuditLog
from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually
from e2e.runs.printed_figures import Say
from tests.apiserver.proxy import Proxy
from tests.testing.operated_cluster import QUICK_LEASE, RELEASE, SETTINGS, SYSTEM, temporary_workspace
from tests.testing.operator_process import READY_SECONDS, OperatorProcess
from tests.testing.workspace import QUIET_SECONDS, Workspace, served

QUICK = {**SETTINGS, **QUICK_LEASE}
DURATION, RENEW = int(QUICK["LEASE_DURATION_SECONDS"]), float(QUICK["LEASE_RENEW_SECONDS"])
RENEWALS, OK = 3, 200
"""Of these, one may have been under way before an edit; a holder that could renew no more would end."""
TAKEOVER_SECONDS = DURATION + 60
"""Bound of a wait: the Lease's duration, and a busy machine's share."""


@pytest.fixture(scope="module")
def quick(
    account: Path, operator: OperatorProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OperatorProcess]:
    """An operator with a short Lease, in the place of the other one."""
    operator.stop()
    process = OperatorProcess(account, tmp_path_factory.mktemp("quick") / "log", QUICK)
    process.start()
    yield process
    process.stop()
    operator.start()


@pytest.fixture
def first(quick: OperatorProcess) -> Iterator[OperatorProcess]:
    """The process that leads; whatever a test does to it, it leads again afterwards."""
    assert quick.is_leading()
    yield quick
    if not quick.is_running():
        quick.start()
    eventually(quick.is_leading, seconds=TAKEOVER_SECONDS, what="the first operator leads again")


@pytest.fixture(scope="module")
def steady(kubernetes: LocalCluster, quick: OperatorProcess) -> Iterator[Workspace]:
    """A workspace in which `qwen` serves."""
    assert quick.is_running()
    with temporary_workspace(kubernetes, "leased") as found:
        yield served(found)


@pytest.fixture
def second(account: Path, first: OperatorProcess, tmp_path: Path) -> Iterator[OperatorProcess]:
    """Another process, which stands by."""
    process = OperatorProcess(account, tmp_path / "log", QUICK)
    process.start_beside()
    assert not process.is_leading()
    assert first.is_running()
    yield process
    process.stop()
    assert "Traceback" not in process.log(), process.log()


def takeover(process: OperatorProcess, say: Say, after: str) -> float:
    """Wait until a process leads; returns and says how long that took."""
    begun = time.monotonic()
    eventually(process.is_leading, seconds=TAKEOVER_SECONDS, what=lambda: f"a takeover; its log:\n{process.log()}")
    took = time.monotonic() - begun
    say(f"takeover after {after}: {took:.1f} s (Lease of {DURATION} s)")
    return took


def holder(cluster: LocalCluster) -> str:
    lease = json.loads(cluster.kubectl("--namespace", SYSTEM, "get", "lease", RELEASE, "--output=json"))
    found: str = lease["spec"]["holderIdentity"]
    return found


def edit_lease(cluster: LocalCluster, patch: str) -> None:
    cluster.kubectl("--namespace", SYSTEM, "patch", "lease", RELEASE, "--type=merge", f"--patch={patch}")


def await_told(workspace: Workspace) -> None:
    """Wait until the status says that no engine's metrics can be read: there is no node here, and it is told late."""

    def is_told() -> bool:
        status = workspace.get("infd", "qwen")["status"]
        return bool(status["engine"].get("unreadMetrics") == workspace.get("infd", "qwen")["spec"]["replicas"])

    eventually(is_told, seconds=TAKEOVER_SECONDS, what=lambda: str(workspace.get("infd", "qwen")["status"]))


def await_quiet(workspace: Workspace, audit: AuditLog) -> None:
    """Wait until nothing has been written for a while: the leader tells of pods that end late on a busy machine."""

    def is_quiet() -> bool:
        mark = audit.mark()
        time.sleep(QUIET_SECONDS)
        return audit.writes(mark, namespace=workspace.namespace) == []

    eventually(is_quiet, seconds=TAKEOVER_SECONDS, what="no writes")


def repairs(workspace: Workspace) -> None:
    """See that somebody mends what a hand breaks."""
    workspace.kubectl("delete", "service", "qwen", "--wait=false")
    eventually(lambda: workspace.exists("service", "qwen"), seconds=60, what="the Service is back")


def test_a_standby_operator_is_ready_and_writes_nothing(
    steady: Workspace, second: OperatorProcess, audit: AuditLog
) -> None:
    await_told(steady)
    before, mark = holder(steady.cluster), audit.mark()
    repairs(steady)
    time.sleep(QUIET_SECONDS)
    assert [w.resource for w in audit.writes(mark, namespace=steady.namespace)] == ["services"]
    assert not second.is_leading()
    assert holder(steady.cluster) == before


def test_the_lease_is_renewed_once_a_period(first: OperatorProcess, audit: AuditLog) -> None:
    seconds = 6
    mark = audit.mark()
    time.sleep(seconds)
    renewals = audit.renewals(mark)
    assert first.is_leading()
    assert {r.verb for r in renewals} == {"update"}
    assert seconds / RENEW / 2 <= len(renewals) <= seconds / RENEW + 1


def test_an_operator_that_gets_sigterm_hands_the_lease_over_at_once(
    steady: Workspace, first: OperatorProcess, second: OperatorProcess, say: Say
) -> None:
    begun = time.monotonic()
    first.tell_to_stop()
    takeover(second, say, "SIGTERM")
    assert time.monotonic() - begun < DURATION
    eventually(lambda: first.exit_status() == 0, seconds=60, what="the first has ended")
    repairs(steady)


def test_a_standby_takes_over_when_the_lease_of_a_killed_operator_expires(
    steady: Workspace, first: OperatorProcess, second: OperatorProcess, say: Say
) -> None:
    first.kill()
    takeover(second, say, "SIGKILL")
    repairs(steady)


def test_an_operator_process_paused_beyond_its_lease_duration_ends_without_a_write(
    steady: Workspace,
    first: OperatorProcess,
    second: OperatorProcess,
    audit: AuditLog,
    say: Say,
) -> None:
    first.pause()
    try:
        steady.patch("qwen", {"replicas": 3})  # the sleeper has this event before it, and would act on it
        takeover(second, say, "SIGSTOP")
        eventually(
            lambda: steady.get("deployment", "qwen-engine")["spec"]["replicas"] == 3, seconds=60, what="three replicas"
        )
        steady.patch("qwen", {"replicas": 2})
        eventually(
            lambda: steady.get("deployment", "qwen-engine")["spec"]["replicas"] == 2, seconds=60, what="two replicas"
        )
        steady.settled("qwen", "Reconciling", "False")
        await_told(steady)
        await_quiet(steady, audit)
        mark, versions = audit.mark(), steady.versions("qwen")
    finally:
        first.go_on()
    eventually(lambda: not first.is_running(), seconds=60, what="who has lost the Lease ends")
    assert first.exit_status() == 1
    time.sleep(QUIET_SECONDS)
    assert audit.writes(mark, namespace=steady.namespace) == []
    assert steady.versions("qwen") == versions


def test_an_annotation_on_the_lease_does_not_end_its_holder(
    first: OperatorProcess, kubernetes: LocalCluster, audit: AuditLog
) -> None:
    before, mark = holder(kubernetes), audit.mark()
    edit_lease(kubernetes, '{"metadata":{"annotations":{"note":"mine"}}}')

    def is_renewed() -> bool:
        return sum(renewal.code == OK for renewal in audit.renewals(mark)) >= RENEWALS

    eventually(is_renewed, seconds=DURATION, what=lambda: f"it renews: {audit.renewals(mark)}; its log:\n{first.log()}")
    assert first.is_leading()
    assert holder(kubernetes) == before


def test_an_operator_that_finds_another_lease_holder_ends(
    steady: Workspace, first: OperatorProcess, second: OperatorProcess, say: Say
) -> None:
    edit_lease(steady.cluster, '{"spec":{"holderIdentity":"somebody"}}')
    eventually(lambda: not first.is_running(), seconds=60, what="the holder of before ends")
    assert first.exit_status() == 1
    takeover(second, say, "an edit by hand")
    repairs(steady)


def test_an_api_server_outage_longer_than_the_lease_ends_the_holder(
    account: Path, first: OperatorProcess, tmp_path: Path, audit: AuditLog
) -> None:
    first.stop()
    with Proxy(account, tmp_path / "kubeconfig") as proxy:
        process = OperatorProcess(proxy.kubeconfig, tmp_path / "log", QUICK)
        process.start()
        mark = audit.mark()
        proxy.cut()
        eventually(lambda: not process.is_running(), seconds=TAKEOVER_SECONDS, what="who cannot renew ends")
        assert process.exit_status() == 1
        assert audit.writes(mark) == []
        process.launch()
        eventually(lambda: "Cannot ask for Lease" in process.log(), seconds=READY_SECONDS, what="it cannot reach it")
        assert not process.is_ready()
        proxy.mend()
        eventually(process.is_leading, seconds=TAKEOVER_SECONDS, what="it leads once the API server is back")
        assert process.stop() == 0


def test_a_deleted_lease_ends_its_holder_and_is_created_again(
    steady: Workspace, first: OperatorProcess, second: OperatorProcess, say: Say
) -> None:
    steady.cluster.kubectl("--namespace", SYSTEM, "delete", "lease", RELEASE)
    eventually(lambda: not first.is_running(), seconds=60, what="the holder of before ends")
    takeover(second, say, "a deletion by hand")
    repairs(steady)
