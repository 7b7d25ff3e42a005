"""The figures of known models with vLLM's memory, from the parts of a budget to the chosen sizes."""

import pytest

from inference_operator.engines.vllm.memory import vllm_cpu_memory, vllm_memory
from inference_operator.hardware.kinds import kind_named
from inference_operator.hardware.offers import GpuOffer, offer_of_kind
from inference_operator.models.catalogue import entry
from inference_operator.models.facts import Attention, ModelFacts
from inference_operator.models.model import model_facts
from inference_operator.sizing.choice import choose
from inference_operator.sizing.cpu import CpuNeeds, cpu_needs
from inference_operator.sizing.efficiency import MEMORY_SHARE
from inference_operator.sizing.fitting import fitted_batch
from inference_operator.sizing.gpu_plan import GpuPlan
from inference_operator.sizing.kv_cache import (
    AllocatedCache,
    CacheLayout,
    CacheReads,
    Kept,
    allocated_cache,
    cache_layout,
    cache_reads,
)
from inference_operator.sizing.paged import paged_budget
from inference_operator.sizing.shape import ParallelSizes, Shape, SizingInputs
from inference_operator.sizing.step_costs import costs_at_speed
from inference_operator.sizing.steptime import Overhead
from tests.sizing.pools import model, on_gpus, pool

H100 = vllm_memory("0.32.0", memory_gib=79.18)


def test_a_cache_of_whole_blocks_holds_whole_sequences() -> None:
    layout = CacheLayout(2**20, (Kept(Attention.FULL, 1, 16, 0),), 2**16, state_blocks=1, batches_in_flight=1)
    found = allocated_cache(layout, H100, size=2**30, context=8192, batched=8192)
    assert found == AllocatedCache(blocks=1024, tokens=16384, concurrency=2.0)


def test_two_ranks_share_the_heads_of_a_token() -> None:
    assert cache_layout(model("Qwen/Qwen3-8B"), H100, Shape(ParallelSizes(2))).token_bytes == 73728.0


def test_a_step_reads_layers_with_a_window_apart() -> None:
    found = cache_reads(model("openai/gpt-oss-20b"), H100, Shape())
    assert found == CacheReads(token=24576.0, windows={128: 24576.0}, state=0.0)


def test_a_step_reads_the_weights_once_and_computes_with_each_element() -> None:
    qwen = model("Qwen/Qwen3-8B")
    slow = GpuOffer("slow", 80.0, bandwidth_gb_per_s=1 / MEMORY_SHARE, tflops=0.001)
    reads, overhead = cache_reads(qwen, H100, Shape()), Overhead(0.0, 0.0)
    found = costs_at_speed(qwen, slow, reads, overhead, Shape(), operations_per_second=1e9, estimated=False)
    assert (round(found.dense, 1), round(found.token, 1)) == (15.1, 13.9)
    assert found.cached_token == pytest.approx(147456e-9)


def test_the_rest_of_two_gpus_is_the_cache() -> None:
    pair = Shape(ParallelSizes(2), context=8192, utilization=0.95)
    earlier = vllm_memory("0.19.0", memory_gib=79.19)
    found = paged_budget(
        model("meta-llama/Meta-Llama-3.1-70B"), GpuOffer("H100-80GB", 79.19, linked=True), earlier, pair
    )
    assert round(found.kv_cache, 1) == 5.5


def test_an_engine_on_cpus_needs_memory_for_a_model_that_is_unknown_too() -> None:
    memory = vllm_cpu_memory(latent=False)
    assert cpu_needs(model("Qwen/Qwen3-0.6B"), memory, Shape()) == CpuNeeds(32768, 3772776448, 7)
    assert cpu_needs(None, memory, Shape()) == CpuNeeds(None, 4294967296, 6)


@pytest.mark.parametrize(("name", "sequences"), [("Qwen/Qwen3-8B", None), ("Qwen/Qwen3.5-27B", 328)])
def test_a_batch_of_a_model_with_states_has_fewer_sequences(name: str, sequences: int | None) -> None:
    (offer,) = pool("H100:8")
    known = entry(name)
    assert known
    facts = model_facts(known.config)
    assert isinstance(facts, ModelFacts)
    assert fitted_batch(on_gpus(offer), facts, Shape(context=8192)).shape.max_num_seqs == sequences


def test_a_model_is_divided_over_the_gpus_that_hold_its_context() -> None:
    card = kind_named("RTX 4090")
    assert card
    plan = choose(model("Qwen/Qwen3-8B"), [offer_of_kind(card, per_node=2)], on_gpus, SizingInputs())
    assert isinstance(plan, GpuPlan)
    assert (plan.shape.parallel.tensor, plan.budget.context, plan.replicas_per_node) == (2, 40960, 1)
