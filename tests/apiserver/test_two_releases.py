"""Two releases that watch one namespace: a real operator of each, with the rights of its own chart."""

import json
import subprocess
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest

from e2e.localkube.audit_log import AuditLog
from e2e.localkube.errors import ClusterError
from e2e.localkube.waiting import eventually
from inference_operator.controller.other_operators import OTHER_OPERATOR, RECHECK
from tests.testing.operated_cluster import ACCOUNT, CHART, RELEASE, SETTINGS, token_kubeconfig
from tests.testing.operator_process import OperatorProcess
from tests.testing.workspace import QUIET_SECONDS, QWEN, Workspace, served

SCOPED, SCOPED_SYSTEM = "younger-inference-operator", "younger-system"
SCOPED_ACCOUNT = f"system:serviceaccount:{SCOPED_SYSTEM}:{SCOPED}"
TAKEOVER_SECONDS = 2 * RECHECK.total_seconds() + 60
"""Bound of a wait: the other operator asks at each recheck, and a busy machine has its share."""


@pytest.fixture
def younger(workspace: Workspace, tmp_path: Path) -> Iterator[OperatorProcess]:
    """A second release, installed as docs/how-to/install.md says, for the namespace that the first one watches too."""
    cluster = workspace.cluster
    sets = [f"scope.namespaces={{{workspace.namespace}}}"]
    sets += [f"{name}=false" for name in ("crds.install", "userRoles.create", "admissionPolicy.create")]
    helm = [str(cluster.binary("helm")), f"--kubeconfig={cluster.kubeconfig}", f"--namespace={SCOPED_SYSTEM}"]
    install = [*helm, "install", SCOPED, str(CHART), "--create-namespace", *(f"--set={value}" for value in sets)]
    subprocess.run(install, check=True, capture_output=True)
    kubeconfig = token_kubeconfig(cluster, SCOPED_SYSTEM, SCOPED, tmp_path / "kubeconfig")
    scope = {"NAMESPACES": workspace.namespace, "LEASE_NAMESPACE": SCOPED_SYSTEM, "LEASE_NAME": SCOPED}
    offers = {"GPU_OFFERS": "NVIDIA-H100-80GB-HBM3:8"}
    process = OperatorProcess(kubeconfig, tmp_path / "log", {**SETTINGS, **scope, **offers})
    yield process
    process.stop()
    subprocess.run([*helm, "uninstall", SCOPED], check=True, capture_output=True)
    assert "Traceback" not in process.log(), process.log()


@pytest.fixture
def no_rights(workspace: Workspace, operator: OperatorProcess) -> Iterator[None]:
    """The first release without its rights, as after `helm uninstall`; they come back at the end."""
    binding = json.loads(workspace.kubectl("get", "clusterrolebinding", RELEASE, "--output=json"))
    operator.stop()
    workspace.kubectl("delete", "clusterrolebinding", RELEASE)
    yield
    meta = {"name": RELEASE, "labels": binding["metadata"]["labels"], "annotations": binding["metadata"]["annotations"]}
    workspace.kubectl("create", "--filename=-", input=json.dumps({**binding, "metadata": meta}))
    operator.start()


def manager(workspace: Workspace, name: str) -> str:
    """The operator that wrote the status."""
    found: str = workspace.get("infd", name).get("status", {}).get("operator", {}).get("account", "")
    return found


def changes(audit: AuditLog, mark: int, workspace: Workspace) -> list[str]:
    """Writes of an operator in the namespace, also of a status; Events alone do not count."""
    return [str(w) for w in audit.writes(mark, namespace=workspace.namespace) if w.resource != "events"]


