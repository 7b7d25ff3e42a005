"""The number of writes that each change takes."""

from collections.abc import Callable, Mapping, Sequence

import pytest

from inference_operator.api.resource import resource
from inference_operator.controller.cluster import FIELD_MANAGER
from inference_operator.manifest import CONFIG_MAP, Manifest, Owner, Ref
from inference_operator.objects.child import DESIRED_HASH_ANNOTATION, child
from inference_operator.objects.names import ENGINE, NAME_LABEL
from tests.controller.world import RESOURCE, SERVICE_OF_PEERS, World
from tests.testing.builders import (
    BUDGET_OF_ENGINES,
    BUDGET_OF_ROUTERS,
    CONFIG,
    ENGINES,
    KEY,
    ROUTERS,
    SERVICE_OF_ENGINES,
    SERVICE_OF_ROUTERS,
    UID,
)
from tests.testing.memory_cluster import Request

CHILDREN = [
    *(CONFIG, SERVICE_OF_ENGINES, SERVICE_OF_PEERS, SERVICE_OF_ROUTERS, ENGINES, ROUTERS),
    *(BUDGET_OF_ENGINES, BUDGET_OF_ROUTERS),
]
MOUNTED_BY: Mapping[Ref, Sequence[Ref]] = {CONFIG: [ROUTERS]}
"""Children whose pods mount another child, and so wait until it is written."""
STATUS = Request("status", RESOURCE)


def not_written(ref: Ref) -> list[Ref]:
    """The children that are not written in a round in which this one cannot be, in the order of their writes."""
    return [ref, *MOUNTED_BY.get(ref, ())]


async def test_a_new_resource_takes_one_write_per_child_and_one_status_write(world: World) -> None:
    world.ask()
    assert await world.settle() == [*(Request("apply", ref) for ref in CHILDREN), STATUS]


async def test_a_settled_resource_takes_no_writes_and_no_reads(settled: World) -> None:
    reads = len(settled.cluster.reads)
    assert await settled.settle() == []
    assert len(settled.cluster.reads) == reads


async def test_own_writes_are_not_repeated_before_their_watch_events_arrive(world: World) -> None:
    world.ask()
    await world.reconcile()
    world.cluster.events.clear()
    writes = len(world.cluster.writes)
    await world.reconcile()
    assert len(world.cluster.writes) == writes


async def test_pods_that_become_ready_take_one_status_write(settled: World) -> None:
    settled.pods_are_ready()
    assert await settled.settle() == [STATUS]


async def test_a_restart_takes_no_writes(serving: World) -> None:
    await serving.restart()
    assert await serving.settle() == []


async def test_a_listing_of_unchanged_objects_concerns_no_key(serving: World) -> None:
    assert await serving.list_all() == set()


def _set_data(manifest: Manifest) -> None:
    manifest["data"]["haproxy.cfg"] = "global\n"


def _set_port(manifest: Manifest) -> None:
    manifest["spec"]["ports"][0]["targetPort"] = 1234


def _set_replicas(manifest: Manifest) -> None:
    manifest["spec"]["replicas"] = 7


def _set_image(manifest: Manifest) -> None:
    manifest["spec"]["template"]["spec"]["containers"][0]["image"] = "example.com/other:1"


def _drop_probe(manifest: Manifest) -> None:
    del manifest["spec"]["template"]["spec"]["containers"][0]["readinessProbe"]


def _drop_variable(manifest: Manifest) -> None:
    del manifest["spec"]["template"]["spec"]["containers"][0]["env"][0]


def _set_budget(manifest: Manifest) -> None:
    manifest["spec"]["maxUnavailable"] = 0


def _set_label(manifest: Manifest) -> None:
    manifest["metadata"]["labels"][NAME_LABEL] = "other"


def _drop_label(manifest: Manifest) -> None:
    del manifest["metadata"]["labels"][NAME_LABEL]


def _drop_stamp(manifest: Manifest) -> None:
    del manifest["metadata"]["annotations"][DESIRED_HASH_ANNOTATION]


