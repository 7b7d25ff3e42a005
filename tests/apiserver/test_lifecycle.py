"""The lifecycle of an InferenceDeployment on a real API server, with the number of writes by the operator."""

import time
from collections.abc import Iterator
from http import HTTPStatus

import pytest

from e2e.localkube.audit_log import TELLING, AuditLog
from e2e.localkube.errors import ClusterError
from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually
from tests.testing.operated_cluster import temporary_workspace
from tests.testing.operator_process import OperatorProcess
from tests.testing.workspace import QUIET_SECONDS, QWEN, Workspace, served

CHILDREN = {
    "configmap/qwen-router",
    "deployment.apps/qwen-engine",
    "deployment.apps/qwen-router",
    "poddisruptionbudget.policy/qwen-engine",
    "poddisruptionbudget.policy/qwen-router",
    "service/qwen",
    "service/qwen-engines",
    "service/qwen-routers",
}


@pytest.fixture(scope="module")
def steady(kubernetes: LocalCluster, operator: OperatorProcess) -> Iterator[Workspace]:
    """A workspace in which `qwen` serves, shared by tests that leave it as they found it."""
    assert operator.is_running()
    with temporary_workspace(kubernetes, "steady") as found:
        yield served(found)


def test_a_seven_line_resource_gets_its_children_with_one_write_each(qwen: Workspace, audit: AuditLog) -> None:
    assert qwen.children("qwen") == CHILDREN
    writes = audit.writes(0, namespace=qwen.namespace)
    assert len([w for w in writes if w.resource not in TELLING]) == len(CHILDREN)
    # The first status, which may tell it all, and one for each step of three pods that changes what users read.
    assert 1 <= len([w for w in writes if w.resource == "inferencedeployments/status"]) <= 7


def test_kubectl_get_columns_show_whether_a_model_is_served(steady: Workspace) -> None:
    head, row = steady.kubectl("get", "infd", "qwen").splitlines()
    assert head.split() == ["NAME", "MODEL", "READY", "REASON", "ENGINES", "GPUS", "AGE"]
    assert row.split()[:-1] == ["qwen", "Qwen3-8B", "True", "Serving", "1/1", "1xH100-80GB"]
    assert "qwen" in steady.kubectl("get", "inference", "--output=name")
    wide = steady.kubectl("get", "infd", "qwen", "--output=wide").splitlines()
    assert wide[0].split()[-5:] == ["URL", "ENGINE", "CONTEXT", "ADAPTERS", "MESSAGE"]
    url = f"http://qwen.{steady.namespace}.svc.cluster.local/v1"
    assert " ".join(wide[1].split()).endswith(f"{url} VLLM 40960 1 of 1 engine is ready.")


def test_an_engine_runs_on_a_gpu_node_with_the_requested_gpus(workspace: Workspace) -> None:
    workspace.create("large", {**QWEN, "parallelism": {"tensor": 4}})
    workspace.settled("large")
    pod = workspace.kubectl(
        "get", "pods", "-l", "app.kubernetes.io/component=engine", "-o", "jsonpath={.items[0].spec.nodeName}"
    )
    assert pod.startswith("gpu-")
    limits = workspace.get("deployment", "large-engine")["spec"]["template"]["spec"]["containers"][0]["resources"]
    assert limits["limits"] == {"nvidia.com/gpu": "4"}


@pytest.mark.parametrize(
    ("edit", "changed"),
    [
        ({"replicas": 3}, {"Deployment/qwen-engine", "PodDisruptionBudget/qwen-engine"}),
        (
            {"model": {"servedName": "chat"}},
            {"Deployment/qwen-engine", "ConfigMap/qwen-router", "Deployment/qwen-router"},
        ),
        ({"router": {"replicas": 3}}, {"Deployment/qwen-router"}),
        ({"engine": {"args": ["--seed=8"]}}, {"Deployment/qwen-engine"}),
    ],
)
def test_an_edit_of_the_spec_changes_only_the_children_that_it_affects(
    qwen: Workspace, audit: AuditLog, edit: dict[str, object], changed: set[str]
) -> None:
    before, mark = qwen.versions("qwen"), audit.mark()
    qwen.patch("qwen", edit)
    qwen.settled("qwen")
    qwen.settled("qwen", "Reconciling", "False")
    after = qwen.versions("qwen")
    assert {name for name in before | after if before.get(name) != after.get(name)} == changed
    writes = audit.changes(mark, namespace=qwen.namespace)
    assert len(writes) == len(changed), writes


