"""The chart's Role and what the operator asks for agree: nothing missing, nothing unused."""

from e2e.audit import AuditLog
from e2e.waiting import eventually
from tests.apiserver.conftest import RELEASE
from tests.apiserver.workspace import QWEN, Workspace

CREATED = 201
FORBIDDEN = 403


def test_role_and_audit_log_agree(workspace: Workspace, audit: AuditLog) -> None:
    """Everything is done once here, so that the test needs no other one before it."""
    workspace.create("qwen", {**QWEN, "replicas": 2})
    workspace.settled("qwen")
    workspace.kubectl("scale", "infd/qwen", "--replicas=1")
    eventually(lambda: not workspace.exists("pdb", "qwen-engine"), seconds=10, what="no budget for one engine")

    rules = workspace.get("clusterrole", RELEASE)["rules"]
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