EDITS = [
    *((ref, edit) for ref in CHILDREN for edit in (_set_label, _drop_label, _drop_stamp)),
    (CONFIG, _set_data),
    (SERVICE_OF_ENGINES, _set_port),
    (SERVICE_OF_PEERS, _set_port),
    (SERVICE_OF_ROUTERS, _set_port),
    (ENGINES, _set_replicas),
    (ENGINES, _set_image),
    (ENGINES, _drop_probe),
    (ENGINES, _drop_variable),
    (ROUTERS, _set_replicas),
    (ROUTERS, _set_image),
    (BUDGET_OF_ROUTERS, _set_budget),
]


@pytest.mark.parametrize(("ref", "edit"), EDITS, ids=lambda part: str(getattr(part, "__name__", part)))
async def test_a_manual_edit_of_a_child_takes_a_single_write(
    settled: World, ref: Ref, edit: Callable[[Manifest], None]
) -> None:
    before = settled.children()
    settled.edit(ref, edit)
    assert await settled.settle() == [Request("apply", ref)]
    assert settled.children() == before


@pytest.mark.parametrize("ref", CHILDREN, ids=str)
async def test_a_deleted_child_takes_one_write(settled: World, ref: Ref) -> None:
    before = settled.children()
    settled.cluster.remove(ref)
    assert await settled.settle() == [Request("apply", ref)]
    assert settled.children() == before


async def test_fields_added_by_others_take_no_writes(settled: World) -> None:
    def add(manifest: Manifest) -> None:
        manifest["metadata"]["labels"]["team"] = "a"
        manifest["spec"]["template"]["spec"]["containers"].append({"name": "sidecar", "image": "example.com/mesh:1"})

    settled.edit(ENGINES, add)
    assert await settled.settle() == []


async def test_a_pause_takes_one_status_write_and_edits_during_it_are_applied_at_its_end(serving: World) -> None:
    serving.ask(paused=True)
    assert await serving.settle() == [STATUS]
    serving.ask(paused=True, replicas=3, router={"replicas": 3})
    serving.cluster.remove(CONFIG)
    serving.edit(ENGINES, _set_image)
    assert set(await serving.settle()) == {STATUS}
    assert serving.cluster.peek(CONFIG) is None
    assert serving.live(ENGINES)["spec"]["replicas"] == 1
    serving.ask(replicas=3, router={"replicas": 3})
    written = await serving.settle()
    assert {w.ref for w in written} == {CONFIG, ENGINES, ROUTERS, BUDGET_OF_ENGINES, RESOURCE}
    assert serving.live(ENGINES)["spec"]["replicas"] == 3


async def test_a_resource_that_is_created_paused_gets_no_children(world: World) -> None:
    world.ask(paused=True)
    assert await world.settle() == [STATUS]
    assert world.children() == {}


async def test_scaling_up_writes_the_deployment_a_disruption_budget_and_the_status(serving: World) -> None:
    serving.ask(replicas=2)
    assert await serving.settle() == [Request("apply", ENGINES), Request("apply", BUDGET_OF_ENGINES), STATUS]
    assert serving.live(ENGINES)["spec"]["replicas"] == 2
    assert serving.status().ready == "1/2"


async def test_scaling_down_to_one_writes_the_deployment_the_status_and_the_budget_that_keeps_the_last_engine(
    serving: World,
) -> None:
    serving.ask(replicas=2)
    await serving.settle()
    serving.pods_are_ready()
    await serving.settle()
    serving.ask(replicas=1)
    assert await serving.settle() == [Request("apply", ENGINES), Request("apply", BUDGET_OF_ENGINES), STATUS]
    assert serving.live(BUDGET_OF_ENGINES)["spec"]["minAvailable"] == 1
    assert "maxUnavailable" not in serving.live(BUDGET_OF_ENGINES)["spec"]


async def test_scaling_the_engines_does_not_change_the_routers(serving: World) -> None:
    for replicas in (2, 16, 0, 1):
        serving.ask(replicas=replicas, router={"strategy": "LeastOutstanding"})
        assert not {w.ref for w in await serving.settle()} & {CONFIG, ROUTERS}


