"""Objects for gang schedulers on a real API server with their CRDs. Nothing places these pods."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from e2e.go_modules import coscheduling_definition, volcano_definition
from e2e.localkube.audit_log import AuditLog
from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually
from tests.testing.operated_cluster import optional_kinds, temporary_workspace
from tests.testing.operator_process import OperatorProcess
from tests.testing.workspace import QUIET_SECONDS, QWEN, Workspace

pytestmark = pytest.mark.full
COSCHEDULING, VOLCANO = "podgroups.scheduling.x-k8s.io", "podgroups.scheduling.volcano.sh"
SECONDS = 30


@pytest.fixture(scope="module")
def with_groups(kubernetes: LocalCluster, operator: OperatorProcess) -> Iterator[None]:
    with optional_kinds(kubernetes, operator, coscheduling_definition(), volcano_definition()):
        yield


@pytest.fixture
def grouped(kubernetes: LocalCluster, with_groups: None) -> Iterator[Workspace]:  # noqa: ARG001 - the CRDs
    with temporary_workspace(kubernetes) as found:
        yield found


def pair(scheduler: str, **scheduling: object) -> dict[str, Any]:
    named = {"schedulerName": scheduler, **scheduling}
    return {**QWEN, "parallelism": {"tensor": 1, "nodes": 2}, "scheduling": named}


def pods(workspace: Workspace) -> list[Mapping[str, Any]]:
    selector = "app.kubernetes.io/component=engine"
    eventually(lambda: len(workspace.all("pod", selector)) == 2, seconds=SECONDS, what="two pods")
    return [pod["metadata"] for pod in workspace.all("pod", selector)]


WAYS = {
    "coscheduling": ("gpus", COSCHEDULING, "labels", "scheduling.x-k8s.io/pod-group", {"minMember": 2}),
    "Volcano": (
        "volcano",
        VOLCANO,
        "annotations",
        "scheduling.k8s.io/group-name",
        {"minMember": 2, "queue": "default"},
    ),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
def test_a_group_has_the_object_that_its_gang_scheduler_reads(
    grouped: Workspace, audit: AuditLog, way: tuple[str, str, str, str, dict[str, Any]]
) -> None:
    scheduler, kind, place, key, spec = way
    grouped.create("qwen", pair(scheduler))
    assert [pod[place][key] for pod in pods(grouped)] == ["qwen-engine-0", "qwen-engine-0"]
    assert grouped.get(kind, "qwen-engine-0")["spec"] == spec
    mark = audit.quiet(QUIET_SECONDS, namespace=grouped.namespace)
    grouped.kubectl("annotate", "infd", "qwen", "look=again")
    audit.quiet(QUIET_SECONDS, namespace=grouped.namespace)
    assert [one for one in audit.writes(mark, namespace=grouped.namespace) if one.resource == "podgroups"] == []
    grouped.kubectl("delete", kind, "qwen-engine-0")
    eventually(lambda: grouped.exists(kind, "qwen-engine-0"), seconds=SECONDS, what="the PodGroup again")
    grouped.kubectl("scale", "infd/qwen", "--replicas=0")
    eventually(lambda: not grouped.exists(kind, "qwen-engine-0"), seconds=SECONDS, what="no PodGroup without pods")
    grouped.kubectl("scale", "infd/qwen", "--replicas=1")
    eventually(lambda: grouped.exists(kind, "qwen-engine-0"), seconds=SECONDS, what="the PodGroup with pods")


def test_switched_off_there_is_no_object_and_no_mark(grouped: Workspace) -> None:
    grouped.create("qwen", pair("gpus", gang="Off"))
    assert not any("scheduling.x-k8s.io/pod-group" in pod["labels"] for pod in pods(grouped))
    assert json.loads(grouped.kubectl("get", COSCHEDULING, "--output=json"))["items"] == []
