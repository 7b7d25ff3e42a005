"""A restore of etcd from a snapshot while the operator runs: the cluster's history goes back, and nobody says so."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from e2e.go_modules import ensure_etcdutl
from e2e.localkube import local
from e2e.localkube.audit_log import AuditLog
from e2e.localkube.binaries import Level
from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually
from e2e.runs.printed_figures import Say
from tests.apiserver.etcd_snapshots import BUMPED, grow_older, restore, save
from tests.apiserver.kept_operator import kept
from tests.testing.operated_cluster import (
    ACCOUNT,
    CHART,
    RELEASE,
    SETTINGS,
    SYSTEM,
    temporary_workspace,
    token_kubeconfig,
)
from tests.testing.workspace import QUIET_SECONDS, QWEN, Workspace

pytestmark = pytest.mark.full
WAIT_SECONDS = 120
PATIENT = {**SETTINGS, "LEASE_DURATION_SECONDS": "200", "LEASE_RENEW_DEADLINE_SECONDS": "180"}
"""Longer than a busy machine needs to start a control plane: a lost Lease would restart the operator as well."""
REVISIONS = 2_000
"""More than a control plane writes from its start to the operator's next listing."""
SERVING, LATER = ("edited", "deleted"), "created"
"""What becomes of each resource after the snapshot."""
EDIT = {"engine": {"args": ["--seed=8"]}}


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    ensure_etcdutl()  # before a cluster waits for it
    name = f"restore-{os.getpid()}"
    yield local.up(name, Level.CONTROL_PLANE, owned=True)
    local.down(name, purge=True)


@pytest.fixture(scope="module")
def kubeconfig(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    cluster.helm("install", RELEASE, str(CHART), f"--namespace={SYSTEM}", "--create-namespace")
    return token_kubeconfig(cluster, SYSTEM, RELEASE, tmp_path_factory.mktemp("account") / "kubeconfig")


def serving(workspace: Workspace, *names: str) -> None:
    for name in names:
        workspace.create(name, QWEN)
    for name in names:
        workspace.settled(name)
        workspace.settled(name, "Reconciling", "False")


def pods(workspace: Workspace, name: str) -> set[str]:
    found = workspace.all("pods", f"inference-operator.dev/name={name}")
    return {pod["metadata"]["uid"] for pod in found if "deletionTimestamp" not in pod["metadata"]}


def state(workspace: Workspace) -> dict[str, object]:
    """The children and the pods of every resource."""
    return {name: (workspace.versions(name), pods(workspace, name)) for name in (*SERVING, LATER)}


def live_on(workspace: Workspace) -> None:
    """What happens between a snapshot and its restore: a rollout, a removal, and a new resource."""
    edited, deleted = SERVING
    workspace.patch(edited, EDIT)
    workspace.kubectl("delete", "infd", deleted)
    serving(workspace, LATER)
    eventually(lambda: not workspace.children(deleted), seconds=WAIT_SECONDS, what="its children are gone")
    workspace.settled(edited)
    workspace.settled(edited, "Reconciling", "False")


def answers(workspace: Workspace) -> None:
    """See that the operator knows all three as they are now."""
    edited, deleted = SERVING
    workspace.patch(edited, {"replicas": 2})
    workspace.kubectl("delete", "service", deleted, "--wait=false")
    serving(workspace, LATER)
    eventually(lambda: workspace.replicas(edited) == 2, seconds=WAIT_SECONDS, what="an edit is answered")
    eventually(lambda: workspace.exists("service", deleted), seconds=WAIT_SECONDS, what="a Service is made anew")


@dataclass(frozen=True)
class Case:
    """A restore, and what the operator has seen of the time that is gone."""

    flags: tuple[str, ...]
    resync_seconds: int
    revisions: int
    """How many versions others have made since the snapshot."""
    lists: bool
    """Whether the operator has listed since then; else only watches have told it."""


CASES = {
    "old-snapshot": Case((), 15, REVISIONS, lists=True),
    "young-snapshot": Case((), 60, REVISIONS, lists=False),
    "bumped": Case(BUMPED, 3600, 0, lists=False),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_restored_etcd_is_noticed_and_costs_no_write(
    cluster: LocalCluster, kubeconfig: Path, tmp_path: Path, say: Say, case: Case
) -> None:
    """A snapshot's versions are older, which the next listing shows; bumped ones end all watches at once."""
    audit, snapshot = AuditLog(cluster.audit_log, ACCOUNT), tmp_path / "snapshot"
    settings = {**PATIENT, "RESYNC_SECONDS": str(case.resync_seconds)}
    running = kept(cluster, kubeconfig, tmp_path / "log", settings)
    with running as operator, temporary_workspace(cluster) as workspace:
        serving(workspace, *SERVING)
        audit.quiet(QUIET_SECONDS, namespace=workspace.namespace)
        before = state(workspace)
        save(cluster, snapshot)
        grow_older(cluster, case.revisions)
        live_on(workspace)
        if case.lists:
            operator.lists()
        mark, listed = audit.quiet(QUIET_SECONDS, namespace=workspace.namespace), operator.listings()

        restore(cluster, snapshot, *case.flags)
        is_bumped = case.flags == BUMPED
        noticed = (lambda: operator.listings() > listed) if is_bumped else (lambda: operator.works() and operator.ends)
        eventually(noticed, seconds=WAIT_SECONDS, what=lambda: f"it notices:\n{operator.end()}")
        audit.quiet(QUIET_SECONDS, namespace=workspace.namespace)
        say(f"ends: {operator.ends}; writes: {[str(w) for w in audit.writes(mark, namespace=workspace.namespace)]}")
        assert state(workspace) == before
        assert audit.changes(mark, namespace=workspace.namespace) == []
        assert operator.ends == ([] if is_bumped else [0])
        assert ("older than before" in operator.log()) is not is_bumped
        answers(workspace)