async def test_more_engines_than_server_slots_roll_the_routers_once(serving: World) -> None:
    stated = {"strategy": "LeastOutstanding"}
    serving.ask(replicas=32, router=stated)
    assert {CONFIG, ROUTERS} <= {w.ref for w in await serving.settle()}
    serving.ask(replicas=1, router=stated)
    assert not {w.ref for w in await serving.settle()} & {CONFIG, ROUTERS}


async def test_a_changed_engine_argument_changes_only_the_engine_deployment(serving: World) -> None:
    serving.ask(engine={"args": ["--seed=4096"]})
    assert await serving.settle() == [Request("apply", ENGINES), STATUS]


async def test_a_field_that_is_removed_from_the_spec_is_removed_with_one_write(settled: World) -> None:
    settled.ask(engine={"env": [{"name": "A", "value": "1"}]})
    await settled.settle()
    settled.ask()
    assert await settled.settle() == [Request("apply", ENGINES), STATUS]
    (container,) = settled.live(ENGINES)["spec"]["template"]["spec"]["containers"]
    assert "A" not in {variable["name"] for variable in container["env"]}


async def test_a_resource_that_is_being_deleted_takes_no_writes(settled: World) -> None:
    def finalize(manifest: Manifest) -> None:
        manifest["metadata"]["finalizers"] = ["example.com/slow"]

    settled.edit(RESOURCE, finalize)
    settled.cluster.remove(RESOURCE)
    settled.cluster.remove(CONFIG)
    assert await settled.settle() == []


async def test_a_deleted_resource_leaves_no_objects(serving: World) -> None:
    serving.cluster.remove(RESOURCE)
    serving.cluster.collect_garbage()
    assert await serving.settle() == []
    assert serving.cluster.live() == {}


async def test_a_condition_added_by_others_takes_no_writes(settled: World) -> None:
    def add(manifest: Manifest) -> None:
        ours = manifest["status"]["conditions"][0]
        manifest["status"]["conditions"].append({**ours, "type": "example.com/Audited"})

    settled.edit(RESOURCE, add)
    assert await settled.settle() == []


def _undesired_child(world: World, *, retain: bool) -> Manifest:
    """A child that an earlier spec needed and the present one does not."""
    owner = resource(world.live(RESOURCE)).owner
    return child(CONFIG_MAP, "earlier", owner=owner, component=ENGINE, content={"data": {}}, retain=retain)


async def test_a_child_that_is_no_longer_desired_is_deleted(settled: World) -> None:
    earlier = settled.cluster.apply_as(FIELD_MANAGER, _undesired_child(settled, retain=False))
    assert await settled.settle() == [Request("delete", Ref.of(earlier))]


async def test_a_retained_child_that_is_no_longer_desired_is_never_deleted(settled: World) -> None:
    earlier = settled.cluster.apply_as(FIELD_MANAGER, _undesired_child(settled, retain=True))
    assert await settled.settle() == []
    settled.ask(replicas=2)
    await settled.settle()
    await settled.restart()
    await settled.settle()
    assert settled.cluster.peek(Ref.of(earlier)) == earlier


async def test_a_retained_child_is_deleted_with_its_inference_deployment(settled: World) -> None:
    settled.cluster.apply_as(FIELD_MANAGER, _undesired_child(settled, retain=True))
    settled.cluster.remove(RESOURCE)
    settled.cluster.collect_garbage()
    assert settled.cluster.live() == {}


def test_a_child_without_retain_carries_no_retain_annotation() -> None:
    made = child(CONFIG_MAP, "a", owner=Owner(KEY, UID), component=ENGINE, content={})
    assert list(made["metadata"]["annotations"]) == [DESIRED_HASH_ANNOTATION]


def test_disabling_retain_changes_the_desired_hash() -> None:
    kept, let_go = (
        child(CONFIG_MAP, "a", owner=Owner(KEY, UID), component=ENGINE, content={}, retain=retain)
        for retain in (True, False)
    )
    assert (
        kept["metadata"]["annotations"][DESIRED_HASH_ANNOTATION]
        != let_go["metadata"]["annotations"][DESIRED_HASH_ANNOTATION]
    )
