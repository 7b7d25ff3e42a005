"""A stalled engine, from its samples to its end of traffic and its replacement."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from inference_operator.api.reasons import ConditionType
from inference_operator.controller.cluster import RejectedError
from inference_operator.manifest import POD, Manifest, Ref
from inference_operator.views.pod import GROUP_LABEL, POD_INDEX_LABEL, TRAFFIC_LABEL
from inference_operator.views.samples import EngineActivity, ProbeState
from tests.controller.world import RESOURCE, World
from tests.testing.builders import (
    ENGINES,
    KEY,
    STALLED_ENGINE,
    deployment_status,
    pod,
    ready_pod,
    waiting,
)
from tests.testing.memory_cluster import SYSTEM_METADATA, Request

CONTROLLERS = "kube-controller-manager"
STATUS = Request("status", RESOURCE)


STOPPED = replace(STALLED_ENGINE, at=130.0, probe_sent_at=115.0)
"""Without progress for 30 s."""
MOVES = replace(STALLED_ENGINE, no_progress_since=400.0, probe=ProbeState.NOT_SENT)
RESPONDS = replace(STOPPED, probe=ProbeState.RESPONDED, no_progress_since=131.0)
A, B = Ref(POD, "default", "a"), Ref(POD, "default", "b")


def add_engine(world: World, name: str, status: Manifest, *, added_labels: Mapping[str, str] | None = None) -> Ref:
    """Add a pod as its ReplicaSet and kubelet do."""
    manifest = pod(name=name, status=status, added_labels=added_labels)
    meta = {key: value for key, value in manifest["metadata"].items() if key not in SYSTEM_METADATA}
    ref = Ref.of(world.cluster.apply_as(CONTROLLERS, {**manifest, "metadata": meta}))
    world.cluster.set_status(ref, status)
    return ref


def hang(world: World, ref: Ref) -> None:
    """Store samples that show a stalled engine."""
    sample(world, ref, STALLED_ENGINE)


def sample(world: World, ref: Ref, activity: EngineActivity) -> None:
    world.cache.samples.see_engine(world.live(ref)["metadata"]["uid"], activity)


def traffic(world: World, ref: Ref) -> str:
    """The value of a pod's traffic label."""
    label: str = world.live(ref)["metadata"]["labels"].get(TRAFFIC_LABEL, "")
    return label


@pytest.fixture
async def one_stopped(world: World) -> World:
    """A resource with two ready engines, of which `a` has made no progress for 30 s."""
    world.ask(replicas=2)
    await world.settle()
    world.pods_are_ready()
    for ref, activity in ((A, STOPPED), (B, MOVES)):
        add_engine(world, ref.name, ready_pod())
        sample(world, ref, activity)
    await world.reconcile()
    return world


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


async def test_both_pods_of_a_stalled_engine_are_deleted_and_the_status_names_it_once(world: World) -> None:
    world.ask(replicas=1)
    await world.settle()
    world.pods_are_ready()
    for index, name in enumerate(("a", "b")):
        labels = {GROUP_LABEL: "g", POD_INDEX_LABEL: str(index), TRAFFIC_LABEL: "true"}
        add_engine(world, name, ready_pod(), added_labels=labels)
    await world.settle()
    hang(world, A)
    assert await world.settle() == [Request("delete", A), Request("delete", B), STATUS]
    condition = world.status().condition(ConditionType.ENGINES_AVAILABLE)
    assert condition is not None
    assert condition.message == "Pod `a` had 3 requests and made no progress for 300 s; it is being replaced."


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


async def test_an_engine_without_progress_gets_no_new_requests_until_it_responds(one_stopped: World) -> None:
    world = one_stopped
    assert [request for request in world.cluster.writes if request.ref.kind == POD] == [Request("apply", A)]
    assert (traffic(world, A), traffic(world, B)) == ("false", "true")
    await world.settle()
    condition = world.status().condition(ConditionType.ENGINES_AVAILABLE)
    assert condition is not None
    assert (condition.status, condition.reason) == ("False", "EngineNotProgressing")
    assert condition.message == "2 of 2 engines are ready. Pod `a` makes no progress and gets no new requests."
    assert world.conditions()["Ready"] == ("True", "Serving")
    assert await world.settle() == [], "as long as it does not respond"
    sample(world, A, RESPONDS)
    assert await world.settle() == [Request("apply", A), STATUS]
    assert traffic(world, A) == "true"
    assert world.conditions()["EnginesAvailable"] == ("True", "Serving")


async def test_a_label_of_a_pod_changes_nothing_else_of_the_pod(one_stopped: World) -> None:
    before = pod(name="a", status=ready_pod())
    live = one_stopped.live(A)
    assert live["metadata"]["labels"] == {**before["metadata"]["labels"], TRAFFIC_LABEL: "false"}
    assert live["status"] == before["status"]


async def test_a_new_leader_keeps_an_engine_out_of_traffic_until_it_responds(one_stopped: World) -> None:
    world = one_stopped
    await world.settle()
    await world.restart()
    assert await world.settle() == []
    sample(world, A, replace(STOPPED, no_progress_since=130.0, probe=ProbeState.NO_RESPONSE))
    sample(world, B, MOVES)
    assert await world.settle() == [], "its first sample shows nothing"
    sample(world, A, RESPONDS)
    assert Request("apply", A) in await world.settle()


async def test_an_engine_out_of_traffic_is_deleted_when_it_has_stalled_for_longer(one_stopped: World) -> None:
    await one_stopped.settle()
    hang(one_stopped, A)
    assert await one_stopped.settle() == [Request("delete", A), STATUS]


async def test_an_engine_out_of_traffic_comes_back_when_the_last_other_one_is_gone(one_stopped: World) -> None:
    await one_stopped.settle()
    one_stopped.cluster.remove(B)
    assert Request("apply", A) in await one_stopped.settle()
    assert traffic(one_stopped, A) == "true"


async def test_the_traffic_of_a_paused_resource_does_not_change(one_stopped: World) -> None:
    world = one_stopped
    await world.settle()
    world.ask(replicas=2, paused=True)
    await world.settle()
    sample(world, A, RESPONDS)
    assert await world.settle() == []
    assert traffic(world, A) == "false"
    world.ask(replicas=2)
    await world.settle()
    assert traffic(world, A) == "true"


async def test_nothing_is_written_for_a_resource_that_is_being_deleted(one_stopped: World) -> None:
    world = one_stopped
    await world.settle()
    sample(world, A, RESPONDS)
    world.edit(RESOURCE, lambda manifest: manifest["metadata"].update(finalizers=["example.com/slow"]))
    world.cluster.remove(RESOURCE)
    assert await world.settle() == []


async def test_a_pod_that_is_gone_is_not_created_by_its_label(one_stopped: World) -> None:
    world = one_stopped
    await world.settle()
    sample(world, A, RESPONDS)
    world.deliver()
    world.cluster.remove(A)
    await world.reconciler.reconcile(KEY)
    assert world.cluster.peek(A) is None
    assert await world.settle() == []


async def test_a_refused_label_is_in_the_status(world: World) -> None:
    world.ask(replicas=2)
    await world.settle()
    world.pods_are_ready()
    for ref, activity in ((A, STOPPED), (B, MOVES)):
        add_engine(world, ref.name, ready_pod())
        sample(world, ref, activity)
    world.cluster.fail_next(RejectedError('pods "a" is forbidden'))
    await world.reconcile()
    assert world.conditions()["Stalled"] == ("True", "ChildRejected")
