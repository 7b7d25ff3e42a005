"""The decision on a rollout strategy: how it is made, kept and switched, and how many writes it takes."""

from datetime import timedelta

import pytest

from inference_operator.kube.lookup_poller import look_up
from inference_operator.manifest import POD, Manifest, Ref
from inference_operator.views.lookups import ClaimLookup, ClaimView, FreeGpusLookup
from inference_operator.views.pod import TEMPLATE_HASH_ANNOTATION, pod_template_hash
from inference_operator.workload.eviction.rollout import ROLLOUT_ANNOTATION, Rollout, RolloutReason
from tests.controller.world import RESOURCE, World
from tests.testing.builders import ENGINES, deployment_status, pod, ready_pod, unschedulable
from tests.testing.memory_cluster import SYSTEM_METADATA, Request
from tests.testing.nodes import GPU, gpu_pod, node

APPLY, STATUS = Request("apply", ENGINES), Request("status", RESOURCE)
SURGING = {"maxSurge": 1, "maxUnavailable": 0}
REPLACING = {"maxSurge": 0, "maxUnavailable": 1}
NO_ROOM = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."


def put(world: World, manifest: Manifest) -> None:
    meta = {name: value for name, value in manifest["metadata"].items() if name not in SYSTEM_METADATA}
    world.cluster.apply_as("others", {**manifest, "metadata": meta})
    if manifest.get("status"):
        world.cluster.set_status(Ref.of(manifest), manifest["status"])


def put_engine(world: World, name: str, status: Manifest, *, on: str = "") -> None:
    """Add a pod as the live Deployment's ReplicaSet does."""
    manifest = pod(name=name, status=status)
    template = pod_template_hash(world.live(ENGINES)["spec"]["template"]["metadata"])
    manifest["metadata"]["annotations"] = {TEMPLATE_HASH_ANNOTATION: template}
    put(world, {**manifest, "spec": {"nodeName": on}} if on else manifest)


def put_two_engines(world: World) -> None:
    """Two engines are ready, so a rollout may end one without waiting for a node."""
    for name in ("qwen-engine-old", "qwen-engine-older"):
        put_engine(world, name, ready_pod())


async def looked_up(world: World) -> list[Request]:
    """Reconcile with all requested lookups; returns the writes."""
    before = len(world.cluster.writes)
    await world.settle()
    again = await world.reconcile()
    for look in again.lookups if again else ():
        world.cache.put_lookup(look, await look_up(world.cluster, look))
    await world.settle()
    return world.cluster.writes[before:]


def strategy(world: World) -> tuple[Manifest, RolloutReason]:
    live = world.live(ENGINES)
    carried = ROLLOUT_ANNOTATION.read(live)
    assert isinstance(carried, Rollout)
    rolling: Manifest = live["spec"]["strategy"]["rollingUpdate"]
    return rolling, carried.why


def change(world: World, *, replicas: int = 1) -> None:
    world.ask(engine={"args": ["--seed=8"]}, replicas=replicas)


async def test_a_new_template_waits_until_the_free_gpus_are_counted(serving: World) -> None:
    put_engine(serving, "qwen-engine-old", ready_pod())
    change(serving)
    writes = await serving.settle()
    assert APPLY not in writes
    again = await serving.reconcile()
    assert again is not None
    assert again.lookups == (FreeGpusLookup(GPU),)


async def test_a_rollout_uses_replace_without_a_free_gpu_and_surge_with_a_free_gpu(serving: World) -> None:
    put_two_engines(serving)
    put(serving, node("gpu-a", gpus=1))
    put(serving, gpu_pod("foreign", 1, on="gpu-a"))
    change(serving)
    assert (await looked_up(serving)).count(APPLY) == 1
    assert strategy(serving) == (REPLACING, RolloutReason.NO_FREE_SLOT)
    serving.cluster.remove(Ref(POD, "default", "foreign"))
    serving.ask(engine={"args": ["--seed=16"]})
    serving.cache.put_lookup(FreeGpusLookup(GPU), None)
    assert (await looked_up(serving)).count(APPLY) == 1
    assert strategy(serving) == (SURGING, RolloutReason.FREE_SLOT)


async def test_scaling_does_not_change_the_rollout_strategy(serving: World) -> None:
    put_two_engines(serving)
    put(serving, node("gpu-a", gpus=1))
    put(serving, gpu_pod("foreign", 1, on="gpu-a"))
    change(serving)
    await looked_up(serving)
    reads = len(serving.cluster.reads)
    for replicas in (3, 0, 1):
        change(serving, replicas=replicas)
        await serving.settle()
        assert strategy(serving) == (REPLACING, RolloutReason.NO_FREE_SLOT)
    assert len([read for read in serving.cluster.reads[reads:] if read.verb == "list"]) == 0


