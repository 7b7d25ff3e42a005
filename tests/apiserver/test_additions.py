"""Pod additions of users on a real API server: changed and removed again."""

from typing import Any

import pytest

from inference_operator.admission.operator_policy import ACCOUNTS_ANNOTATION
from tests.testing.workspace import QWEN, Workspace


def added(*volumes: dict[str, Any]) -> dict[str, Any]:
    mounts = [{"name": volume["name"], "mountPath": f"/{volume['name']}"} for volume in volumes]
    return {**QWEN, "replicas": 0, "podTemplate": {"volumes": list(volumes), "volumeMounts": mounts}}


MEMORY = {"name": "a", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}
DISK: dict[str, Any] = {"name": "a", "emptyDir": {}}
CLAIM = {"name": "a", "persistentVolumeClaim": {"claimName": "c", "readOnly": True}}
OTHER = {"name": "b", "configMap": {"name": "m"}}
SECRET = {"name": "a", "secret": {"secretName": "s", "items": [{"key": "k", "path": "p"}]}}
DRIVER = {"name": "a", "csi": {"driver": "secrets-store.csi.k8s.io", "readOnly": True}}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([MEMORY], [DISK]),
        ([DISK], [MEMORY]),
        ([MEMORY], [CLAIM]),
        ([CLAIM], [SECRET]),
        ([SECRET], [DRIVER]),
        ([DRIVER], [DISK]),
        ([DISK, OTHER], [OTHER]),
    ],
    ids=["disk", "memory", "claim", "Secret", "driver", "disk again", "removed"],
)
def test_a_volume_of_the_pod_template_can_change_its_type(
    workspace: Workspace, before: list[dict[str, Any]], after: list[dict[str, Any]]
) -> None:
    for volumes in (before, after):
        workspace.create("qwen", added(*volumes))
        workspace.settled("qwen", "Stalled", "False")
        pod = workspace.get("deployment", "qwen-engine")["spec"]["template"]["spec"]
        found = {one["name"]: one.keys() for one in pod["volumes"] if len(one["name"]) == 1}
        assert found == {one["name"]: one.keys() for one in volumes}


def test_account_pull_secrets_variables_and_init_containers_reach_every_pod_and_can_be_removed(
    workspace: Workspace,
) -> None:
    additions = {
        "serviceAccountName": "models",
        "imagePullSecrets": [{"name": "registry"}],
        "envFrom": [{"prefix": "P_", "configMapRef": {"name": "proxies", "optional": True}}],
        "initContainers": [{"name": "first", "image": "example.com/first:1"}],
    }
    node: dict[str, Any] = {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
    keep = {**QWEN, "replicas": 0, "router": {}}
    whole = {**keep, "engine": {"env": [node]}, "podTemplate": additions, "router": {"podTemplate": additions}}
    fields = ("imagePullSecrets", "initContainers")
    workspace.kubectl("annotate", "namespace", workspace.namespace, f"{ACCOUNTS_ANNOTATION}=models")
    workspace.create("qwen", whole)
    workspace.settled("qwen", "Stalled", "False")
    for name in ("qwen-engine", "qwen-router"):
        pod = workspace.get("deployment", name)["spec"]["template"]["spec"]
        assert (pod["serviceAccountName"], pod["imagePullSecrets"]) == ("models", additions["imagePullSecrets"])
        assert [one["name"] for one in pod["initContainers"]] == ["first"]
        assert all(one["envFrom"] == additions["envFrom"] for one in pod["containers"])
    (engine,) = workspace.get("deployment", "qwen-engine")["spec"]["template"]["spec"]["containers"]
    assert {"apiVersion": "v1", "fieldPath": "spec.nodeName"} in [
        one["valueFrom"]["fieldRef"] for one in engine["env"] if "fieldRef" in one.get("valueFrom", {})
    ]
    workspace.create("qwen", keep)
    workspace.settled("qwen", "Stalled", "False")
    for name in ("qwen-engine", "qwen-router"):
        pod = workspace.get("deployment", name)["spec"]["template"]["spec"]
        assert not [field for field in fields if field in pod], name
        assert (pod["serviceAccountName"], pod["serviceAccount"]) == ("default", "default")