def test_the_disruption_budget_lets_one_of_two_engines_go_and_keeps_the_last_one(qwen: Workspace) -> None:
    def budget() -> dict[str, object]:
        spec = qwen.get("pdb", "qwen-engine")["spec"]
        return {name: spec[name] for name in ("minAvailable", "maxUnavailable") if name in spec}

    assert budget() == {"minAvailable": 1}
    qwen.kubectl("scale", "infd/qwen", "--replicas=2")
    eventually(lambda: budget() == {"maxUnavailable": 1}, seconds=10, what="a budget for two engines")
    qwen.kubectl("scale", "infd/qwen", "--replicas=1")
    eventually(lambda: budget() == {"minAvailable": 1}, seconds=10, what="a budget for one engine")


def test_the_scale_subresource_selects_the_engine_pods(steady: Workspace) -> None:
    path = f"/apis/inference-operator.dev/v1alpha1/namespaces/{steady.namespace}/inferencedeployments/qwen/scale"
    scale = steady.kubectl("get", "--raw", path)
    assert '"selector":"app.kubernetes.io/component=engine,inference-operator.dev/name=qwen"' in scale
    assert '"spec":{"replicas":1}' in scale
    assert '"replicas":1' in scale.partition('"status"')[2]


@pytest.mark.parametrize(
    ("what", "name"),
    [
        ("deployment", "qwen-engine"),
        ("deployment", "qwen-router"),
        ("service", "qwen"),
        ("service", "qwen-engines"),
        ("configmap", "qwen-router"),
        ("pdb", "qwen-router"),
    ],
)
def test_a_deleted_child_is_restored_with_one_write(steady: Workspace, audit: AuditLog, what: str, name: str) -> None:
    uid, mark = steady.get(what, name)["metadata"]["uid"], audit.mark()
    steady.kubectl("delete", what, name, "--wait=false", "--cascade=background")

    def back() -> bool:
        return steady.exists(what, name) and steady.get(what, name)["metadata"]["uid"] != uid

    eventually(back, seconds=15, what=f"{what} {name} is back")
    steady.settled("qwen")
    _one_write(steady, audit, mark)


@pytest.mark.parametrize(
    ("what", "name", "patch"),
    [
        ("deployment", "qwen-engine", '{"spec":{"replicas":5}}'),
        ("deployment", "qwen-engine", '{"spec":{"template":{"spec":{"enableServiceLinks":true}}}}'),
        ("deployment", "qwen-router", '{"spec":{"strategy":{"rollingUpdate":{"maxSurge":3}}}}'),
        ("service", "qwen", '{"spec":{"selector":{"app.kubernetes.io/component":"engine"}}}'),
        ("service", "qwen", '{"spec":{"selector":{"added": "by-hand"}}}'),
        ("pdb", "qwen-router", '{"spec":{"selector":{"matchLabels":{"added": "by-hand"}}}}'),
        (
            "deployment",
            "qwen-engine",
            '{"spec":{"template":{"spec":{"tolerations":[{"operator":"Exists"}]}}}}',
        ),
        ("service", "qwen-engines", '{"metadata":{"labels":{"app.kubernetes.io/component":"x"}}}'),
        ("configmap", "qwen-router", '{"data":{"haproxy.cfg":"nothing"}}'),
        ("pdb", "qwen-router", '{"spec":{"maxUnavailable":2}}'),
    ],
)
def test_a_child_edited_by_hand_is_restored_with_one_write(
    steady: Workspace, audit: AuditLog, what: str, name: str, patch: str
) -> None:
    before, mark = _content(steady, what, name), audit.mark()
    steady.kubectl("patch", what, name, "--type=merge", f"--patch={patch}")
    eventually(lambda: _content(steady, what, name) == before, seconds=10, what=f"{what} {name} is as before")
    _one_write(steady, audit, mark)


