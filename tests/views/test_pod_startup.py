"""How far a pod is, by its own status."""

from datetime import timedelta

import pytest

from inference_operator.manifest import Manifest
from inference_operator.views.lookups import LogLookup
from inference_operator.views.pod import pod_view
from inference_operator.views.pod_startup import PodStartup, StartupStage
from tests.status.situations import starting
from tests.testing.builders import NOW, pod, ready_pod, unschedulable, waiting

CREATING: Manifest = {"waiting": {"reason": "ContainerCreating"}}
RUNNING: Manifest = {"running": {"startedAt": "2026-01-02T03:05:05Z"}}
PLACED = NOW + timedelta(minutes=1)
LOG = LogLookup(
    "default", "qwen-engine-7c9f-abcde", "pod-qwen-engine-7c9f-abcde", "engine", 2, previous=False, running=True
)


def start(status: Manifest) -> PodStartup | None:
    return pod_view(pod(status=status), component="engine").start


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({}, PodStartup(StartupStage.NODE, None, None)),
        (
            {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]},
            PodStartup(StartupStage.QUEUE, None, None),
        ),
        (starting(minutes=1), PodStartup(StartupStage.SANDBOX, PLACED, None)),
        (starting(minutes=1, state=CREATING), PodStartup(StartupStage.IMAGES, PLACED, None)),
        (
            starting(minutes=1, state=RUNNING, started=False, restartCount=2),
            PodStartup(StartupStage.PROCESS, PLACED, LOG),
        ),
        (
            starting(minutes=1, state=RUNNING, started=True),
            PodStartup(StartupStage.PROCESS, PLACED, None, answered=True),
        ),
    ],
)
def test_a_start_is_at_what_the_pod_waits_for(status: Manifest, expected: PodStartup) -> None:
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
