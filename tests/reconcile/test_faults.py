"""What others do to a cluster, and what goes wrong on the way to it."""

from datetime import timedelta

import pytest

from inference_operator.manifest import CONFIG_MAP, Manifest, Ref
from inference_operator.reconcile.cluster import ClusterError, ConflictError, RejectedError
from tests.builders import CONFIG, ENGINES, KEY, SERVICE_OF_ROUTERS
from tests.memory_cluster import Request
from tests.reconcile.test_writes import CHILDREN, STATUS
from tests.reconcile.world import RESOURCE, World

WRITES_OF_A_NEW_RESOURCE = len([*CHILDREN, STATUS])
EVERY_WRITE = pytest.mark.parametrize("number", range(WRITES_OF_A_NEW_RESOURCE))
EVERY_CHILD = pytest.mark.parametrize("number", range(len(CHILDREN)))
LOST_OR_UNANSWERED = pytest.mark.parametrize("took_effect", [False, True], ids=["lost", "unanswered"])


@pytest.fixture
async def reference() -> World:
    """What a world without faults comes to."""
    world = World()
    world.ask()
    await world.settle()
    return world


class Killed(Exception):  # noqa: N818 - not an error but an end
    """The process ends here."""


@EVERY_WRITE
@LOST_OR_UNANSWERED
async def test_a_killed_operator_is_continued_by_the_next(
    world: World, reference: World, number: int, *, took_effect: bool
) -> None:
    world.ask()
    world.cluster.fail_next(Killed(), skip=number, took_effect=took_effect)
    with pytest.raises(Killed):
        await world.reconcile()
    await world.restart()
    left = await world.settle()
    assert len(left) == WRITES_OF_A_NEW_RESOURCE - number - took_effect
    assert world.children() == reference.children()
    assert world.conditions() == reference.conditions()


@EVERY_WRITE
@LOST_OR_UNANSWERED
async def test_a_fault_is_raised_and_the_next_attempt_succeeds(
    world: World, reference: World, number: int, *, took_effect: bool
) -> None:
    world.ask()
    world.cluster.fail_next(ClusterError("HTTP 500"), skip=number, took_effect=took_effect)
    with pytest.raises(ClusterError):
        await world.reconcile()
    world.cluster.events.clear()  # not even the watch tells what became of it
    await world.settle()
    assert world.children() == reference.children()
    assert world.conditions() == reference.conditions()


@EVERY_CHILD
async def test_who_is_overtaken_says_so_and_tries_again(world: World, reference: World, number: int) -> None:
    world.ask()
    world.cluster.fail_next(ConflictError("somebody was faster"), skip=number)
    again = await world.reconcile()
    assert again is not None
    assert world.conditions()["Stalled"] == ("True", "NameConflict")
    await world.settle()
    assert world.children() == reference.children()
    assert world.conditions() == reference.conditions()


@EVERY_CHILD
async def test_a_rejected_child_is_named_and_the_others_are_made(world: World, reference: World, number: int) -> None:
    world.ask()
    world.cluster.fail_next(RejectedError("exceeded quota: small"), skip=number)
    again = await world.reconcile()
    assert again is not None
    stalled = world.status().conditions[2]
    assert (stalled.status, stalled.reason) == ("True", "ChildRejected")
    assert stalled.message == f"{CHILDREN[number]} was refused: exceeded quota: small"
    assert set(world.children()) == set(CHILDREN) - {CHILDREN[number]}
    await world.settle()
    assert world.children() == reference.children()
    assert world.conditions() == reference.conditions()


async def test_a_change_of_an_object_that_was_replaced_is_not_made(settled: World) -> None:
    old = settled.live(CONFIG)["metadata"]["uid"]
    settled.ask(replicas=17)
    settled.deliver()
    settled.cluster.remove(CONFIG)
    foreign = settled.cluster.apply_as("somebody-else", _foreign(CONFIG))
    assert foreign["metadata"]["uid"] != old
    settled.cluster.events.clear()
    await settled.reconcile()
    assert settled.live(CONFIG) == foreign


def _foreign(ref: Ref) -> Manifest:
    return {
        "apiVersion": ref.kind.api_version,
        "kind": ref.kind.name,
        "metadata": {"name": ref.name, "namespace": ref.namespace, "labels": {"app": "theirs"}},
    }


@pytest.mark.parametrize("ref", CHILDREN, ids=str)
async def test_a_foreign_object_is_named_and_left_alone(world: World, reference: World, ref: Ref) -> None:
    foreign = world.cluster.apply_as("somebody-else", _foreign(ref))
    world.ask()
    again = await world.reconcile()
    assert again is not None
    assert world.live(ref) == foreign
    assert set(world.cluster.live()) == {*CHILDREN, RESOURCE}
    conditions = {c.type: c for c in world.status().conditions}
    assert (conditions["Stalled"].status, conditions["Stalled"].reason) == ("True", "NameConflict")
    assert conditions["Stalled"].message.startswith(f"{ref} exists and belongs to somebody else")
    assert "somebody-else" in conditions["Stalled"].message
    assert conditions["Reconciling"].status == "False"
    assert await world.settle() == []

    world.cluster.remove(ref)
    assert await world.settle() == [Request("apply", ref), STATUS]
    assert world.children() == reference.children()
    assert world.conditions() == reference.conditions()


async def test_without_its_service_nothing_is_ready(world: World) -> None:
    world.cluster.apply_as("somebody-else", _foreign(SERVICE_OF_ROUTERS))
    world.ask()
    await world.settle()
    world.pods_are_ready()
    await world.settle()
    assert world.conditions()["Ready"] == ("False", "NameConflict")


