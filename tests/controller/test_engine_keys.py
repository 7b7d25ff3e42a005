"""Secrets with the keys of engines: created, never read, changed or deleted, and created again if one is gone."""

from datetime import timedelta

import pytest

from inference_operator.controller.cluster import ClusterError, RejectedError
from inference_operator.controller.reconciler import SECRET_AGAIN
from inference_operator.manifest import SECRET, Manifest, Ref
from tests.controller.world import RESOURCE, World
from tests.testing.builders import ENGINES, KEY, ROUTERS
from tests.testing.memory_cluster import Request

KEYS: Manifest = {"keys": {"secretRef": {"name": "users"}}}


def secrets(world: World) -> dict[Ref, str]:
    """The keys by Secret."""
    return {ref: one["stringData"]["key"] for ref, one in world.cluster.live().items() if ref.kind == SECRET}


def requests(world: World) -> list[Request]:
    return [one for one in world.cluster.requests if one.ref.kind == SECRET]


@pytest.fixture
def world() -> World:
    found = World()
    found.ask(router=KEYS)
    return found


async def test_a_secret_with_a_random_key_comes_before_the_pods_that_mount_it(world: World) -> None:
    await world.settle()
    ((ref, key),) = secrets(world).items()
    assert len(bytes.fromhex(key)) == 32
    uid = world.live(RESOURCE)["metadata"]["uid"]
    assert ref == Ref(SECRET, KEY.namespace, f"{KEY.name}-engine-key-{uid[:8]}")
    assert world.live(ref)["metadata"]["ownerReferences"][0]["uid"] == uid
    order = [one.ref for one in world.cluster.writes if one.ref in (ref, ENGINES, ROUTERS)]
    assert order[0] == ref
    other = World()
    other.ask(router=KEYS)
    await other.settle()
    assert set(secrets(other).values()).isdisjoint({key})


async def test_the_key_is_in_no_other_object_and_the_secret_is_never_read(world: World) -> None:
    await world.settle()
    await world.restart()
    await world.settle()
    (key,) = secrets(world).values()
    assert not [ref for ref, one in world.cluster.live().items() if ref.kind != SECRET and key in str(one)]
    assert {one.verb for one in requests(world)} == {"apply", "create"}
    assert not [one for one in world.cluster.reads if one.ref.kind == SECRET]


async def test_it_is_tried_again_now_and_then_and_an_existing_key_stays(world: World) -> None:
    await world.settle()
    before, tried = secrets(world), len(requests(world))
    await world.reconcile()
    assert len(requests(world)) == tried
    world.now += SECRET_AGAIN
    await world.reconcile()
    assert (len(requests(world)), secrets(world)) == (tried + 1, before)


async def test_a_secret_that_somebody_deleted_comes_back_with_another_key(world: World) -> None:
    await world.settle()
    ((ref, key),) = secrets(world).items()
    world.cluster.remove(ref)
    world.now += SECRET_AGAIN + timedelta(seconds=1)
    await world.reconcile()
    assert secrets(world).keys() == {ref}
    assert secrets(world)[ref] != key


@pytest.mark.parametrize("fault", [RejectedError("no right"), ClusterError("HTTP 500")], ids=str)
async def test_without_the_secret_no_pod_is_made_that_would_mount_it(world: World, fault: ClusterError) -> None:
    world.deliver()
    world.cluster.fail_next(fault)
    await world.reconcile()  # the inspection of the model
    writes = [one.ref for one in world.cluster.writes]
    if not any(ref.kind == SECRET for ref in writes):
        world.cluster.fail_next(fault)
        await world.reconcile()
    assert secrets(world) == {}
    assert {ENGINES, ROUTERS}.isdisjoint(world.cluster.live())
    await world.settle()
    assert {ENGINES, ROUTERS} <= world.cluster.live().keys()
    assert len(secrets(world)) == 1


async def test_the_secret_goes_with_its_resource_and_not_before(world: World) -> None:
    await world.settle()
    world.ask()
    await world.settle()
    assert len(secrets(world)) == 1, "the operator has no right to delete it"
    world.cluster.remove(RESOURCE)
    world.cluster.collect_garbage()
    assert secrets(world) == {}