async def test_a_surge_pod_without_a_gpu_switches_the_strategy_with_one_write(serving: World) -> None:
    put_two_engines(serving)
    put(serving, node("gpu-a", gpus=2))
    change(serving)
    await looked_up(serving)
    assert strategy(serving) == (SURGING, RolloutReason.FREE_SLOT)
    put_engine(serving, "qwen-engine-new", unschedulable(NO_ROOM))
    generation = serving.live(ENGINES)["metadata"]["generation"]
    serving.cluster.set_status(ENGINES, deployment_status(2, ready=1, updated=1, seen=generation))
    await serving.settle()
    assert serving.conditions()["Reconciling"] == ("True", "Unschedulable")
    for _ in ("until the pod's Events are read", "until the strategy changes"):
        again = await serving.reconcile()
        assert again is not None
        assert again.seconds == 15
        serving.now += timedelta(seconds=15)
    assert await serving.settle() == [APPLY, STATUS]
    assert strategy(serving) == (REPLACING, RolloutReason.UNSCHEDULABLE)
    assert serving.conditions()["Reconciling"] == ("True", "SwitchedToReplace")
    assert serving.conditions()["Ready"] == ("True", "Serving")
    serving.now += timedelta(seconds=300)
    assert await serving.settle() == []


async def test_the_last_ready_engine_is_kept_for_15_minutes_while_a_node_may_come(serving: World) -> None:
    put_engine(serving, "qwen-engine-old", ready_pod())
    put(serving, node("gpu-a", gpus=1))
    put(serving, gpu_pod("foreign", 1, on="gpu-a"))
    change(serving)
    await looked_up(serving)
    assert strategy(serving) == (SURGING, RolloutReason.NODE_MAY_COME)
    put_engine(serving, "qwen-engine-new", unschedulable(NO_ROOM))
    generation = serving.live(ENGINES)["metadata"]["generation"]
    serving.cluster.set_status(ENGINES, deployment_status(2, ready=1, updated=1, seen=generation))
    await serving.settle()
    assert serving.conditions()["Reconciling"] == ("True", "WaitingForNode")
    again = await serving.reconcile()
    assert again is not None
    assert again.seconds == 15, "until the pod's Events are read"
    serving.now += timedelta(seconds=15)
    again = await serving.reconcile()
    assert again is not None
    assert again.seconds == 885
    serving.now += timedelta(seconds=885)
    assert await serving.settle() == [APPLY, STATUS]
    assert strategy(serving) == (REPLACING, RolloutReason.NO_NODE_CAME)
    assert serving.conditions()["Reconciling"] == ("True", "SwitchedToReplace")


async def test_a_restarted_operator_keeps_the_rollout_strategy(serving: World) -> None:
    put_two_engines(serving)
    put(serving, node("gpu-a", gpus=1))
    put(serving, gpu_pod("foreign", 1, on="gpu-a"))
    change(serving)
    await looked_up(serving)
    await serving.restart()
    assert await serving.settle() == []
    assert strategy(serving) == (REPLACING, RolloutReason.NO_FREE_SLOT)


async def test_a_rollout_strategy_in_the_spec_is_used_without_a_lookup(serving: World) -> None:
    serving.ask(rollout={"strategy": "Replace"})
    assert APPLY in await serving.settle()
    assert strategy(serving) == (REPLACING, RolloutReason.ASKED)
    serving.ask()
    assert APPLY not in await serving.settle()


MOUNTED = {"volumes": [{"name": "w", "persistentVolumeClaim": {"claimName": "weights"}}]}


@pytest.mark.parametrize(("mode", "why"), [("ReadWriteOnce", "OneNode"), ("ReadWriteMany", "FreeSlot")])
async def test_a_surge_apart_from_the_claim_that_users_add_switches_to_replace(
    serving: World, mode: str, why: str
) -> None:
    serving.ask(podTemplate=MOUNTED)
    await serving.settle()
    put_engine(serving, "qwen-engine-old", ready_pod(), on="near")
    put(serving, node("far", gpus=1))
    serving.ask(podTemplate=MOUNTED, engine={"args": ["--seed=8"]})
    await looked_up(serving)
    again = await serving.reconcile()
    assert again is not None
    look = ClaimLookup("default", "weights")
    assert look in again.lookups
    assert strategy(serving)[1] == "FreeSlot"
    serving.cache.put_lookup(look, ClaimView((mode,)))
    put_engine(serving, "qwen-engine-new", {}, on="far")
    await serving.settle()
    assert strategy(serving)[1] == why
