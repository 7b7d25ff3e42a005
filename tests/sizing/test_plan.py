import pytest

from inference_operator.engines.vllm.memory import vllm_cpu_memory
from inference_operator.models.facts import ModelFacts
from inference_operator.quantity import canonical
from inference_operator.sizing.cpu import CpuNeeds, cpu_needs
from inference_operator.sizing.kv_cache import allocated_cache, cache_layout
from inference_operator.sizing.plan import Plan, cpu_plan, unchecked_plan
from inference_operator.sizing.shape import ParallelSizes, Shape, SizingInputs
from inference_operator.units import GIB
from tests.sizing.pools import model

CPU = vllm_cpu_memory(latent=False)


def on_cpus(shape: Shape, facts: ModelFacts | None = None, *, downloads: bool = False) -> Plan:
    return cpu_plan(
        SizingInputs(shape.parallel.tensor, shape=shape), cpu_needs(facts, CPU, shape), facts, downloads=downloads
    )


@pytest.mark.parametrize(("size", "shared_memory"), [(1, "2Gi"), (2, "8Gi"), (4, "8Gi"), (8, "16Gi"), (64, "16Gi")])
def test_a_gpu_plan_has_as_many_gpus_as_ranks(size: int, shared_memory: str) -> None:
    sizes = unchecked_plan(SizingInputs(size))
    assert (sizes.parallel.tensor, sizes.gpus_per_replica) == (size, size)
    assert sizes.shared_memory == shared_memory


@pytest.mark.parametrize("size", [1, 2])
def test_the_plan_of_a_cpu_engine_has_no_gpu(size: int) -> None:
    sizes = on_cpus(Shape(ParallelSizes(size)))
    assert (sizes.parallel.tensor, sizes.gpus_per_replica) == (size, 0)


@pytest.mark.parametrize("size", [1, 4, 64])
def test_quantities_of_a_plan_have_the_api_servers_canonical_form(size: int) -> None:
    for sizes in (unchecked_plan(SizingInputs(size)), on_cpus(Shape(ParallelSizes(size)))):
        for quantity in (sizes.cpu, sizes.memory, sizes.ephemeral_storage, sizes.shared_memory):
            assert canonical(quantity) == quantity


def test_a_cpu_plan_sets_the_kv_cache_and_counts_all_memory() -> None:
    sizes = on_cpus(Shape(), model("Qwen/Qwen3-0.6B"), downloads=True)
    assert (sizes.max_model_len, sizes.memory, sizes.ephemeral_storage) == (32768, "7Gi", "4Gi")
    assert sizes.kv_cache_bytes == pytest.approx(3.5 * GIB, rel=0.01)


@pytest.mark.parametrize("context", [512, 4096, 32768])
@pytest.mark.parametrize("name", ["Qwen/Qwen3-0.6B", "google/gemma-3-4b-it", "Qwen/Qwen3.5-4B"])
def test_the_kv_cache_on_cpus_holds_the_longest_sequence_and_the_typical_requests(name: str, context: int) -> None:
    facts, shape = model(name), Shape(context=context)
    needs, layout = cpu_needs(facts, CPU, shape), cache_layout(facts, CPU, shape)
    for length, times in ((context, 1), (min(2048, context), 8)):
        assert allocated_cache(layout, CPU, size=needs.cache_bytes, context=length, batched=2048).concurrency > times


def test_a_requested_kv_cache_size_on_cpus_is_used() -> None:
    facts = model("Qwen/Qwen3-0.6B")
    assert cpu_needs(facts, CPU, Shape(kv_cache_bytes=GIB)) == CpuNeeds(32768, GIB, 5)
    assert on_cpus(Shape(utilization=0.5), facts).kv_cache_bytes is None


def test_an_unknown_model_on_cpus_gets_the_default_kv_cache() -> None:
    assert cpu_needs(None, CPU, Shape(context=512)) == CpuNeeds(512, 4 * GIB, 6)
    assert cpu_needs(None, CPU, Shape(ParallelSizes(2))).memory_gib == 12
