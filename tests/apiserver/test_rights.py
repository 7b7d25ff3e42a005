"""The chart's Role and what the operator asks for agree: nothing missing, nothing unused."""

import json

from e2e.audit import AuditLog
from e2e.waiting import eventually
from tests.apiserver.conftest import RELEASE, STALL_SECONDS, SYSTEM
from tests.apiserver.hung_engine import let_an_engine_stand_still
from tests.apiserver.workspace import QWEN, Workspace

CREATED = 201
FORBIDDEN = 403


def test_role_and_audit_log_agree(workspace: Workspace, audit: AuditLog) -> None:
    """Everything is done once here, so that the test needs no other one before it."""
    workspace.create("qwen", {**QWEN, "replicas": 2})
    workspace.settled("qwen")
    workspace.patch("qwen", {"engine": {"args": ["--max-num-seqs=8"]}})
    workspace.settled("qwen", "Reconciling", "False")
    workspace.kubectl("scale", "infd/qwen", "--replicas=1")
    eventually(lambda: not workspace.exists("pdb", "qwen-engine"), seconds=10, what="no budget for one engine")

    let_an_engine_stand_still(workspace, "qwen", within=6 * STALL_SECONDS)
    _let_an_engine_fail(workspace)

    rules = [
        *workspace.get("clusterrole", RELEASE)["rules"],
        *Workspace(workspace.cluster, SYSTEM).get("role", f"{RELEASE}-lease")["rules"],
    ]
    granted = {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    requests = [r for r in audit.requests() if r.resource]
    used = {(r.group, r.resource, r.verb) for r in requests}
    # A patch that creates needs both rights (Kubernetes documentation, Server-Side Apply, "Authorization").
    used |= {(r.group, r.resource, "create") for r in requests if r.verb == "patch" and r.code == CREATED}
    assert used - granted == set()
    assert granted - used == set()
    # In namespaces that are being deleted admission forbids to create, whatever the rights.
    assert [str(r) for r in requests if r.code == FORBIDDEN and r.namespace == workspace.namespace] == []


def _let_an_engine_fail(workspace: Workspace) -> None:
    """Show an engine whose container has ended without a word, as its kubelet would; nobody has its log."""
    selector = "--selector=inference-operator.dev/name=qwen,app.kubernetes.io/component=engine"
    pod = workspace.kubectl("get", "pods", selector, "--output=name").splitlines()[0]
    container = {
        "name": "engine",
        "image": "engine",
        "imageID": "",
        "ready": False,
        "restartCount": 1,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": {"exitCode": 1}},
    }
    ready = {"type": "Ready", "status": "False"}
    patch = json.dumps({"status": {"conditions": [ready], "containerStatuses": [container]}})
    workspace.kubectl("patch", pod, "--subresource=status", "--type=strategic", f"--patch={patch}")
    told = "its log cannot be read: its node does not answer"
    eventually(
        lambda: told in workspace.condition("qwen", "Reconciling").get("message", ""),
        seconds=20,
        what=lambda: f"`{told}`: {workspace.get('infd', 'qwen')['status']}",
    )
