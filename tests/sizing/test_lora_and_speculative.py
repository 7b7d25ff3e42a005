"""Memory of LoRA adapters and of speculative decoding."""

import pytest

from inference_operator.engines.vllm.memory import vllm_cpu_memory, vllm_memory
from inference_operator.hardware.offers import GpuOffer
from inference_operator.models.facts import ModelFacts
from inference_operator.sizing.activation import graphs_gib
from inference_operator.sizing.cpu import cpu_needs
from inference_operator.sizing.gpu_plan import host_needs
from inference_operator.sizing.kv_cache import cache_layout
from inference_operator.sizing.lora_and_speculative import adapters_gib, draft_gib, kept_adapters_gib, unaccounted
from inference_operator.sizing.paged import paged_budget
from inference_operator.sizing.rules import allowed_sizes, broken_rule
from inference_operator.sizing.shape import Adapters, ParallelSizes, Shape, Speculation
from inference_operator.sizing.weights import rank_weights
from inference_operator.units import GIB
from tests.sizing.pools import model

ENGINE = vllm_memory("0.32.0", memory_gib=79.19)
QWEN, DRAFT, DEEPSEEK = model("Qwen/Qwen3-8B"), model("Qwen/Qwen3-0.6B"), model("deepseek-ai/DeepSeek-V3")
DRAFTED = Speculation(4, draft="Qwen/Qwen3-0.6B", draft_facts=DRAFT)


def qwen_adapter(tensor: int, rank: int) -> int:
    """Elements of one adapter beside Qwen3-8B, layer by layer as vLLM makes its tensors."""
    hidden, wide, queries, keys, words, layers = 4096, 12288, 4096, 1024, 151936, 36
    joined = 3 * hidden + (queries + 2 * keys) / tensor
    out = queries / tensor + hidden
    up = 2 * hidden + 2 * wide / tensor
    down = wide / tensor + hidden
    return round(rank * (layers * (joined + out + up + down) + 2 * (words + hidden)))


@pytest.mark.parametrize("tensor", [1, 2, 4])
def test_lora_adapters_take_the_memory_of_the_tensors_that_vllm_allocates(tensor: int) -> None:
    shape = Shape(ParallelSizes(tensor), adapters=Adapters(rank=64, active=4))
    assert adapters_gib(QWEN, shape) * GIB == pytest.approx(2 * 4 * qwen_adapter(tensor, 64))


def test_lora_adapters_have_matrices_for_each_expert() -> None:
    mixture = model("Qwen/Qwen3-30B-A3B")
    one_expert = 3 * (2048 + 768)
    least = 48 * 128 * one_expert * 16 * 2
    assert least < adapters_gib(mixture, Shape(adapters=Adapters(rank=16))) * GIB < 1.1 * least


def test_fully_sharded_lora_adapters_are_smaller_and_float16_adapters_have_equal_size() -> None:
    whole, divided = (
        adapters_gib(QWEN, Shape(ParallelSizes(4), adapters=Adapters(64, divided=state))) for state in (False, True)
    )
    assert divided < whole
    assert adapters_gib(QWEN, Shape(ParallelSizes(4), adapters=Adapters(64, element_bytes=2))) == whole


def test_lora_adapters_add_host_memory_and_double_the_cuda_graph_memory() -> None:
    shape = Shape(ParallelSizes(2), adapters=Adapters(rank=64, active=2, kept=8))
    assert kept_adapters_gib(QWEN, shape) * GIB == pytest.approx(2 * 8 * 2 * qwen_adapter(1, 64))
    plain = host_needs(QWEN, Shape(ParallelSizes(2))).memory_gib
    assert host_needs(QWEN, shape).memory_gib == pytest.approx(plain + kept_adapters_gib(QWEN, shape), abs=1)
    assert graphs_gib(QWEN, ENGINE, shape) == 2 * graphs_gib(QWEN, ENGINE, Shape(ParallelSizes(2)))
    assert graphs_gib(QWEN, ENGINE, Shape(eager=True, adapters=Adapters(64))) == 0


