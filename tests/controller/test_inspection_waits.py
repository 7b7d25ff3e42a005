"""An inspection whose pod does not start: Events or the kubelet contain the cause."""

import pytest

from inference_operator.api.reasons import ConditionType
from inference_operator.diagnosis.pending_causes import CREATION_LOOKUP_AFTER, VOLUME_LOOKUP_AFTER
from inference_operator.manifest import Ref
from inference_operator.objects.names import INSPECTION
from tests.controller.test_inspection import end, newest_job
from tests.controller.test_lookups import round_with_looks
from tests.controller.world import RESOURCE, World
from tests.status.situations import starting
from tests.testing.builders import waiting
from tests.testing.inspected import MINE, pod_of


@pytest.fixture
async def inspecting(world: World) -> World:
    world.ask(source=MINE)
    await world.settle()
    return world


def refuse(world: World, *, pod: str) -> None:
    """Write the Event of a Job controller that cannot create the pod."""
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


async def test_a_normal_inspection_lists_no_events(inspecting: World) -> None:
    after = await inspecting.reconcile()
    assert after is not None
    assert (after.lookups, after.seconds) == ((), CREATION_LOOKUP_AFTER.total_seconds())
    job = newest_job(inspecting)
    inspecting.cluster.apply_as("kubelet", pod_of(job, None))
    inspecting.now += CREATION_LOOKUP_AFTER
    after = await inspecting.reconcile()
    assert after is None or not after.lookups


async def test_an_inspection_pod_that_cannot_be_created_is_in_the_status_with_cause_and_cure(inspecting: World) -> None:
    inspecting.now += CREATION_LOOKUP_AFTER
    before = len(inspecting.cluster.writes)
    for pod in ("a", "b", "c"):
        refuse(inspecting, pod=pod)
        await round_with_looks(inspecting)
    assert [one.verb for one in inspecting.cluster.writes[before:]] == ["status"]
    told = inspecting.status().condition(ConditionType.MODEL_RESOLVED)
    assert told is not None
    assert (told.status, told.reason) == ("Unknown", "QuotaExceeded")
    why = "Kubernetes refuses it: exceeded quota: small. Raise the quota in the message, or lower the requests."
    assert inspecting.status().message.endswith(f" Its pod does not run: {why}")
    end(inspecting, None)
    await round_with_looks(inspecting)
    told = inspecting.status().condition(ConditionType.MODEL_RESOLVED)
    assert told is not None
    assert (told.status, told.reason) == ("False", "QuotaExceeded")
    assert f"did not run in time: {why}" in inspecting.status().message


async def test_a_volume_that_an_inspection_pod_cannot_mount_is_in_the_status(inspecting: World) -> None:
    pod = pod_of(newest_job(inspecting), None)
    inspecting.cluster.apply_as("kubelet", pod)
    inspecting.cluster.set_status(Ref.of(pod), starting())
    inspecting.now += VOLUME_LOOKUP_AFTER
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
    said = inspecting.status().message
    assert "Its pod does not run: a volume cannot be mounted: MountVolume.SetUp failed: no such share." in said


async def test_a_key_that_the_secret_of_a_bucket_lacks_is_named_in_the_status(world: World) -> None:
    world.ask(source="s3://models/qwen", cache={"claimName": "models"})
    world.edit(RESOURCE, lambda one: one["spec"]["model"].update(s3={"credentialsSecretRef": {"name": "store"}}))
    await world.settle()
    pod = pod_of(newest_job(world), None)
    world.cluster.apply_as("kubelet", pod)
    missing = "couldn't find key AWS_SECRET_ACCESS_KEY in Secret default/store"
    world.cluster.set_status(Ref.of(pod), waiting("CreateContainerConfigError", missing, container=INSPECTION))
    await round_with_looks(world)
    told = world.status().condition(ConditionType.MODEL_RESOLVED)
    assert told is not None
    assert (told.status, told.reason) == ("Unknown", "ContainerConfigError")
    assert (
        f"Its pod does not run: {missing}. Add the key `AWS_SECRET_ACCESS_KEY` to the Secret" in world.status().message
    )