async def test_a_foreign_object_that_belongs_to_another_owner_is_named_after_it(world: World) -> None:
    foreign = _foreign(SERVICE_OF_ROUTERS)
    owner = {"apiVersion": "v1", "kind": "Gateway", "name": "edge", "uid": "u", "controller": True}
    foreign["metadata"]["ownerReferences"] = [owner]
    world.cluster.apply_as("somebody-else", foreign)
    world.ask()
    await world.settle()
    assert "belongs to Gateway edge" in world.status().conditions[2].message


async def test_a_conflict_is_looked_at_less_and_less_often(world: World) -> None:
    world.cluster.apply_as("somebody-else", _foreign(SERVICE_OF_ROUTERS))
    world.ask()
    waits = []
    for _ in range(12):
        again = await world.reconcile()
        assert again is not None
        waits.append(again.seconds)
        world.now += timedelta(seconds=again.seconds)
    assert waits == sorted(waits)
    assert (waits[0], waits[-1]) == (2, 300)


async def test_a_foreign_object_on_its_way_out_is_waited_for(world: World) -> None:
    foreign = _foreign(SERVICE_OF_ROUTERS)
    foreign["metadata"]["finalizers"] = ["example.com/slow"]
    world.cluster.apply_as("somebody-else", foreign)
    world.cluster.remove(SERVICE_OF_ROUTERS)
    world.ask()
    again = await world.reconcile()
    assert again is not None
    assert world.conditions()["Reconciling"] == ("True", "WaitingForDeletion")
    assert world.conditions()["Stalled"][0] == "False"
    world.edit(SERVICE_OF_ROUTERS, lambda manifest: manifest["metadata"].pop("finalizers"))
    assert await world.settle() == [Request("apply", SERVICE_OF_ROUTERS), STATUS]


async def test_a_child_on_its_way_out_is_made_anew_when_it_is_gone(settled: World) -> None:
    def hold(manifest: Manifest) -> None:
        manifest["metadata"]["finalizers"] = ["example.com/slow"]

    settled.edit(CONFIG, hold)
    settled.cluster.remove(CONFIG)
    assert await settled.settle() == []
    settled.edit(CONFIG, lambda manifest: manifest["metadata"].pop("finalizers"))
    assert await settled.settle() == [Request("apply", CONFIG)]


async def test_children_of_an_earlier_resource_of_that_name_are_waited_for(serving: World, reference: World) -> None:
    serving.cluster.remove(RESOURCE)
    serving.ask()
    assert await serving.settle() == [STATUS]
    assert serving.conditions()["Reconciling"] == ("True", "WaitingForDeletion")
    serving.cluster.collect_garbage()
    await serving.settle()
    assert serving.children() == reference.children()
    assert serving.conditions() == reference.conditions()


async def test_a_child_without_its_owner_is_not_adopted(settled: World) -> None:
    settled.edit(CONFIG, lambda manifest: manifest["metadata"].pop("ownerReferences"))
    abandoned = settled.live(CONFIG)
    assert await settled.settle() == [STATUS]
    assert settled.conditions()["Stalled"] == ("True", "NameConflict")
    assert settled.live(CONFIG) == abandoned


async def test_a_refused_edit_leaves_what_serves_alone(serving: World) -> None:
    before = serving.cluster.live()
    del before[RESOURCE]
    serving.ask(source="s3://bucket/qwen")
    assert await serving.settle() == [STATUS]
    after = serving.cluster.live()
    del after[RESOURCE]
    assert after == before
    assert serving.conditions() == {
        "Ready": ("True", "Serving"),
        "Reconciling": ("False", "Settled"),
        "Stalled": ("True", "InvalidModelSource"),
        "EnginesAvailable": ("True", "Serving"),
        "RouterAvailable": ("True", "Serving"),
    }
    serving.ask()
    assert await serving.settle() == [STATUS]
    assert serving.conditions()["Stalled"][0] == "False"


async def test_a_refused_resource_has_a_status_and_nothing_else(world: World) -> None:
    world.ask(source="s3://bucket/qwen")
    assert await world.settle() == [STATUS]
    assert set(world.cluster.live()) == {RESOURCE}
    assert world.conditions()["Ready"] == ("False", "InvalidModelSource")


async def test_engines_that_are_gone_are_stalled_after_the_deadline_without_any_event(serving: World) -> None:
    serving.cluster.set_status(ENGINES, {"observedGeneration": 1, "replicas": 1, "readyReplicas": 0})
    again = await serving.reconcile()
    assert again is not None
    assert again.seconds == 1800
    assert serving.conditions()["Ready"] == ("False", "EnginesUnavailable")
    assert serving.conditions()["Stalled"][0] == "False"
    serving.now += timedelta(seconds=again.seconds)
    assert await serving.reconcile() is None
    assert serving.conditions()["Stalled"] == ("True", "ProgressDeadlineExceeded")


async def test_a_status_that_cannot_be_written_is_written_later(world: World) -> None:
    world.ask()
    world.cluster.fail_next(RejectedError("no"), skip=len(CHILDREN))
    with pytest.raises(RejectedError):
        await world.reconcile()
    assert await world.settle() == [STATUS]


async def test_a_resource_that_vanishes_meanwhile_is_no_fault(world: World) -> None:
    world.ask()
    world.deliver()
    world.cluster.remove(RESOURCE)
    await world.reconciler.reconcile(KEY)
    assert world.deliver() == {KEY}
    world.cluster.collect_garbage()
    assert await world.settle() == []


async def test_other_objects_with_our_label_are_none_of_ours(settled: World) -> None:
    stranger = _foreign(Ref(CONFIG_MAP, "default", "theirs"))
    stranger["metadata"]["labels"] = settled.live(CONFIG)["metadata"]["labels"]
    settled.cluster.apply_as("somebody-else", stranger)
    assert await settled.settle() == []