def test_the_younger_release_writes_nothing_where_an_older_one_acts(
    workspace: Workspace, operator: OperatorProcess, younger: OperatorProcess, audit: AuditLog
) -> None:
    theirs = AuditLog(workspace.cluster.audit_log, SCOPED_ACCOUNT)
    served(workspace)
    assert manager(workspace, "qwen") == ACCOUNT
    mark = theirs.mark()
    younger.start()
    eventually(partial(_leaves, younger, 1), seconds=30, what=younger.log)
    workspace.create("second", QWEN)
    workspace.settled("second")
    workspace.patch("qwen", {"replicas": 2, "scheduling": {"evictionWait": "0s"}})
    workspace.settled("qwen", "Reconciling", "False")

    quiet = audit.quiet(QUIET_SECONDS, namespace=workspace.namespace)
    assert changes(theirs, mark, workspace) == []
    events = [w for w in theirs.writes(mark, namespace=workspace.namespace) if w.resource == "events"]
    assert len(events) == 1, events
    assert audit.changes(quiet, namespace=workspace.namespace) == []
    assert younger.is_leading()
    assert _leaves(operator, 0)
    assert younger.log().count("leaves the namespace alone") == 1
    reasons = workspace.kubectl("get", "events", "--output=jsonpath={.items[*].reason}").split()
    assert reasons.count(OTHER_OPERATOR) == 1


@pytest.mark.usefixtures("no_rights")
def test_the_younger_release_takes_over_when_the_older_one_is_uninstalled(
    workspace: Workspace, younger: OperatorProcess
) -> None:
    _write_status(workspace, {"operator": {"account": ACCOUNT, "since": "2000-01-01T00:00:00Z"}})
    younger.start()
    workspace.settled("qwen")
    assert manager(workspace, "qwen") == SCOPED_ACCOUNT
    assert _leaves(younger, 0)


def test_the_older_release_takes_its_namespace_back(
    workspace: Workspace, operator: OperatorProcess, younger: OperatorProcess
) -> None:
    """The younger one has come first here, while the older one was not there."""
    theirs = AuditLog(workspace.cluster.audit_log, SCOPED_ACCOUNT)
    operator.stop()
    workspace.create("qwen", QWEN)
    younger.start()
    workspace.settled("qwen")
    operator.start()
    eventually(lambda: manager(workspace, "qwen") == ACCOUNT, seconds=TAKEOVER_SECONDS, what=operator.log)
    eventually(partial(_leaves, younger, 1), seconds=TAKEOVER_SECONDS, what=younger.log)
    mark = theirs.quiet(QUIET_SECONDS, namespace=workspace.namespace)
    workspace.patch("qwen", {"replicas": 2})
    workspace.settled("qwen", "Reconciling", "False")
    assert changes(theirs, mark, workspace) == []


def test_a_tenant_cannot_send_the_operator_away(workspace: Workspace, operator: OperatorProcess) -> None:
    """Neither by a status, which an editor may not write, nor by Leases and Roles, which prove nothing."""
    served(workspace)
    workspace.kubectl("create", "serviceaccount", "tenant")
    tenant = f"system:serviceaccount:{workspace.namespace}:tenant"
    account = f"{workspace.namespace}:tenant"
    workspace.kubectl("create", "rolebinding", "tenant", "--clusterrole=admin", f"--serviceaccount={account}")
    claim = {"operator": {"account": tenant, "since": "2000-01-01T00:00:00Z"}}
    with pytest.raises(ClusterError, match="forbidden"):
        _write_status(workspace, claim, f"--as={tenant}")
    _write_status(workspace, claim)  # as an administrator who restores a backup
    eventually(lambda: manager(workspace, "qwen") == ACCOUNT, seconds=30, what=operator.log)
    assert _leaves(operator, 0)


def _leaves(process: OperatorProcess, count: int) -> bool:
    return f"\ninfd_namespaces_left_to_others {count}.0\n" in process.metrics()


def _write_status(workspace: Workspace, status: Mapping[str, object], *arguments: str) -> None:
    if not workspace.exists("infd", "qwen"):
        workspace.create("qwen", QWEN)
    patch = json.dumps({"status": {"conditions": [], "replicas": 0, "readyReplicas": 0, **status}})
    workspace.kubectl("patch", "infd", "qwen", "--subresource=status", "--type=merge", f"--patch={patch}", *arguments)
