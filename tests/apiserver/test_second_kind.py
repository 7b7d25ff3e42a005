"""A second kind of resource on a real API server: with a definition, rights and account policies made for it."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from e2e.localkube.audit_log import AuditLog
from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually
from inference_operator.admission.operator_policy import OperatorAccount, operator_policies
from inference_operator.api.crd import crd
from inference_operator.manifest import CONFIG_MAP, RESOURCE_KINDS, Kind, Manifest
from inference_operator.objects.names import KIND_LABEL, labels
from tests.testing.definitions import await_established
from tests.testing.operated_cluster import QUICK_LEASE, RELEASE, SETTINGS, SYSTEM, temporary_workspace
from tests.testing.operator_process import OperatorProcess
from tests.testing.requests_of import RequestsOf
from tests.testing.second_kind import COMPONENT, ROSTER, ROSTER_API, list_name
from tests.testing.workspace import QUIET_SECONDS, QWEN, Workspace

SECONDS = 90
QUICK = {**SETTINGS, **QUICK_LEASE}
COMMAND = (sys.executable, "-m", "tests.testing.second_kind")
RIGHTS = "rosters-of-the-operator"
OURS, LIST = "ours", list_name("ours")
FORBIDDEN = 403


def role() -> list[Manifest]:
    """The rights of the operator's account on the second kind, as the chart grants them on the first one."""
    of_group = {"apiGroups": [ROSTER.group]}
    rules = [
        {**of_group, "resources": [ROSTER.plural], "verbs": ["get", "list", "watch"]},
        {**of_group, "resources": [f"{ROSTER.plural}/status"], "verbs": ["patch"]},
    ]
    api, meta = "rbac.authorization.k8s.io", {"name": RIGHTS}
    binding = {
        "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": RIGHTS},
        "subjects": [{"kind": "ServiceAccount", "name": RELEASE, "namespace": SYSTEM}],
    }
    return [
        {"apiVersion": f"{api}/v1", "kind": "ClusterRole", "metadata": meta, "rules": rules},
        {"apiVersion": f"{api}/v1", "kind": "ClusterRoleBinding", "metadata": meta, **binding},
    ]


def policies(*kinds: Kind) -> list[Manifest]:
    return operator_policies(OperatorAccount(SYSTEM, RELEASE, kinds=kinds))


@pytest.fixture(scope="module")
def rosters(kubernetes: LocalCluster, account: Path) -> Iterator[RequestsOf]:
    """The second kind with all that it needs in a cluster; requests with the operator's token."""
    made = yaml.safe_dump_all([crd(ROSTER_API), *role()])
    kubernetes.kubectl("create", "--filename=-", input=made)
    await_established(kubernetes, ROSTER.resource)
    kubernetes.kubectl("apply", "--filename=-", input=yaml.safe_dump_all(policies(*RESOURCE_KINDS, ROSTER)))
    yield RequestsOf(account)
    kubernetes.kubectl("apply", "--filename=-", input=yaml.safe_dump_all(policies(*RESOURCE_KINDS)))
    kubernetes.kubectl("delete", "--filename=-", "--wait=false", input=made)


@pytest.fixture(scope="module")
def both(
    rosters: RequestsOf, operator: OperatorProcess, account: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OperatorProcess]:
    """The operator with both kinds and a short Lease, in the place of the shipped one."""
    assert rosters
    operator.stop()
    process = OperatorProcess(account, tmp_path_factory.mktemp("both") / "log", QUICK, COMMAND)
    process.start()
    yield process
    process.kill()
    operator.start()


@pytest.fixture
def listed(kubernetes: LocalCluster, both: OperatorProcess) -> Iterator[Workspace]:
    """A workspace with a Roster whose list is written."""
    assert both.is_leading()
    with temporary_workspace(kubernetes, "rosters") as made:
        ask(made)
        await_list(made, "Models")
        yield made


def ask(workspace: Workspace, **spec: str) -> None:
    kind = {"apiVersion": ROSTER.api_version, "kind": ROSTER.name}
    workspace.kubectl("apply", "--filename=-", input=yaml.safe_dump({**kind, "metadata": {"name": OURS}, "spec": spec}))


