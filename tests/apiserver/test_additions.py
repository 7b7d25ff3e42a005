"""Pod additions of users on a real API server: changed and removed again."""

from typing import Any

import pytest

from tests.testing.workspace import QWEN, Workspace


def added(*volumes: dict[str, Any]) -> dict[str, Any]:
    mounts = [{"name": volume["name"], "mountPath": f"/{volume['name']}"} for volume in volumes]
    return {**QWEN, "replicas": 0, "podTemplate": {"volumes": list(volumes), "volumeMounts": mounts}}


MEMORY = {"name": "a", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}
DISK: dict[str, Any] = {"name": "a", "emptyDir": {}}
CLAIM = {"name": "a", "persistentVolumeClaim": {"claimName": "c", "readOnly": True}}
OTHER = {"name": "b", "configMap": {"name": "m"}}


@pytest.mark.parametrize(
    ("before", "after"),
    [([MEMORY], [DISK]), ([DISK], [MEMORY]), ([MEMORY], [CLAIM]), ([CLAIM], [DISK]), ([DISK, OTHER], [OTHER])],
    ids=["memory to disk", "disk to memory", "memory to claim", "claim to disk", "removed"],
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
