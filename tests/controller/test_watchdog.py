"""A stalled engine, from its samples to its replacement."""

import pytest

from inference_operator.api.reasons import ConditionType
from inference_operator.manifest import POD, Manifest, Ref
from tests.controller.world import RESOURCE, World
from tests.testing.builders import ENGINES, STALLED_ENGINE, deployment_status, pod, ready_pod, waiting
from tests.testing.memory_cluster import SYSTEM_METADATA, Request

CONTROLLERS = "kube-controller-manager"
STATUS = Request("status", RESOURCE)


def add_engine(world: World, name: str, status: Manifest) -> Ref:
    """Add a pod as its ReplicaSet and kubelet do."""
    manifest = pod(name=name, status=status)
    meta = {key: value for key, value in manifest["metadata"].items() if key not in SYSTEM_METADATA}
    ref = Ref.of(world.cluster.apply_as(CONTROLLERS, {**manifest, "metadata": meta}))
    world.cluster.set_status(ref, status)
    return ref


def hang(world: World, ref: Ref) -> None:
    """Store samples that show a stalled engine."""
    world.cache.samples.see_engine(world.live(ref)["metadata"]["uid"], STALLED_ENGINE)


@pytest.fixture
async def two(world: World) -> World:
    """A resource with two ready engines, both stalled."""
    world.ask(replicas=2)
    await world.settle()
    world.pods_are_ready()
    for name in ("a", "b"):
        add_engine(world, name, ready_pod())
    await world.settle()
    for name in ("a", "b"):
        hang(world, Ref(POD, "default", name))
    return world


async def test_the_pod_of_a_stalled_engine_is_deleted_and_the_status_names_the_cause(two: World) -> None:
    writes = await two.settle()
    assert writes == [Request("delete", Ref(POD, "default", "b")), STATUS]
    condition = two.status().condition(ConditionType.ENGINES_AVAILABLE)
    assert condition is not None
    assert (condition.type, condition.status, condition.reason) == ("EnginesAvailable", "False", "EngineStalled")
    assert condition.message == "Pod `b` had 3 requests and made no progress for 300 s; it is being replaced."


async def test_a_second_stalled_engine_is_deleted_only_after_the_first_replacement_is_ready(two: World) -> None:
    await two.settle()
    two.cluster.set_status(ENGINES, deployment_status(2, ready=1, seen=two.live(ENGINES)["metadata"]["generation"]))
    assert await two.settle() == [STATUS]
    assert two.conditions()["EnginesAvailable"] == ("False", "EngineStalled")
    new = add_engine(two, "c", waiting("ContainerCreating", ""))
    assert await two.settle() == []
    two.cluster.set_status(new, ready_pod())
    two.pods_are_ready()
    assert Request("delete", Ref(POD, "default", "a")) in await two.settle()


async def test_a_stalled_engine_is_deleted_although_the_spec_is_refused(two: World) -> None:
    two.ask(replicas=2, engine={"args": ["--port=1"]})
    assert Request("delete", Ref(POD, "default", "b")) in await two.settle()


async def test_a_stalled_engine_of_a_paused_resource_is_not_deleted(two: World) -> None:
    two.ask(replicas=2, paused=True)
    assert await two.settle() == [STATUS]


async def test_a_restarted_operator_deletes_no_engine_before_the_first_scrape(two: World) -> None:
    await two.restart()
    assert await two.settle() == []


async def test_the_status_reports_serving_after_stalled_engines_are_replaced(two: World) -> None:
    await two.settle()
    two.cache.samples.forget_all_but([])
    add_engine(two, "c", ready_pod())
    assert await two.settle() == [STATUS]
    assert two.conditions()["EnginesAvailable"] == ("True", "Serving")