def test_a_draft_model_takes_memory_for_its_weights_and_its_kv_cache_layers() -> None:
    shape = Shape(ParallelSizes(2), context=8192, speculation=DRAFTED)
    assert draft_gib(QWEN, shape) * GIB == rank_weights(DRAFT, Shape(ParallelSizes(2)))[0].bytes
    own, with_draft = (cache_layout(QWEN, ENGINE, Shape(ParallelSizes(2), speculation=one)) for one in (None, DRAFTED))
    drafts = cache_layout(DRAFT, ENGINE, Shape(ParallelSizes(2)))
    assert with_draft.token_bytes == own.token_bytes + drafts.token_bytes
    gpu = GpuOffer("H100-80GB", 79.19, linked=True)
    plain, found = (
        paged_budget(QWEN, gpu, ENGINE, Shape(ParallelSizes(2), context=8192)),
        paged_budget(QWEN, gpu, ENGINE, shape),
    )
    assert found.weights == pytest.approx(plain.weights + draft_gib(QWEN, shape))
    assert "0.56 GiB for speculative decoding" in str(found.terms[0].origin)


def test_the_memory_of_a_draft_model_counts_in_the_last_pipeline_stage() -> None:
    plain, drafted = (Shape(ParallelSizes(1, 2), context=8192, speculation=one) for one in (None, DRAFTED))
    gpu = GpuOffer("H100-80GB", 79.19, linked=True)
    more = paged_budget(QWEN, gpu, ENGINE, drafted).weights - paged_budget(QWEN, gpu, ENGINE, plain).weights
    assert more == pytest.approx(draft_gib(QWEN, drafted))
    layers = cache_layout(DRAFT, ENGINE, Shape()).token_bytes
    assert cache_layout(QWEN, ENGINE, drafted).token_bytes == cache_layout(QWEN, ENGINE, plain).token_bytes + layers


@pytest.mark.parametrize("facts", [DEEPSEEK, model("Qwen/Qwen3-Next-80B-A3B-Thinking")])
def test_a_multi_token_prediction_layer_counts_as_an_additional_layer(facts: ModelFacts) -> None:
    own = Shape(ParallelSizes(8), speculation=Speculation(2, own_layer=True))
    mean = rank_weights(facts, Shape(ParallelSizes(8)))[0].bytes / facts.layers
    assert 0.9 * mean < draft_gib(facts, own) * GIB < 1.2 * mean
    plain = cache_layout(facts, ENGINE, Shape(ParallelSizes(8))).token_bytes
    keeping = sum(one.layers for one in facts.groups if one.kv_heads)
    assert cache_layout(facts, ENGINE, own).token_bytes == pytest.approx(plain * (keeping + 1) / keeping)


def test_prompt_lookup_decoding_takes_no_memory() -> None:
    gpu = GpuOffer("H100-80GB", 79.19, linked=True)
    plain, guessed = (paged_budget(QWEN, gpu, ENGINE, Shape(speculation=one)) for one in (None, Speculation(4)))
    assert (plain.weights, plain.kv_cache) == (guessed.weights, guessed.kv_cache)


def test_a_draft_model_that_does_not_allow_the_tensor_parallel_size_is_refused() -> None:
    odd = Speculation(4, draft="Qwen/Qwen2.5-0.5B", draft_facts=model("Qwen/Qwen2.5-0.5B-Instruct"))
    assert broken_rule(QWEN, Shape(ParallelSizes(4), speculation=odd)) == (
        "Of the draft model: 14 attention heads are not divisible by 4."
    )
    assert allowed_sizes(QWEN, Shape(speculation=odd), 8) == (1, 2)


def test_memory_of_unknown_size_is_named_as_not_counted() -> None:
    assert unaccounted(QWEN, Shape(speculation=DRAFTED, adapters=Adapters(16, tower=True))) == ()
    shape = Shape(speculation=Speculation(4, draft="org/head"), adapters=Adapters(16, tower=True))
    assert unaccounted(model("google/gemma-3-27b-it"), shape) == (
        "the draft model `org/head`, which is not in the catalogue",
        "memory for adapters of the vision tower",
    )


def test_a_kv_cache_in_host_memory_counts_as_shared_memory_too() -> None:
    plain, offloaded = (host_needs(QWEN, Shape(kv_offload_gib=gib)) for gib in (0, 64))
    assert offloaded.memory_gib == plain.memory_gib + 64
    assert offloaded.shared_memory_gib == plain.shared_memory_gib + 64


def test_cpu_engines_request_memory_for_adapters_and_draft_models() -> None:
    memory = vllm_cpu_memory(latent=False)
    plain = cpu_needs(QWEN, memory, Shape())
    for shape in (Shape(speculation=DRAFTED), Shape(adapters=Adapters(64, 4, 4)), Shape(kv_offload_gib=2)):
        assert cpu_needs(QWEN, memory, shape).memory_gib > plain.memory_gib
    assert cpu_needs(None, memory, Shape(kv_offload_gib=2)).memory_gib == 8
