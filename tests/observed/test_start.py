"""How far a pod is, by its own status."""

from datetime import timedelta

import pytest

from inference_operator.manifest import Manifest
from inference_operator.observed.look import LogTail
from inference_operator.observed.pod import pod_view
from inference_operator.observed.start import Stage, Start
from tests.builders import NOW, pod, ready_pod, unschedulable, waiting
from tests.status.situations import starting

CREATING: Manifest = {"waiting": {"reason": "ContainerCreating"}}
RUNNING: Manifest = {"running": {"startedAt": "2026-01-02T03:05:05Z"}}
PLACED = NOW + timedelta(minutes=1)
LOG = LogTail(
    "default", "qwen-engine-7c9f-abcde", "pod-qwen-engine-7c9f-abcde", "engine", 2, previous=False, running=True
)


def start(status: Manifest) -> Start | None:
    return pod_view(pod(status=status), component="engine").start


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({}, Start(Stage.NODE, None, None)),
        (
            {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]},
            Start(Stage.QUEUE, None, None),
        ),
        (starting(minutes=1), Start(Stage.SANDBOX, PLACED, None)),
        (starting(minutes=1, state=CREATING), Start(Stage.IMAGES, PLACED, None)),
        (
            starting(minutes=1, state=RUNNING, started=False, restartCount=2),
            Start(Stage.PROCESS, PLACED, LOG),
        ),
        (starting(minutes=1, state=RUNNING, started=True), Start(Stage.PROCESS, PLACED, None, answered=True)),
    ],
)
def test_a_start_is_at_what_the_pod_waits_for(status: Manifest, expected: Start) -> None:
    found = start(status)
    assert found == expected
    if found and found.log:
        assert (found.log.run, found.log.running) == (2, True)


@pytest.mark.parametrize(
    "status",
    [
        ready_pod(),
        unschedulable("0/1 nodes are available: 1 Insufficient nvidia.com/gpu."),
        waiting("ImagePullBackOff", "no"),
        {"phase": "Succeeded"},
        {"phase": "Failed"},
    ],
)
def test_what_is_over_or_stands_still_does_not_start(status: Manifest) -> None:
    assert start(status) is None


def test_what_is_being_deleted_does_not_start() -> None:
    manifest = pod(status={})
    manifest["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z"
    assert pod_view(manifest, component="engine").start is None
