"""Inspection of a model outside the catalogue on a real API server: its Job, its result, and the cleanup."""

import json
from collections import Counter
from http import HTTPStatus

from e2e.localkube.audit_log import AuditLog
from e2e.localkube.waiting import eventually
from tests.apiserver.inspection import GATED, INSPECTION, MINE, MODEL, job_pods, let_it_say, without_nodes
from tests.testing.workspace import QWEN, Workspace


def names(workspace: Workspace, kind: str) -> list[str]:
    return [str(one["metadata"]["name"]) for one in workspace.all(kind, INSPECTION)]


def test_an_unknown_model_is_inspected_once_and_the_engine_is_sized_for_it(
    workspace: Workspace, audit: AuditLog
) -> None:
    mark = audit.mark()
    with without_nodes(workspace):
        workspace.create("mine", MINE)
        workspace.settled("mine", "ModelResolved", "Unknown", saying="The model is being inspected.")
    let_it_say(workspace, MODEL)
    workspace.settled("mine", "ModelResolved", "True", "ModelKnown", saying="15.2 GiB of weights")
    workspace.settled("mine", "Sized", "True", "Fits")
    workspace.settled("mine")
    eventually(lambda: not names(workspace, "jobs"), seconds=20, what="no Job once its answer is kept")
    eventually(lambda: not job_pods(workspace), seconds=40, what="no pod of a Job that is gone")
    (kept,) = names(workspace, "configmaps")
    assert json.loads(workspace.get("configmap", kept)["data"]["model.json"]) == MODEL
    # The Job's controller may write it at the same moment: the deletion of what it was is refused then, and repeated.
    writes = [w for w in audit.writes(mark, namespace=workspace.namespace) if w.code != HTTPStatus.CONFLICT]
    made = Counter((w.verb, w.resource) for w in writes)
    assert (made["patch", "jobs"], made["delete", "jobs"], made["delete", "configmaps"]) == (1, 1, 0), writes

    workspace.patch("mine", QWEN)
    eventually(lambda: not names(workspace, "configmaps"), seconds=20, what="nothing kept of a model that is not asked")
    workspace.settled("mine", "ModelResolved", "True", "ModelKnown")
    assert not names(workspace, "jobs")


def test_a_gated_model_is_reported_and_its_inspection_is_repeated(workspace: Workspace) -> None:
    workspace.create("mine", MINE)
    let_it_say(workspace, GATED)
    workspace.settled(
        "mine", "Stalled", "True", "ModelGated", saying="hf://a/b: is gated. Ask for it. It is read again"
    )
    with without_nodes(workspace):
        eventually(lambda: len(names(workspace, "jobs")) == 2, seconds=60, what="another attempt")
        assert workspace.condition("mine", "Stalled")["reason"] == "ModelGated"
    let_it_say(workspace, MODEL)
    workspace.settled("mine", "Sized", "True", "Fits")
    eventually(lambda: not names(workspace, "jobs"), seconds=20, what="no Job once its answer is kept")


def test_an_inspection_pod_that_a_quota_refuses_is_reported_until_the_quota_is_deleted(workspace: Workspace) -> None:
    workspace.kubectl("create", "quota", "none", "--hard=pods=0")
    workspace.create("mine", MINE)
    words = "Its pod does not run: Kubernetes refuses it: exceeded quota: none, requested: pods=1"

    def message() -> str:
        return str(workspace.get("infd", "mine").get("status", {}).get("message", ""))

    eventually(lambda: words in message(), seconds=40, what=lambda: f"`{words}`: {message()}")
    assert message().endswith("Raise the quota in the message, or lower the requests.")
    workspace.kubectl("delete", "quota", "none")
    eventually(lambda: words not in message(), seconds=90, what=lambda: f"no word of it once it is gone: {message()}")


def test_an_inspection_without_its_volume_is_reported_and_deleted_with_its_owner(workspace: Workspace) -> None:
    workspace.create("mine", {"model": {"source": "pvc://nosuch/mine"}})
    words = "Its pod does not run: "
    eventually(
        lambda: words in workspace.get("infd", "mine").get("status", {}).get("message", ""),
        seconds=30,
        what=lambda: f"`{words}`: {workspace.get('infd', 'mine')['status']}",
    )
    assert 'persistentvolumeclaim "nosuch" not found' in workspace.condition("mine", "Reconciling")["message"]
    assert names(workspace, "jobs")
    workspace.kubectl("delete", "infd", "mine")
    eventually(lambda: not names(workspace, "jobs"), seconds=60, what="no Job")
    eventually(lambda: not names(workspace, "pods"), seconds=60, what="no pod")
