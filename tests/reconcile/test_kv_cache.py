"""What an engine tells of its KV cache is written once, and never again."""

from inference_operator.manifest import Ref
from inference_operator.observed.pod import TEMPLATE_ANNOTATION, template_of
from inference_operator.observed.samples import EngineSample, Watched
from tests.builders import ENGINES, pod, ready_pod
from tests.memory_cluster import SYSTEM_METADATA, Request
from tests.reconcile.world import RESOURCE, World


def hear(world: World, ref: Ref, tokens: int) -> None:
    """Let an engine's metrics have been read."""
    sample = EngineSample("qwen", running=0, waiting=0, progress=(0.0,), kv_cache_tokens=tokens)
    world.cache.samples.see_engine(world.live(ref)["metadata"]["uid"], Watched(sample, 0, at=0.0))


async def test_it_costs_one_write_in_a_template_s_life(world: World) -> None:
    world.ask()
    await world.settle()
    world.pods_are_ready()
    made = pod(name="a", status=ready_pod())
    template = template_of(world.live(ENGINES)["spec"]["template"]["metadata"])
    meta = {key: value for key, value in made["metadata"].items() if key not in SYSTEM_METADATA}
    meta["annotations"] = {TEMPLATE_ANNOTATION: template}
    ref = Ref.of(world.cluster.apply_as("kube-controller-manager", {**made, "metadata": meta}))
    world.cluster.set_status(ref, ready_pod())
    await world.settle()
    hear(world, ref, 390_000)
    assert await world.settle() == [Request("status", RESOURCE)]
    engine = world.status().engine
    assert engine
    assert engine.kv_cache
    assert engine.kv_cache.reported_tokens == 390_000
    hear(world, ref, 380_000)
    assert await world.settle() == []
    await world.restart()
    assert await world.settle() == []
