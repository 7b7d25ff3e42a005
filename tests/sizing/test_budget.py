"""The memory budget of a GPU, compared with values that vLLM logged."""

from dataclasses import replace

import pytest

from inference_operator.engines.vllm.memory import RUNNER_GRAPH_GIB, vllm_memory
from inference_operator.hardware.offers import GpuOffer
from inference_operator.models.facts import ModelFacts
from inference_operator.models.quantization import named_quantization
from inference_operator.sizing.activation import graphs_gib
from inference_operator.sizing.budget import Budget
from inference_operator.sizing.gpu_plan import host_needs
from inference_operator.sizing.kv_cache import cache_layout
from inference_operator.sizing.paged import paged_budget
from inference_operator.sizing.shape import ParallelSizes, Shape
from inference_operator.sizing.weights import rank_weights
from inference_operator.units import GIB
from tests.sizing.pools import model

H100 = GpuOffer("H100-80GB", 79.19, linked=True)
TWO_AT_95 = Shape(ParallelSizes(2), context=8192, utilization=0.95)


def on_h100(name: str, shape: Shape, version: str = "0.19.0", facts: ModelFacts | None = None) -> Budget:
    return paged_budget(facts or model(name), H100, vllm_memory(version, memory_gib=79.19, product="H100"), shape)


def test_qwen_72b_on_two_h100_has_the_measured_kv_cache_of_3_gib() -> None:
    found = on_h100("Qwen/Qwen2.5-72B-Instruct", TWO_AT_95)
    assert found.kv_cache == pytest.approx(3.04, abs=0.03)
    assert found.kv_tokens == pytest.approx(19920, rel=0.01)
    assert found.fits


def test_qwen_72b_on_two_h100_is_refused_at_the_default_utilization_with_graphs() -> None:
    found = on_h100("Qwen/Qwen2.5-72B-Instruct", replace(TWO_AT_95, utilization=None), "0.32.0")
    assert found.utilization == pytest.approx(0.92)
    assert found.kv_cache < 0
    assert not found.fits


def test_the_second_runner_keeps_counts_tables_and_token_ids_of_each_sequence() -> None:
    """Qwen3-8B: a vocabulary of 151,936, one group of KV cache, blocks of 16 tokens."""
    shape = Shape(context=32768, max_num_seqs=512, max_num_batched_tokens=2048)
    half, whole = (on_h100("Qwen/Qwen3-8B", replace(shape, max_num_seqs=each), "0.32.0") for each in (512, 1024))
    logits = 512 * 151_936 * 2
    assert (whole.activation - half.activation) * GIB == pytest.approx(512 * 4 * (151_936 + 4748) + logits, rel=0.15)
    assert (whole.pinned, half.pinned) == (1024 * 32768 * 4 / GIB, 512 * 32768 * 4 / GIB)
    assert whole.outside * GIB == 1024 * 2048 * 2 * 4
    assert (
        host_needs(model("Qwen/Qwen3-8B"), shape, 4.0).memory_gib
        == host_needs(model("Qwen/Qwen3-8B"), shape).memory_gib + 4
    )
    first = on_h100("Qwen/Qwen3-8B", shape, "0.28.0")
    assert (first.pinned, first.outside) == (0, 0)


@pytest.mark.parametrize(
    ("capability", "sequences", "captured"),
    [
        ((9, 0), 1024, 51 + 51),
        ((9, 0), 256, 51 + 35),
        ((9, 0), 8, 5 + 4),
        ((10, 0), 1024, 83 + 83),
        ((10, 0), 256, 51 + 35),
    ],
)
def test_the_second_runner_captures_batches_by_sequences_and_gpu(
    capability: tuple[int, int], sequences: int, captured: int
) -> None:
    engine = vllm_memory(memory_gib=79.19, capability=capability)
    found = graphs_gib(model("Qwen/Qwen3-8B"), engine, Shape(max_num_seqs=sequences))
    assert found == pytest.approx(36 * RUNNER_GRAPH_GIB * captured / 102)


@pytest.mark.parametrize(
    ("name", "tensor", "gib"),
    [
        ("Qwen/Qwen2.5-7B-Instruct", 1, 14.25),
        ("Qwen/Qwen2.5-7B-Instruct", 4, 3.55),
        ("moonshotai/Kimi-Dev-72B", 2, 67.82),
        ("moonshotai/Kimi-Dev-72B", 4, 34.01),
        ("meta-llama/Llama-4-Scout-17B-16E-Instruct", 4, 53.12),
        ("mistralai/Mistral-Small-3.1-24B-Instruct-2503", 4, 11.86),
        ("deepseek-ai/DeepSeek-V2-Lite-Chat", 4, 7.51),
        ("Qwen/Qwen3-30B-A3B", 4, 14.25),
    ],
)
def test_the_weights_of_a_rank_equal_the_measured_value(name: str, tensor: int, gib: float) -> None:
    (found,) = rank_weights(model(name), Shape(ParallelSizes(tensor)))
    assert found.bytes / GIB == pytest.approx(gib, rel=0.005)


def test_the_first_and_the_last_pipeline_stage_hold_vocabulary_weights() -> None:
    first, last = rank_weights(model("meta-llama/Llama-3.1-8B-Instruct"), Shape(ParallelSizes(1, 4)))
    assert first.bytes / GIB == pytest.approx(4.26, abs=0.01)
    assert last.bytes / GIB == pytest.approx(4.26, abs=0.01)