def test_labels_and_annotations_that_others_add_to_a_child_are_kept(steady: Workspace, audit: AuditLog) -> None:
    mark = audit.mark()
    steady.kubectl("annotate", "deployment", "qwen-engine", "somebody.example/note=kept")
    steady.kubectl("label", "service", "qwen", "somebody.example/team=kept")
    time.sleep(QUIET_SECONDS)
    # A Deployment's generation counts its annotations too, which status follows for a moment.
    writes = audit.changes(mark, namespace=steady.namespace)
    assert writes == []
    assert steady.get("service", "qwen")["metadata"]["labels"]["somebody.example/team"] == "kept"


def test_a_foreign_object_with_the_name_of_a_child_is_neither_adopted_nor_overwritten(
    workspace: Workspace, audit: AuditLog
) -> None:
    workspace.kubectl("create", "configmap", "qwen-router", "--from-literal=mine=1")
    mark = audit.mark()
    workspace.create("qwen", QWEN)
    workspace.settled(
        "qwen",
        "Stalled",
        "True",
        "NameConflict",
        saying=f"ConfigMap {workspace.namespace}/qwen-router exists and belongs to somebody else",
    )
    foreign = workspace.get("configmap", "qwen-router")
    assert foreign["data"] == {"mine": "1"}
    assert "ownerReferences" not in foreign["metadata"]
    attempts = [w for w in audit.writes(mark, namespace=workspace.namespace) if w.resource == "configmaps"]
    assert {attempt.code for attempt in attempts} == {HTTPStatus.CONFLICT}, "only what would have made a new one"

    workspace.kubectl("delete", "configmap", "qwen-router")
    workspace.settled("qwen", "Stalled", "False")
    workspace.settled("qwen")
    assert workspace.children("qwen") == CHILDREN


def test_a_deleted_resource_leaves_no_children(qwen: Workspace) -> None:
    assert "finalizers" not in qwen.get("infd", "qwen")["metadata"]
    qwen.kubectl("delete", "infd", "qwen")
    eventually(lambda: not qwen.children("qwen"), seconds=30, what=lambda: f"no children: {qwen.children('qwen')}")


def test_a_resource_recreated_at_once_gets_new_children(qwen: Workspace) -> None:
    qwen.kubectl("delete", "infd", "qwen", "--wait=false")
    qwen.create("qwen", QWEN)
    uid = qwen.get("infd", "qwen")["metadata"]["uid"]

    def renewed() -> bool:
        names = [c.split("/") for c in qwen.children("qwen")]
        try:
            owners = {qwen.get(k, n)["metadata"]["ownerReferences"][0]["uid"] for k, n in names}
        except ClusterError:  # a child of the former owner has gone since it was listed
            return False
        return qwen.children("qwen") == CHILDREN and owners == {uid}

    eventually(renewed, seconds=40, what="children of the new owner")
    qwen.settled("qwen")


def test_resource_quantities_in_any_spelling_cause_no_repeated_writes(workspace: Workspace, audit: AuditLog) -> None:
    amounts = {"cpu": "1000m", "memory": "1024Mi", "ephemeral-storage": "0.5Gi"}
    limits = {"memory": "3000000000", "cpu": 2, "hugepages-2Mi": "0"}
    workspace.create("qwen", {**QWEN, "engine": {"resources": {"requests": amounts, "limits": limits}}})
    workspace.settled("qwen")
    workspace.settled("qwen", "EnginesAvailable", saying="cannot be read")  # the last news of pods that answer nobody
    mark = audit.quiet(QUIET_SECONDS, namespace=workspace.namespace)
    workspace.kubectl("annotate", "infd", "qwen", "look=again")
    time.sleep(QUIET_SECONDS)
    assert audit.writes(mark, namespace=workspace.namespace) == []


def _content(workspace: Workspace, what: str, name: str) -> object:
    """What the operator decides of an object: everything but bookkeeping."""
    found = workspace.get(what, name)
    meta = found["metadata"]
    own = {k: v for k, v in meta["annotations"].items() if k.startswith("inference-operator.dev/")}
    return found.get("spec"), found.get("data"), meta["labels"], own


def _one_write(workspace: Workspace, audit: AuditLog, mark: int) -> None:
    time.sleep(QUIET_SECONDS)
    writes = audit.changes(mark, namespace=workspace.namespace)
    assert len(writes) == 1, [str(w) for w in writes]
