"""The API server is away for longer than Leases, nodes and their pods are waited for."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.localkube.audit_log import AuditLog
from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually
from tests.apiserver.components import component, paused
from tests.apiserver.kept_operator import KeptOperator, kept
from tests.testing.operated_cluster import QUICK_LEASE, SETTINGS
from tests.testing.operator_process import OperatorProcess
from tests.testing.workspace import QUIET_SECONDS, Workspace

OUTAGE_SECONDS = 3600
"""Far more than the five minutes after which Kubernetes takes pods from a node that is not ready."""
WAIT_SECONDS = 120
OF_QWEN = "inference-operator.dev/name=qwen"


@pytest.fixture
def one(
    kubernetes: LocalCluster, qwen: Workspace, operator: OperatorProcess, account: Path, tmp_path: Path
) -> Iterator[KeptOperator]:
    """The operator that outlasts the outage, in the place of the other one."""
    assert qwen
    operator.stop()
    with kept(kubernetes, account, tmp_path / "log", {**SETTINGS, **QUICK_LEASE}) as found:
        yield found
    operator.start()


@pytest.mark.full
def test_a_long_outage_of_the_api_server_takes_no_engine_away(
    kubernetes: LocalCluster, qwen: Workspace, one: KeptOperator, audit: AuditLog
) -> None:
    """No node can renew its lease. Nodes come back late, so that for a while none of them seems to be ready."""
    mark, before = audit.quiet(QUIET_SECONDS, namespace=qwen.namespace), qwen.versions("qwen")
    pods, nodes = ready(qwen), ready_nodes(qwen)
    with paused(component(kubernetes, "kwok")):
        with paused(component(kubernetes, "kube-apiserver")):
            one.outlast(OUTAGE_SECONDS)
        eventually(one.works, seconds=WAIT_SECONDS, what=lambda: f"it leads again:\n{one.end()}")
        eventually(lambda: not ready_nodes(qwen), seconds=WAIT_SECONDS, what="no node is ready")
        eventually(lambda: not ready(qwen), seconds=WAIT_SECONDS, what="no pod is ready")
        one.lists()
    eventually(lambda: ready_nodes(qwen) == nodes, seconds=WAIT_SECONDS, what="all nodes are ready")
    report_ready(qwen)
    qwen.settled("qwen")
    qwen.settled("qwen", "Reconciling", "False")
    assert one.ends, "it has lost its Lease"
    assert one.log().count("The Lease is lost") == len(one.ends), "and each end is told"
    assert qwen.versions("qwen") == before
    assert audit.changes(mark, namespace=qwen.namespace) == []
    assert ready(qwen) == pods, "no pod was replaced"
    qwen.patch("qwen", {"replicas": 2})
    eventually(lambda: qwen.replicas("qwen") == 2, seconds=WAIT_SECONDS, what="an edit is answered")


def ready(workspace: Workspace) -> set[str]:
    """The pods of `qwen` that are ready."""
    found = workspace.all("pods", OF_QWEN)
    return {pod["metadata"]["uid"] for pod in found if is_true(pod, "Ready")}


def ready_nodes(workspace: Workspace) -> list[str]:
    nodes = json.loads(workspace.kubectl("get", "nodes", "--output=json"))["items"]
    return [node["metadata"]["name"] for node in nodes if is_true(node, "Ready")]


def is_true(manifest: dict[str, Any], condition: str) -> bool:
    conditions = manifest["status"].get("conditions", ())
    return any((c["type"], c["status"]) == (condition, "True") for c in conditions)


def report_ready(workspace: Workspace) -> None:
    """Say that the pods are ready, as kubelets do that are back; KWOK says it once in a pod's life."""
    patch = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    for pod in workspace.all("pods", OF_QWEN):
        name = pod["metadata"]["name"]
        workspace.kubectl("patch", "pod", name, "--subresource=status", f"--patch={json.dumps(patch)}")