def await_list(workspace: Workspace, *lines: str) -> None:
    """Wait until the list has these lines, and the status of the Roster says how many models there are."""

    def is_so() -> bool:
        if not workspace.exists("configmap", LIST):
            return False
        status = workspace.get(ROSTER.resource, OURS).get("status", {})
        text = workspace.get("configmap", LIST)["data"]["list"]
        return bool(text == "\n".join(lines) and status.get("models") == len(lines) - 1)

    eventually(is_so, seconds=SECONDS, what=lambda: f"{lines}: {workspace.kubectl('get', 'ros,cm', '--output=yaml')}")


def changes(audit: AuditLog, mark: int, workspace: Workspace) -> list[tuple[str, str]]:
    """What the operator's account wrote, once it rests."""
    audit.quiet(QUIET_SECONDS, namespace=workspace.namespace)
    writes = audit.writes(mark, namespace=workspace.namespace)
    return [(write.verb, write.resource) for write in writes if write.resource != "events"]


LISTED, REPORTED = ("patch", "configmaps"), ("patch", "rosters/status")


def test_a_resource_of_it_is_created_changed_mended_and_deleted(listed: Workspace, audit: AuditLog) -> None:
    audit.quiet(QUIET_SECONDS, namespace=listed.namespace)
    events = listed.kubectl("get", "events", "--output=jsonpath={.items[*].involvedObject.kind}")
    assert listed.kubectl("get", "ros", OURS, "--no-headers").split() == [OURS, "0"]
    assert "Roster" not in events, "no model has come or gone"

    mark = audit.mark()
    ask(listed, title="Ours")
    await_list(listed, "Ours")
    assert changes(audit, mark, listed) == [LISTED, REPORTED]

    mark = audit.mark()
    listed.kubectl("patch", "configmap", LIST, "--type=merge", '--patch={"data":{"list":"mine"}}')
    await_list(listed, "Ours")
    listed.kubectl("delete", "configmap", LIST)
    await_list(listed, "Ours")
    assert changes(audit, mark, listed) == [LISTED, LISTED]

    listed.create("qwen", QWEN)
    await_list(listed, "Ours", "qwen")
    eventually(
        lambda: "Roster" in listed.kubectl("get", "events", "--output=jsonpath={.items[*].involvedObject.kind}"),
        seconds=SECONDS,
        what="an Event about the Roster",
    )
    listed.kubectl("delete", "infd", "qwen")
    await_list(listed, "Ours")

    mark = audit.mark()
    listed.kubectl("delete", "ros", OURS)
    eventually(lambda: not listed.exists("configmap", LIST), seconds=SECONDS, what="its child is collected")
    assert changes(audit, mark, listed) == []


def test_the_policies_of_the_account_let_it_write_children_of_these_kinds_only(
    listed: Workspace, rosters: RequestsOf
) -> None:
    uid = listed.get(ROSTER.resource, OURS)["metadata"]["uid"]
    path = CONFIG_MAP.path(listed.namespace)

    def written(name: str, kind: str) -> int:
        owner = {"apiVersion": ROSTER.api_version, "kind": kind, "name": OURS, "uid": uid, "controller": True}
        own = {**labels(OURS, COMPONENT), KIND_LABEL: kind}
        meta = {"name": name, "labels": own, "ownerReferences": [owner]}
        return rosters.post(path, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}).code

    assert written("another", "Other") == FORBIDDEN
    assert written("of-it", ROSTER.name) != FORBIDDEN
    assert rosters.patch(f"{ROSTER.path(listed.namespace)}/{OURS}", {"spec": {"title": "Theirs"}}).code == FORBIDDEN


def test_a_process_that_has_lost_the_lease_ends_without_a_write(
    listed: Workspace, both: OperatorProcess, account: Path, audit: AuditLog, tmp_path: Path
) -> None:
    assert "Traceback" not in both.log(), both.log()
    second = OperatorProcess(account, tmp_path / "log", QUICK, COMMAND)
    second.start_beside()
    both.pause()
    try:
        ask(listed, title="Sleeping")  # the sleeper has this event before it, and would act on it
        await_list(listed, "Sleeping")
        ask(listed, title="Awake")
        await_list(listed, "Awake")
        audit.quiet(QUIET_SECONDS, namespace=listed.namespace)
        mark = audit.mark()
    finally:
        both.go_on()
    eventually(lambda: both.exit_status() == 1, seconds=SECONDS, what="who has lost the Lease ends")
    time.sleep(QUIET_SECONDS)
    assert audit.writes(mark, namespace=listed.namespace) == []
    assert second.stop() == 0
    assert "Traceback" not in second.log(), second.log()
    both.start()
