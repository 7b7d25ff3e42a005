"""The tensor parallel sizes and quantizations that a model and a GPU allow."""

import pytest

from inference_operator.api.engine import EngineSpec
from inference_operator.engines.vllm.architectures import SUPPORT
from inference_operator.engines.vllm.vllm import Vllm
from inference_operator.models.quantization import named_quantization
from inference_operator.sizing.choice import choose
from inference_operator.sizing.gpu_plan import GpuPlan
from inference_operator.sizing.rules import allowed_sizes, broken_rule
from inference_operator.sizing.shape import ParallelSizes, Shape, SizingInputs
from inference_operator.sizing.weights import rank_weights
from tests.sizing.pools import model, on_gpus, pool


@pytest.mark.parametrize(
    ("name", "tensor", "words"),
    [
        ("Qwen/Qwen3-14B", 5, "8 heads of keys and values"),
        ("google/gemma-3-27b-it", 3, "32 attention heads"),
        ("microsoft/phi-4", 8, "10 heads of keys and values"),
        ("Qwen/Qwen3-235B-A22B-Instruct-2507-FP8", 8, "192"),
        ("Qwen/Qwen2.5-7B-Instruct", 8, "28 attention heads"),
    ],
)
def test_a_tensor_parallel_size_that_breaks_a_rule_is_explained(name: str, tensor: int, words: str) -> None:
    rule = broken_rule(model(name), Shape(ParallelSizes(tensor)))
    assert rule
    assert words in rule


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Qwen/Qwen3-8B", (1, 2, 4, 8, 16)),
        ("microsoft/phi-4", (1, 2)),
        ("Qwen/Qwen2.5-7B-Instruct", (1, 2, 4)),
        ("deepseek-ai/DeepSeek-V2-Lite-Chat", (1, 2, 4, 8, 16)),
        ("Qwen/Qwen3-235B-A22B-Instruct-2507-FP8", (1, 2, 4)),
        ("Qwen/Qwen2-72B-Instruct-GPTQ-Int8", (1,)),
    ],
)
def test_a_model_allows_exactly_the_expected_tensor_parallel_sizes(name: str, expected: tuple[int, ...]) -> None:
    assert allowed_sizes(model(name), Shape(), 16) == expected


def test_blocks_of_quantization_at_load_must_be_divisible_by_the_tensor_parallel_size() -> None:
    shape = Shape(ParallelSizes(4), quantization=named_quantization("fp8_per_block"))
    assert "192" in (broken_rule(model("Qwen/Qwen3-30B-A3B"), shape) or "")


@pytest.mark.parametrize(
    ("name", "capability", "able"),
    [
        ("Qwen/Qwen3-8B", (7, 0), True),
        ("Qwen/Qwen3-8B-AWQ", (7, 0), False),
        ("Qwen/Qwen3-235B-A22B-Instruct-2507-FP8", (7, 0), False),
        ("Qwen/Qwen3-235B-A22B-Instruct-2507-FP8", (8, 0), True),
        ("openai/gpt-oss-20b", (7, 5), False),
        ("openai/gpt-oss-20b", (8, 0), True),
    ],
)
def test_a_gpu_that_does_not_support_the_models_quantization_is_refused(
    name: str,
    capability: tuple[int, int],
    able: bool,  # noqa: FBT001 - a table
) -> None:
    assert (SUPPORT.unable(model(name), Shape(), capability) is None) is able


def test_a_model_that_forbids_float16_takes_twice_the_memory_on_a_gpu_without_bfloat16() -> None:
    facts, (old, new) = model("google/gemma-3-27b-it"), (on_gpus(pool(gpu)[0]) for gpu in ("T4:8", "L4:8"))
    shape = Shape(ParallelSizes(8), context=8192)
    assert old.budget(facts, shape).weights == pytest.approx(2 * new.budget(facts, shape).weights, rel=0.05)
    assert old.budget(facts, shape).kv_token_bytes == 2 * new.budget(facts, shape).kv_token_bytes


def test_expert_parallelism_needs_no_division_of_experts() -> None:
    facts = model("Qwen/Qwen3-235B-A22B-Instruct-2507-FP8")
    divided, whole = (Shape(ParallelSizes(8), expert_parallel=one) for one in (False, True))
    assert "192" in (broken_rule(facts, divided) or "")
    assert broken_rule(facts, whole) is None
    experts = rank_weights(facts, whole)[0].experts
    assert experts == pytest.approx(rank_weights(facts, divided)[0].experts, rel=0.01), "128 experts over 8 ranks"


def test_expert_parallelism_in_the_arguments_reaches_the_rules() -> None:
    shape = Vllm().shape(EngineSpec(args=("--enable-expert-parallel",)))
    assert shape.expert_parallel
    facts = model("Qwen/Qwen3-235B-A22B-Instruct-2507-FP8")
    found = choose(facts, pool("H100:8"), on_gpus, SizingInputs(tensor=8, shape=shape))
    assert isinstance(found, GpuPlan), found.message
    assert found.shape.parallel.tensor == 8
