"""Name conflicts: children whose names are taken by others or by objects that are being deleted."""

from datetime import timedelta

import pytest

from inference_operator.manifest import CONFIG_MAP, Manifest, Ref
from inference_operator.objects.child import ADOPT_ANNOTATION
from inference_operator.objects.names import MANAGED_BY_LABEL, MANAGER, NAME_LABEL
from tests.controller.conftest import Reference
from tests.controller.test_writes import CHILDREN, STATUS, not_written
from tests.controller.world import RESOURCE, World
from tests.testing.builders import CONFIG, ENGINES, ROUTERS, SERVICE_OF_ROUTERS
from tests.testing.memory_cluster import Request


async def test_a_change_decided_for_a_replaced_object_is_not_applied_to_its_successor(settled: World) -> None:
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
async def test_a_foreign_object_with_the_name_of_a_child_is_named_in_the_status_and_stays_unchanged(
    world: World, reference: Reference, ref: Ref
) -> None:
    foreign = world.cluster.apply_as("somebody-else", _foreign(ref))
    world.ask()
    again = await world.reconcile()
    assert again is not None
    assert world.live(ref) == foreign
    waiting = not_written(ref)
    assert set(world.cluster.live()) == {*CHILDREN, RESOURCE} - set(waiting[1:])
    conditions = {c.type: c for c in world.status().conditions}
    assert (conditions["Stalled"].status, conditions["Stalled"].reason) == ("True", "NameConflict")
    assert conditions["Stalled"].message.startswith(f"{ref} exists and belongs to somebody else")
    assert "somebody-else" in conditions["Stalled"].message
    assert conditions["Reconciling"].status == "False"
    assert await world.settle() == []

    world.cluster.remove(ref)
    assert await world.settle() == [*(Request("apply", one) for one in waiting), STATUS]
    assert world.children() == reference.children
    assert world.conditions() == reference.conditions


async def test_a_resource_whose_service_has_a_name_conflict_is_not_ready(world: World) -> None:
    world.cluster.apply_as("somebody-else", _foreign(SERVICE_OF_ROUTERS))
    world.ask()
    await world.settle()
    world.pods_are_ready()
    await world.settle()
    assert world.conditions()["Ready"] == ("False", "NameConflict")


async def test_the_message_for_a_foreign_object_names_its_owner(world: World) -> None:
    foreign = _foreign(SERVICE_OF_ROUTERS)
    owner = {"apiVersion": "v1", "kind": "Gateway", "name": "edge", "uid": "u", "controller": True}
    foreign["metadata"]["ownerReferences"] = [owner]
    world.cluster.apply_as("somebody-else", foreign)
    world.ask()
    await world.settle()
    assert "belongs to Gateway edge" in world.status().conditions[2].message


async def test_a_name_conflict_is_checked_again_regularly(world: World) -> None:
    world.cluster.apply_as("somebody-else", _foreign(SERVICE_OF_ROUTERS))
    world.ask()
    for _ in range(3):
        again = await world.reconcile()
        assert again is not None
        assert again.seconds == 15
        world.now += timedelta(seconds=again.seconds)
    world.cluster.remove(SERVICE_OF_ROUTERS)
    await world.reconcile()
    assert world.conditions()["Ready"] == ("False", "Starting")


async def test_a_foreign_object_that_is_being_deleted_is_waited_for(world: World) -> None:
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


async def test_a_child_that_is_being_deleted_is_created_again_after_its_deletion(settled: World) -> None:
    def hold(manifest: Manifest) -> None:
        manifest["metadata"]["finalizers"] = ["example.com/slow"]

    settled.edit(CONFIG, hold)
    settled.cluster.remove(CONFIG)
    assert await settled.settle() == []
    settled.edit(CONFIG, lambda manifest: manifest["metadata"].pop("finalizers"))
    assert await settled.settle() == [Request("apply", CONFIG)]


async def test_children_of_a_deleted_resource_of_the_same_name_are_waited_for(
    serving: World, reference: Reference
) -> None:
    serving.cluster.remove(RESOURCE)
    serving.ask()
    assert await serving.settle() == [STATUS]
    assert serving.conditions()["Reconciling"] == ("True", "WaitingForDeletion")
    serving.cluster.collect_garbage()
    await serving.settle()
    assert serving.children() == reference.children
    assert serving.conditions() == reference.conditions


async def test_a_child_without_its_owner_is_not_adopted(settled: World) -> None:
    settled.edit(CONFIG, lambda manifest: manifest["metadata"].pop("ownerReferences"))
    abandoned = settled.live(CONFIG)
    assert await settled.settle() == [STATUS]
    assert settled.conditions()["Stalled"] == ("True", "NameConflict")
    assert settled.live(CONFIG) == abandoned


async def test_objects_with_the_label_but_without_the_owner_reference_are_no_children(settled: World) -> None:
    foreign = _foreign(Ref(CONFIG_MAP, "default", "theirs"))
    foreign["metadata"]["labels"] = settled.live(CONFIG)["metadata"]["labels"]
    settled.cluster.apply_as("somebody-else", foreign)
    assert await settled.settle() == []


async def test_children_of_a_deleted_resource_are_taken_over_where_their_annotation_says_so(settled: World) -> None:
    """As after `kubectl delete --cascade=orphan`, or after a backup without owner references."""
    before = settled.children()
    settled.cluster.remove(RESOURCE)

    def lose_owner(manifest: Manifest) -> None:
        del manifest["metadata"]["ownerReferences"]

    for ref in before:
        settled.edit(ref, lose_owner)
    settled.deliver()
    settled.ask(replicas=1)
    await settled.settle()
    stalled = {c.type: c for c in settled.status().conditions}["Stalled"]
    assert stalled.reason == "NameConflict"
    assert f'take it over with the annotation {ADOPT_ANNOTATION}: "true"' in stalled.message
    templates = [settled.live(ref)["spec"]["template"] for ref in (ENGINES, ROUTERS)]

    def say_so(manifest: Manifest) -> None:
        manifest["metadata"]["annotations"][ADOPT_ANNOTATION] = "true"

    for ref in before:
        settled.edit(ref, say_so)
    await settled.settle()
    owner = settled.live(RESOURCE)["metadata"]["uid"]
    assert [owners["uid"] for ref in before for owners in settled.live(ref)["metadata"]["ownerReferences"]] == [
        owner
    ] * len(before)
    assert [settled.live(ref)["spec"]["template"] for ref in (ENGINES, ROUTERS)] == templates, "nothing restarts"
    assert settled.conditions()["Stalled"] == ("False", "NotStalled")
    assert await settled.settle() == []


async def test_nothing_of_another_resource_is_taken_over(world: World) -> None:
    claimed = _foreign(CONFIG)
    claimed["metadata"]["labels"] = {MANAGED_BY_LABEL: MANAGER, NAME_LABEL: "other"}
    claimed["metadata"]["annotations"] = {ADOPT_ANNOTATION: "true"}
    foreign = world.cluster.apply_as("somebody-else", claimed)
    world.ask()
    await world.reconcile()
    assert world.live(CONFIG) == foreign
    assert world.conditions()["Stalled"] == ("True", "NameConflict")