def test_fp8_quantization_at_load_leaves_the_vocabulary_in_16_bits() -> None:
    shape = Shape(quantization=named_quantization("fp8"))
    (found,) = rank_weights(model("meta-llama/Llama-3.1-8B-Instruct"), shape)
    assert found.bytes / GIB == pytest.approx(8.49, abs=0.01)


@pytest.mark.parametrize(
    ("name", "version", "tensor", "gib"),
    [
        ("Qwen/Qwen3-14B", "0.16.0", 1, 5.64),
        ("Qwen/Qwen3-14B", "0.17.0", 1, 2.23),
        ("google/gemma-2-27b-it", "0.19.0", 1, 3.66),
        ("Qwen/Qwen3-30B-A3B", "0.19.0", 1, 2.68),
        ("mistralai/Mixtral-8x7B-Instruct-v0.1", "0.19.0", 2, 1.21),
        ("codellama/CodeLlama-7b-hf", "0.19.0", 1, 0.77),
    ],
)
def test_the_peak_activation_memory_equals_the_measured_value(name: str, version: str, tensor: int, gib: float) -> None:
    found = on_h100(name, Shape(ParallelSizes(tensor), context=8192, max_num_seqs=1024), version)
    assert found.activation == pytest.approx(gib, abs=0.1)


@pytest.mark.parametrize(
    ("name", "tensor", "expected"),
    [
        ("Qwen/Qwen3-8B", 1, 147456),
        ("Qwen/Qwen3-8B", 8, 18432),
        ("Qwen/Qwen3-8B", 16, 18432),
        ("deepseek-ai/DeepSeek-V2-Lite-Chat", 1, 31104),
        ("deepseek-ai/DeepSeek-V2-Lite-Chat", 4, 31104),
        ("google/gemma-3-27b-it", 1, 81920),
        ("Qwen/Qwen3.5-4B", 1, 32768),
    ],
)
def test_the_kv_cache_bytes_per_token_of_a_model_are_as_expected(name: str, tensor: int, expected: int) -> None:
    engine = vllm_memory("0.19.0", memory_gib=79.19)
    assert cache_layout(model(name), engine, Shape(ParallelSizes(tensor))).token_bytes == expected


@pytest.mark.parametrize(
    ("name", "kv_gib", "tokens", "concurrency"),
    [
        ("google/gemma-3-27b-it", 19.53, 36560, 4.46),
        ("google/gemma-2-2b-it", 66.47, 670160, 81.73),
        ("openai/gpt-oss-20b", 58.47, 1277184, 155.75),
    ],
)
def test_kv_cache_tokens_and_concurrency_of_grouped_layers_equal_those_that_vllm_reports(
    name: str, kv_gib: float, tokens: int, concurrency: float
) -> None:
    layout = cache_layout(model(name), vllm_memory("0.19.0", memory_gib=79.19), Shape())
    blocks = int(kv_gib * GIB // layout.unit_bytes)
    assert blocks // layout.groups * 16 == pytest.approx(tokens, rel=0.001)
    assert blocks / layout.blocks(8192, 8192) == pytest.approx(concurrency, rel=0.002)


def test_a_kv_cache_block_of_a_hybrid_model_holds_a_whole_state() -> None:
    layout = cache_layout(model("Qwen/Qwen3.5-4B"), vllm_memory("0.23.0", memory_gib=23.5), Shape())
    assert (layout.block_tokens, layout.groups) == (528, 4)
    blocks = int(10.21 * GIB // layout.unit_bytes)
    assert int(blocks / layout.blocks(4096, 2048) * 4096) == 235706


def test_an_fp8_kv_cache_holds_twice_as_many_tokens() -> None:
    plain, small = (on_h100("Qwen/Qwen3-8B", Shape(context=8192, kv_cache_dtype=kind)) for kind in ("auto", "fp8"))
    assert small.kv_tokens == pytest.approx(2 * plain.kv_tokens, rel=0.001)


def test_weights_offloaded_to_the_host_enlarge_the_kv_cache() -> None:
    plain = on_h100("Qwen/Qwen3-8B", Shape(context=8192))
    assert on_h100("Qwen/Qwen3-8B", Shape(context=8192, cpu_offload_gib=4)).kv_cache == plain.kv_cache + 4


def test_eager_mode_enlarges_the_kv_cache() -> None:
    graphs, eager = (on_h100("Qwen/Qwen3-8B", Shape(context=8192, eager=eager), "0.32.0") for eager in (False, True))
    assert eager.kv_cache == pytest.approx(graphs.kv_cache + graphs.graphs)


def test_mxfp4_kernel_memory_must_fit_outside_the_memory_budget() -> None:
    narrow, wide = (on_h100("openai/gpt-oss-20b", Shape(context=8192, utilization=part)) for part in (0.95, 0.9))
    assert (narrow.fits, wide.fits) == (False, True)


def test_every_term_of_the_memory_budget_names_its_origin() -> None:
    found = on_h100("Qwen/Qwen3-8B", Shape(context=8192))
    assert [term.name for term in found.terms] == ["weights", "activation", "non-torch", "CUDA graphs", "KV cache"]
    assert all(term.origin for term in found.terms)
    assert sum(term.gib for term in found.terms if term.name != "CUDA graphs") == pytest.approx(found.offered)
