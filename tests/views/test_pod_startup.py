"""Startup progress of a pod, from its status."""

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
    ids=[
        "no node yet",
        "scheduling gated",
        "scheduled",
        "container creating",
        "running before the startup probe succeeded",
        "running after the startup probe succeeded",
    ],
)
def test_the_startup_stage_of_a_pod_follows_from_its_conditions_and_containers(
    status: Manifest, expected: PodStartup
) -> None:
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
    ids=["ready", "unschedulable", "image pull error", "succeeded", "failed"],
)
def test_a_ready_finished_or_failing_pod_has_no_startup_stage(status: Manifest) -> None:
    assert start(status) is None


def test_a_pod_in_deletion_has_no_startup_stage() -> None:
    manifest = pod(status={})
    manifest["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z"
    assert pod_view(manifest, component="engine").start is None
