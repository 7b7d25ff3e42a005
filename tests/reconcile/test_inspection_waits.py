"""An inspection that does not begin: what only Events tell of it, and what that costs."""

import pytest

from inference_operator.api.reasons import ConditionType
from inference_operator.manifest import Ref
from inference_operator.observed.waits import CREATION_PATIENCE, VOLUME_PATIENCE
from tests.inspected import MINE, pod_of
from tests.reconcile.test_inspection import end, newest_job
from tests.reconcile.test_looks import round_with_looks
from tests.reconcile.world import World
from tests.status.situations import starting


@pytest.fixture
async def inspecting(world: World) -> World:
    world.ask(source=MINE)
    await world.settle()
    return world


def refuse(world: World, *, pod: str) -> None:
    """Let the Job's controller tell that it cannot make the pod, as it does at each attempt."""
    job = newest_job(world)
    name = job["metadata"]["name"]
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{name}.{pod}", "namespace": job["metadata"]["namespace"]},
        "involvedObject": {"kind": "Job", "name": name, "uid": job["metadata"]["uid"]},
        "reason": "FailedCreate",
        "message": f'Error creating: pods "{name}-{pod}" is forbidden: exceeded quota: small',
    }
    world.cluster.apply_as("job-controller", event)


async def test_a_usual_inspection_costs_no_look_at_events(inspecting: World) -> None:
    after = await inspecting.reconcile()
    assert after is not None
    assert (after.looks, after.seconds) == ((), CREATION_PATIENCE.total_seconds())
    job = newest_job(inspecting)
    inspecting.cluster.apply_as("kubelet", pod_of(job, None))
    inspecting.now += CREATION_PATIENCE
    after = await inspecting.reconcile()
    assert after is None or not after.looks


async def test_a_pod_that_cannot_be_made_is_told_once_with_cause_and_cure(inspecting: World) -> None:
    inspecting.now += CREATION_PATIENCE
    before = len(inspecting.cluster.writes)
    for pod in ("a", "b", "c"):
        refuse(inspecting, pod=pod)
        await round_with_looks(inspecting)
    assert [one.verb for one in inspecting.cluster.writes[before:]] == ["status"]
    told = inspecting.status().condition(ConditionType.MODEL_RESOLVED)
    assert told is not None
    assert (told.status, told.reason) == ("Unknown", "InspectingModel")
    why = "Kubernetes refuses it: exceeded quota: small. Raise the quota that is named, or ask for less."
    assert told.message.endswith(f" Its pod does not run: {why}")
    end(inspecting, None)
    await round_with_looks(inspecting)
    told = inspecting.status().condition(ConditionType.MODEL_RESOLVED)
    assert told is not None
    assert (told.status, told.reason) == ("False", "InspectionFailed")
    assert f"did not run in time: {why}" in told.message


async def test_a_volume_that_its_pod_cannot_have_is_told(inspecting: World) -> None:
    pod = pod_of(newest_job(inspecting), None)
    inspecting.cluster.apply_as("kubelet", pod)
    inspecting.cluster.set_status(Ref.of(pod), starting())
    inspecting.now += VOLUME_PATIENCE
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "mount", "namespace": pod["metadata"]["namespace"]},
        "involvedObject": {"kind": "Pod", "uid": inspecting.live(Ref.of(pod))["metadata"]["uid"]},
        "reason": "FailedMount",
        "message": "MountVolume.SetUp failed: no such share",
    }
    inspecting.cluster.apply_as("kubelet", event)
    await round_with_looks(inspecting)
    told = inspecting.status().condition(ConditionType.MODEL_RESOLVED)
    assert told is not None
    assert "Its pod does not run: a volume cannot be mounted: MountVolume.SetUp failed: no such share." in told.message
