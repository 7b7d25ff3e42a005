"""Two groups that each hold what the other one lacks, and a group on a node that is gone, up to the requests."""

from datetime import timedelta
from typing import Any

from inference_operator.manifest import POD, STATEFUL_SET, Key, Manifest, Ref
from inference_operator.objects.names import ENGINE, labels
from inference_operator.views.lookups import EventsLookup, ObjectEvents
from inference_operator.views.pod import GROUP_LABEL, POD_INDEX_LABEL
from inference_operator.workload.eviction.half_placed import FIRST_BACKOFF, GIVEN_BACK_ANNOTATION, GROUP_WAIT, RECHECK
from inference_operator.workload.eviction.lost_nodes import LOST_AFTER
from tests.controller.world import USER, World
from tests.testing.builders import KEY, NOW, inference_deployment, unschedulable
from tests.testing.memory_cluster import BIRTH, SYSTEM_METADATA
from tests.testing.nodes import node

PAIR: dict[str, Any] = {"parallelism": {"tensor": 1, "nodes": 2}}
NO_GPU = unschedulable("0/3 nodes are available: 3 Insufficient nvidia.com/gpu.")
WAITS: Manifest = {
    "phase": "Running",
    "conditions": [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": BIRTH},
        {"type": "Ready", "status": "False"},
    ],
    "containerStatuses": [{"name": ENGINE, "state": {"running": {}}, "started": True}],
}
SET = Ref(STATEFUL_SET, KEY.namespace, "qwen-engine-0")
OLDER = "able"
"""All objects of the memory cluster have one time of creation: the first name is the oldest."""


def add_member(world: World, name: str, index: int, *, on: str = "", finalizers: tuple[str, ...] = ()) -> Ref:
    """Add a pod, as the StatefulSet's controller, the scheduler and the kubelet do."""
    group = f"{name}-engine-0"
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{group}-{index}",
            "namespace": KEY.namespace,
            "labels": {**labels(name, ENGINE), GROUP_LABEL: group, POD_INDEX_LABEL: str(index)},
            **({"finalizers": list(finalizers)} if finalizers else {}),
        },
        "spec": {"nodeName": on} if on else {},
    }
    ref = Ref.of(world.cluster.apply_as("kube-controller-manager", manifest))
    world.cluster.set_status(ref, WAITS if on else NO_GPU)
    return ref


def ask_older(world: World) -> None:
    made = inference_deployment(name=OLDER, **PAIR)
    meta = {name: value for name, value in made["metadata"].items() if name not in SYSTEM_METADATA}
    world.cluster.apply_as(USER, {**made, "metadata": meta})


async def half_placed(world: World) -> None:
    """Two resources, of whose groups each has one node."""
    world.ask(**PAIR)
    ask_older(world)
    await world.settle()
    world.deliver()
    await world.reconciler.reconcile(Key(KEY.namespace, OLDER))
    for name, where in (("qwen", "h100-a"), (OLDER, "h100-b")):
        add_member(world, name, 0, on=where)
        add_member(world, name, 1)
    know_events(world)


def know_events(world: World) -> None:
    """What the poller of lookups finds: no Event of an autoscaler."""
    world.deliver()
    pod = world.live(Ref(POD, KEY.namespace, "qwen-engine-0-1"))
    look = EventsLookup(KEY.namespace, "qwen-engine-0-1", pod["metadata"]["uid"])
    world.cache.put_lookup(look, ObjectEvents(()))


async def test_the_younger_group_gives_its_nodes_back_and_tries_again(world: World) -> None:
    await half_placed(world)
    requeue = await world.reconcile()
    assert requeue is not None
    assert requeue.seconds == RECHECK.total_seconds()
    world.now = NOW + GROUP_WAIT
    await world.settle()
    assert world.live(SET)["spec"]["replicas"] == 0
    await world.reconciler.reconcile(Key(KEY.namespace, OLDER))
    assert world.live(Ref(STATEFUL_SET, KEY.namespace, f"{OLDER}-engine-0"))["spec"]["replicas"] == 2
    for index in range(2):
        world.cluster.remove(Ref(POD, KEY.namespace, f"qwen-engine-0-{index}"))
    await world.settle()
    assert world.conditions()["Ready"] == ("False", "WaitingForOlderGroup")
    assert world.conditions()["Reconciling"] == ("True", "WaitingForOlderGroup")
    assert "gave them back for the older group `able-engine-0`" in world.status().message
    await world.restart()
    world.now = NOW + GROUP_WAIT + FIRST_BACKOFF - timedelta(seconds=1)
    requeue = await world.reconcile()
    assert requeue is not None
    assert (world.live(SET)["spec"]["replicas"], requeue.seconds) == (0, 1)
    world.now = NOW + GROUP_WAIT + FIRST_BACKOFF
    await world.settle()
    assert world.live(SET)["spec"]["replicas"] == 2
    for index in range(2):
        add_member(world, "qwen", index, on="h100-a")
    await world.settle()
    assert world.live(SET)["metadata"]["annotations"][GIVEN_BACK_ANNOTATION.key] == ""
    assert await world.settle() == []


async def test_the_record_outlives_a_time_without_replicas(world: World) -> None:
    await half_placed(world)
    world.now = NOW + GROUP_WAIT
    await world.settle()
    record = world.live(SET)["metadata"]["annotations"][GIVEN_BACK_ANNOTATION.key]
    world.ask(**PAIR, replicas=0)
    await world.settle()
    world.ask(**PAIR)
    await world.settle()
    live = world.live(SET)
    assert (live["spec"]["replicas"], live["metadata"]["annotations"][GIVEN_BACK_ANNOTATION.key]) == (0, record)


async def test_a_member_on_a_lost_node_is_deleted_and_the_other_one_stays(world: World) -> None:
    world.ask(**PAIR)
    await world.settle()
    stays, lost = (
        add_member(world, "qwen", 0, on="h100-a"),
        add_member(world, "qwen", 1, on="h100-b", finalizers=("x/y",)),
    )
    silent = node("h100-b", gpus=8, ready=False)
    silent["status"]["conditions"][0]["lastTransitionTime"] = BIRTH
    world.cache.nodes.put(node("h100-a", gpus=8))
    world.cache.nodes.put({**silent, "metadata": {**silent["metadata"], "resourceVersion": "9"}})
    world.cluster.remove(lost)  # Kubernetes begins to delete it, and no kubelet ends it
    world.now = NOW + LOST_AFTER - timedelta(seconds=1)
    assert lost not in [write.ref for write in await world.settle()]
    assert world.conditions()["Reconciling"] == ("True", "NodeLost")
    world.now = NOW + LOST_AFTER
    requests = [(write.verb, write.ref) for write in await world.settle()]
    assert ("delete", lost) in requests
    assert stays not in [ref for _, ref in requests]
