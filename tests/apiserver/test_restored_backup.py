"""A service that is restored from a backup of its objects, as docs/how-to/restore.md says."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.localkube.waiting import eventually
from inference_operator.objects.child import ADOPT_ANNOTATION
from tests.testing.operated_cluster import SETTINGS
from tests.testing.operator_process import OperatorProcess
from tests.testing.workspace import QWEN, Workspace

WAIT_SECONDS = 60
NEWER = {"GPU_ENGINE_IMAGE": "example.com/vllm:newer"}
GONE, THEIRS = "example.com/gone", "example.com/theirs"
SPEC = {
    **QWEN,
    "podTemplate": {"annotations": {GONE: "later"}},
    "engine": {"env": [{"name": "GONE_LATER", "value": "1"}]},
    "autoscaling": {"minReplicas": 2, "maxReplicas": 3},
}
KINDS = "deployments,services,configmaps,poddisruptionbudgets,networkpolicies,horizontalpodautoscalers"
SERVER_SET = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "ownerReferences")


@pytest.fixture
def restored(
    workspace: Workspace, operator: OperatorProcess, account: Path, tmp_path: Path
) -> Iterator[tuple[Workspace, dict[str, Any], list[dict[str, Any]]]]:
    """An empty namespace, an operator with a newer image, and the backup of a service and of its children."""
    workspace.create("qwen", SPEC)
    workspace.settled("qwen")
    resource = _backup(workspace.get("infd", "qwen"))
    listed = workspace.kubectl("get", KINDS, "--selector=inference-operator.dev/name=qwen", "--output=json")
    children = [_backup(one) for one in json.loads(listed)["items"]]
    operator.stop()
    newer = OperatorProcess(account, tmp_path / "log", {**SETTINGS, **NEWER})
    try:
        workspace.cluster.kubectl("delete", "namespace", workspace.namespace, f"--timeout={2 * WAIT_SECONDS}s")
        workspace.cluster.kubectl("create", "namespace", workspace.namespace)
        newer.start()
        yield workspace, resource, children
        assert newer.stop() == 0
    finally:
        newer.stop()
        operator.start()


def _backup(manifest: dict[str, Any]) -> dict[str, Any]:
    meta = {key: value for key, value in manifest["metadata"].items() if key not in SERVER_SET}
    return {**{key: value for key, value in manifest.items() if key != "status"}, "metadata": meta}


def _create(workspace: Workspace, *manifests: dict[str, Any]) -> None:
    workspace.kubectl("create", "--filename=-", input="---\n".join(json.dumps(one) + "\n" for one in manifests))


def _pods(workspace: Workspace) -> set[str]:
    pods = workspace.all("pods", "inference-operator.dev/name=qwen")
    return {pod["metadata"]["uid"] for pod in pods if "deletionTimestamp" not in pod["metadata"]}


def _is_ready(workspace: Workspace) -> bool:
    """Whether two engines and two routers are ready."""
    deployments = [workspace.get("deployment", f"qwen-{name}") for name in ("engine", "router")]
    return all(one.get("status", {}).get("readyReplicas", 0) == 2 for one in deployments)


def test_children_that_are_restored_first_keep_their_image_and_no_pod_is_replaced(
    restored: tuple[Workspace, dict[str, Any], list[dict[str, Any]]],
) -> None:
    workspace, resource, children = restored
    for one in children:
        one["metadata"].setdefault("annotations", {}).update({ADOPT_ANNOTATION: "true", THEIRS: "kept"})
    _create(workspace, *children)
    eventually(lambda: _is_ready(workspace), seconds=WAIT_SECONDS, what="the restored pods are ready")
    before, pods = workspace.get("deployment", "qwen-engine"), _pods(workspace)
    _create(workspace, resource)
    said = workspace.settled("qwen")
    workspace.settled("qwen", "Reconciling", "False")
    assert "The engine stays on" in said["message"]
    after = workspace.get("deployment", "qwen-engine")
    assert (after["metadata"]["uid"], after["spec"]) == (before["metadata"]["uid"], before["spec"])
    assert workspace.owners("qwen") == {workspace.get("infd", "qwen")["metadata"]["uid"]}
    assert _pods(workspace) == pods
    assert ADOPT_ANNOTATION not in after["metadata"]["annotations"], "it says nothing about the next loss of an owner"
    assert after["metadata"]["annotations"][THEIRS] == "kept"

    workspace.kubectl(
        "patch", "infd", "qwen", "--type=merge", '--patch={"spec": {"podTemplate": null, "engine": null}}'
    )
    workspace.settled("qwen")
    workspace.settled("qwen", "Reconciling", "False")
    template = workspace.get("deployment", "qwen-engine")["spec"]["template"]
    assert GONE not in template["metadata"]["annotations"], "who restored a workload owns nothing of its pods"
    assert "GONE_LATER" not in json.dumps(template)
