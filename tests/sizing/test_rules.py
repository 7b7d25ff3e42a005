"""The tensor parallel sizes and quantizations that a model and a GPU allow."""

import pytest

from inference_operator.models.quantization import named_quantization
from inference_operator.sizing.rules import allowed_sizes, broken_rule, unable
from inference_operator.sizing.shape import ParallelSizes, Shape
from tests.sizing.pools import model


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
    ],
)
def test_a_gpu_that_does_not_support_the_models_quantization_is_refused(
    name: str,
    capability: tuple[int, int],
    able: bool,  # noqa: FBT001 - a table
) -> None:
    assert (unable(model(name), Shape(), capability) is None) is able
