"""Which pods of groups on nodes that do not answer are deleted, and what is said about them."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from inference_operator.manifest import Manifest
from inference_operator.views.draining_node import OUT_OF_SERVICE
from inference_operator.views.engine import EngineView, engines_of
from inference_operator.views.node import NodeView, Taint, node_view
from inference_operator.views.pod import PodView, pod_view
from inference_operator.workload.eviction.lost_nodes import ENDS_LATE, LOST_AFTER, lost_due, lost_pods
from inference_operator.workload.eviction.lost_nodes import pods_of_lost_nodes as removals_of
from tests.testing.builders import NOW, pod
from tests.testing.nodes import node

SECOND = timedelta(seconds=1)
GOOD, SILENT = node_view(node("good", gpus=8)), replace(node_view(node("gone", gpus=8, ready=False)), unready_since=NOW)
OFF = replace(SILENT, unready_since=None, taints=(Taint(OUT_OF_SERVICE, "nodeshutdown", "NoExecute"),))
LATE = NOW + LOST_AFTER


def member(index: int, on: str, *, ready: bool = False, terminating: bool = False, group: str = "g") -> PodView:
    view = pod_view(pod(name=f"g-{index}"), component="engine")
    ends = NOW + 30 * SECOND if terminating else None
    return replace(view, group=group, index=index, node=on, ready=ready, terminating=terminating, ends_by=ends)


def group(lost: PodView, *, ready: bool = False) -> list[EngineView]:
    return engines_of([member(0, "good", ready=ready), lost])


ENDING, UNREADY = member(1, "gone", terminating=True), member(1, "gone")


@pytest.mark.parametrize(
    ("lost", "nodes", "deleted"),
    [
        (ENDING, [GOOD, SILENT], True),
        (UNREADY, [GOOD, SILENT], False),
        (ENDING, [SILENT], False),
        (ENDING, [GOOD, replace(SILENT, unready_since=NOW + SECOND)], False),
        (ENDING, [GOOD, replace(SILENT, ready=True, unready_since=None)], False),
        (ENDING, [GOOD, replace(SILENT, unready_since=None)], False),
        (UNREADY, [GOOD, OFF], True),
        (ENDING, [OFF], True),
        (replace(UNREADY, ready=True), [GOOD, OFF], False),
        (ENDING, [GOOD], False),
        (ENDING, None, False),
        (replace(ENDING, group=""), [GOOD, SILENT], False),
        (replace(ENDING, node=""), [GOOD, SILENT], False),
    ],
    ids=[
        "ends, and its node has been silent",
        "Kubernetes does not end it",
        "no node is ready",
        "the node was ready a moment ago",
        "the node is back",
        "it is not known since when",
        "out of service",
        "out of service, and no other node",
        "out of service, and its group serves",
        "a node that is not known",
        "nodes cannot be seen",
        "no group",
        "not placed",
    ],
)
def test_a_pod_is_deleted_without_grace_if_its_node_is_gone(
    lost: PodView, nodes: Sequence[NodeView] | None, *, deleted: bool
) -> None:
    found = removals_of(group(lost, ready=lost.ready), nodes, LATE)
    assert [(one.pod.uid, one.delete and one.delete.grace_seconds) for one in found] == (
        [("pod-g-1", 0)] if deleted else []
    )


def test_the_reason_and_the_time_are_told() -> None:
    engines = group(ENDING)
    (lost,) = lost_pods(engines, [GOOD, SILENT], NOW)
    assert lost.sentence("default") == (
        "Pod g-1 is on node `gone`, which has not been ready since 03:04:05 UTC. The operator deletes it at 03:09:35"
        " UTC, and a new one starts elsewhere."
    )
    assert lost_due(engines, [GOOD, SILENT], NOW) == NOW + 30 * SECOND + ENDS_LATE
    assert lost_due(engines, [GOOD, SILENT], LATE - SECOND) == LATE
    assert lost_due(engines, [GOOD, SILENT], LATE) is None
    (waits,) = lost_pods(group(UNREADY), [GOOD, SILENT], NOW)
    assert waits.sentence("default").endswith(
        ". Once Kubernetes ends the pod, the operator deletes it, and a new one starts elsewhere."
    )


def test_where_nodes_cannot_be_seen_the_command_is_told_once_the_pod_should_have_ended() -> None:
    engines, late = group(ENDING), NOW + 30 * SECOND + ENDS_LATE
    assert lost_pods(engines, None, late - SECOND) == []
    assert lost_due(engines, None, NOW) == late
    (lost,) = lost_pods(engines, None, late)
    assert lost.sentence("team") == (
        "Pod g-1 is on node `gone`, and should have ended at 03:04:35 UTC. The operator cannot see whether that node is"
        " gone. If it is: `kubectl delete pod g-1 -n team --force`."
    )


def test_a_node_tells_since_when_it_is_not_ready() -> None:
    def with_status(status: str) -> Manifest:
        found = node("a", gpus=8)
        found["status"]["conditions"] = [
            {"type": "Ready", "status": status, "lastTransitionTime": "2026-01-02T03:04:05Z"}
        ]
        return found

    assert node_view(with_status("Unknown")).unready_since == NOW
    assert node_view(with_status("False")).unready_since == NOW
    assert node_view(with_status("True")).unready_since is None


def test_a_pod_tells_when_it_should_have_ended() -> None:
    raw = pod()
    raw["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z"
    assert pod_view(raw, component="engine").ends_by == NOW
    assert pod_view(pod(), component="engine").ends_by is None
