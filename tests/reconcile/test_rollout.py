"""How the decision on a rollout comes about, stands and is switched, counted in writes."""

from datetime import timedelta

from inference_operator.kube.looks import look_up
from inference_operator.manifest import POD, Manifest, Ref
from inference_operator.observed.look import FreeGpus
from inference_operator.observed.pod import TEMPLATE_ANNOTATION, template_of
from inference_operator.observed.rollout import Rollout, Why, rollout_of
from tests.builders import ENGINES, deployment_status, pod, ready_pod, unschedulable
from tests.memory_cluster import SYSTEM_METADATA, Request
from tests.nodes import GPU, gpu_pod, node
from tests.reconcile.world import RESOURCE, World

APPLY, STATUS = Request("apply", ENGINES), Request("status", RESOURCE)
SURGING = {"maxSurge": 1, "maxUnavailable": 0}
REPLACING = {"maxSurge": 0, "maxUnavailable": 1}
NO_ROOM = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."


def put(world: World, manifest: Manifest) -> None:
    meta = {name: value for name, value in manifest["metadata"].items() if name not in SYSTEM_METADATA}
    world.cluster.apply_as("others", {**manifest, "metadata": meta})
    if manifest.get("status"):
        world.cluster.set_status(Ref.of(manifest), manifest["status"])


def put_engine(world: World, name: str, status: Manifest) -> None:
    """A pod that the live Deployment's ReplicaSet makes."""
    manifest = pod(name=name, status=status)
    template = template_of(world.live(ENGINES)["spec"]["template"]["metadata"])
    manifest["metadata"]["annotations"] = {TEMPLATE_ANNOTATION: template}
    put(world, manifest)


async def looked_up(world: World) -> list[Request]:
    """Rounds with all that they want looked up; returns the writes."""
    before = len(world.cluster.writes)
    await world.settle()
    again = await world.reconcile()
    for look in again.looks if again else ():
        world.cache.see(look, await look_up(world.cluster, look))
    await world.settle()
    return world.cluster.writes[before:]


def strategy(world: World) -> tuple[Manifest, Why]:
    live = world.live(ENGINES)
    carried = rollout_of(live)
    assert isinstance(carried, Rollout)
    rolling: Manifest = live["spec"]["strategy"]["rollingUpdate"]
    return rolling, carried.why


def change(world: World, *, replicas: int = 1) -> None:
    world.ask(engine={"args": ["--seed=8"]}, replicas=replicas)


async def test_the_template_waits_until_it_is_known_whether_there_is_room(serving: World) -> None:
    put_engine(serving, "qwen-engine-old", ready_pod())
    change(serving)
    writes = await serving.settle()
    assert APPLY not in writes
    again = await serving.reconcile()
    assert again is not None
    assert again.looks == (FreeGpus(GPU),)


async def test_a_full_pool_replaces_and_a_free_slot_surges(serving: World) -> None:
    put_engine(serving, "qwen-engine-old", ready_pod())
    put(serving, node("gpu-a", gpus=1))
    put(serving, gpu_pod("foreign", 1, on="gpu-a"))
    change(serving)
    assert (await looked_up(serving)).count(APPLY) == 1
    assert strategy(serving) == (REPLACING, Why.NO_FREE_SLOT)
    serving.cluster.remove(Ref(POD, "default", "foreign"))
    serving.ask(engine={"args": ["--seed=16"]})
    serving.cache.see(FreeGpus(GPU), None)
    assert (await looked_up(serving)).count(APPLY) == 1
    assert strategy(serving) == (SURGING, Why.FREE_SLOT)


async def test_scaling_never_changes_it(serving: World) -> None:
    put_engine(serving, "qwen-engine-old", ready_pod())
    put(serving, node("gpu-a", gpus=1))
    put(serving, gpu_pod("foreign", 1, on="gpu-a"))
    change(serving)
    await looked_up(serving)
    reads = len(serving.cluster.reads)
    for replicas in (3, 0, 1):
        change(serving, replicas=replicas)
        await serving.settle()
        assert strategy(serving) == (REPLACING, Why.NO_FREE_SLOT)
    assert len([read for read in serving.cluster.reads[reads:] if read.verb == "list"]) == 0


async def test_a_surge_without_room_is_switched_with_one_write_and_said(serving: World) -> None:
    put_engine(serving, "qwen-engine-old", ready_pod())
    put(serving, node("gpu-a", gpus=2))
    change(serving)
    await looked_up(serving)
    assert strategy(serving) == (SURGING, Why.FREE_SLOT)
    put_engine(serving, "qwen-engine-new", unschedulable(NO_ROOM))
    generation = serving.live(ENGINES)["metadata"]["generation"]
    serving.cluster.set_status(ENGINES, deployment_status(2, ready=1, updated=1, seen=generation))
    await serving.settle()
    assert serving.conditions()["Reconciling"] == ("True", "Unschedulable")
    again = await serving.reconcile()
    assert again is not None
    assert again.seconds == 30
    serving.now += timedelta(seconds=30)
    assert await serving.settle() == [APPLY, STATUS]
    assert strategy(serving) == (REPLACING, Why.UNSCHEDULABLE)
    assert serving.conditions()["Reconciling"] == ("True", "MakingRoom")
    assert serving.conditions()["Ready"] == ("True", "Serving")
    serving.now += timedelta(seconds=300)
    assert await serving.settle() == []


async def test_a_restarted_operator_reads_it_back(serving: World) -> None:
    put_engine(serving, "qwen-engine-old", ready_pod())
    put(serving, node("gpu-a", gpus=1))
    put(serving, gpu_pod("foreign", 1, on="gpu-a"))
    change(serving)
    await looked_up(serving)
    await serving.restart()
    assert await serving.settle() == []
    assert strategy(serving) == (REPLACING, Why.NO_FREE_SLOT)


async def test_what_is_asked_is_done_at_once(serving: World) -> None:
    serving.ask(rollout={"strategy": "Replace"})
    assert APPLY in await serving.settle()
    assert strategy(serving) == (REPLACING, Why.ASKED)
    serving.ask()
    assert APPLY not in await serving.settle()
