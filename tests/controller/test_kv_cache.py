"""The KV cache size that an engine reports is written to the status once."""

from inference_operator.manifest import Ref
from inference_operator.views.pod import TEMPLATE_HASH_ANNOTATION, pod_template_hash
from inference_operator.views.samples import EngineActivity, EngineSample
from tests.controller.world import RESOURCE, World
from tests.testing.builders import ENGINES, pod, ready_pod
from tests.testing.memory_cluster import SYSTEM_METADATA, Request


def hear(world: World, ref: Ref, tokens: int) -> None:
    """Store a sample of an engine's metrics."""
    sample = EngineSample("qwen", running=0, waiting=0, progress=(0.0,), kv_cache_tokens=tokens)
    world.cache.samples.see_engine(world.live(ref)["metadata"]["uid"], EngineActivity(sample, 0, at=0.0))


async def test_the_reported_kv_cache_size_costs_one_status_write_per_pod_template(world: World) -> None:
    world.ask()
    await world.settle()
    world.pods_are_ready()
    made = pod(name="a", status=ready_pod())
    template = pod_template_hash(world.live(ENGINES)["spec"]["template"]["metadata"])
    meta = {key: value for key, value in made["metadata"].items() if key not in SYSTEM_METADATA}
    meta["annotations"] = {TEMPLATE_HASH_ANNOTATION: template}
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
