"""An operator of some namespaces, with Roles only, one of which is missing."""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.localkube.audit_log import AuditLog
from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually
from tests.testing.operated_cluster import CHART, SETTINGS, token_kubeconfig
from tests.testing.operator_process import READY_SECONDS, OperatorProcess
from tests.testing.workspace import QUIET_SECONDS, QWEN, Workspace

RELEASE, SYSTEM = "scoped-inference-operator", "scoped-system"
SERVED, LOCKED, FOREIGN = "scoped-a", "scoped-b", "scoped-c"
UNREADABLE = "\ninfd_namespaces_unreadable 1.0\n"
NOTHING_OF_THE_CLUSTER = (
    "crds.install=false",
    "userRoles.create=false",
    "admissionPolicy.create=false",
    "operatorPolicy.create=false",
    "ownerPolicy.create=false",
)


@pytest.fixture(scope="module")
def cluster(kubernetes: LocalCluster, operator: OperatorProcess) -> Iterator[LocalCluster]:
    """The cluster with three namespaces, of which the chart serves two, while no other operator runs."""
    operator.stop()
    for namespace in (SERVED, LOCKED, FOREIGN):
        kubernetes.kubectl("create", "namespace", namespace)
    sets = [f"--set={value}" for value in (f"scope.namespaces={{{SERVED},{LOCKED}}}", *NOTHING_OF_THE_CLUSTER)]
    command = [str(kubernetes.binary("helm")), f"--kubeconfig={kubernetes.kubeconfig}", "install", RELEASE, str(CHART)]
    command += [f"--namespace={SYSTEM}", "--create-namespace", *sets]
    subprocess.run(command, check=True, capture_output=True)
    yield kubernetes
    for namespace in (SERVED, LOCKED, FOREIGN):
        kubernetes.kubectl("delete", "namespace", namespace, "--wait=false")
    operator.start()


@pytest.fixture
def scoped(cluster: LocalCluster, tmp_path: Path) -> Iterator[OperatorProcess]:
    scope = {"NAMESPACES": f"{SERVED},{LOCKED}", "LEASE_NAMESPACE": SYSTEM, "LEASE_NAME": RELEASE}
    settings = {**scope, "GPU_OFFERS": "NVIDIA-H100-80GB-HBM3:8"}
    kubeconfig = token_kubeconfig(cluster, SYSTEM, RELEASE, tmp_path / "kubeconfig")
    process = OperatorProcess(kubeconfig, tmp_path / "log", {**SETTINGS, **settings})
    yield process
    process.stop()
    assert "Traceback" not in process.log(), process.log()


def test_a_namespace_is_skipped_until_its_role_exists(cluster: LocalCluster, scoped: OperatorProcess) -> None:
    served, locked, foreign = (Workspace(cluster, name) for name in (SERVED, LOCKED, FOREIGN))
    audit = AuditLog(cluster.audit_log, f"system:serviceaccount:{SYSTEM}:{RELEASE}")
    mark = audit.mark()
    binding = locked.kubectl("get", "rolebinding", RELEASE, "--output=yaml")
    locked.kubectl("delete", "rolebinding", RELEASE)
    for workspace in (served, locked, foreign):
        workspace.create("qwen", QWEN)

    scoped.start()
    served.settled("qwen")
    assert locked.children("qwen") == foreign.children("qwen") == set()
    assert scoped.log().count(f"Cannot list namespace {LOCKED}, will try again: ") == 1
    assert UNREADABLE in scoped.metrics()
    process = scoped.pid

    locked.kubectl("apply", "--filename=-", input=_anew(binding))
    locked.settled("qwen")
    assert "\ninfd_namespaces_unreadable 0.0\n" in scoped.metrics()

    # What it is told of a namespace that it began to watch later, as of any other.
    locked.kubectl("delete", "service", "qwen", "--wait=false")
    eventually(lambda: locked.exists("service", "qwen"), seconds=60, what="the Service is back")

    # A Role that is taken away: the operator goes on with the other namespace.
    locked.kubectl("delete", "rolebinding", RELEASE)
    eventually(lambda: UNREADABLE in scoped.metrics(), seconds=READY_SECONDS, what="it cannot list it any more")
    served.kubectl("delete", "service", "qwen", "--wait=false")
    eventually(lambda: served.exists("service", "qwen"), seconds=60, what="the Service is back")
    time.sleep(QUIET_SECONDS)
    assert (scoped.is_running(), scoped.pid) == (True, process)

    requests = audit.requests(mark)
    assert {r.namespace for r in requests if r.resource} == {SYSTEM, SERVED, LOCKED}
    assert foreign.children("qwen") == set()


def _anew(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.strip().startswith(("resourceVersion:", "uid:")))
