"""Reviewed choices: the group and context chosen for a model on a GPU pool, or the refusal."""

import pytest

from inference_operator.api.reasons import Reason
from inference_operator.sizing.choice import choose
from inference_operator.sizing.gpu_plan import GpuPlan, Infeasible
from inference_operator.sizing.shape import SizingInputs
from tests.sizing.pools import model, on_gpus, pool

CHOICES: list[tuple[str, str, tuple[str, int, int, int] | Reason]] = [
    ("Qwen/Qwen3-0.6B", "T4:1", ("T4", 1, 40960, 1)),
    ("Qwen/Qwen3-8B", "L4:1", ("L4", 1, 16384, 1)),
    ("Qwen/Qwen3-8B", "T4:4", ("T4", 2, 40960, 4)),
    ("Qwen/Qwen3-8B", "L4:8", ("L4", 2, 40960, 2)),
    ("Qwen/Qwen3-8B", "RTX-4090:2", ("RTX-4090", 2, 40960, 2)),
    ("Qwen/Qwen3-8B", "L40S:4", ("L40S", 1, 40960, 1)),
    ("Qwen/Qwen3-8B", "H100:8", ("H100-80GB", 1, 40960, 1)),
    ("Qwen/Qwen3-8B", "L4:4 H100:8", ("H100-80GB", 1, 40960, 1)),
    ("Qwen/Qwen3-8B-AWQ", "T4:1", ("T4", 1, 32768, 1)),
    ("Qwen/Qwen3-8B-AWQ", "L4:1", ("L4", 1, 40960, 1)),
    ("meta-llama/Llama-3.1-8B-Instruct", "L4:1", ("L4", 1, 21504, 1)),
    ("meta-llama/Llama-3.1-8B-Instruct", "L4:8", ("L4", 2, 131072, 2)),
    ("meta-llama/Llama-3.1-8B-Instruct", "A100-40GB:8", ("A100-40GB", 1, 131072, 1)),
    ("meta-llama/Llama-3.1-8B-Instruct", "H100:1", ("H100-80GB", 1, 131072, 1)),
    ("microsoft/phi-4", "L4:1", ("L4", 1, 16384, 2)),
    ("microsoft/phi-4", "L4:8", ("L4", 2, 16384, 4)),
    ("microsoft/phi-4", "T4:4", ("T4", 2, 16384, 4)),
    ("microsoft/phi-4", "A100-40GB:8", ("A100-40GB", 2, 16384, 2)),
    ("Qwen/Qwen3-14B", "T4:4", ("T4", 4, 40960, 4)),
    ("Qwen/Qwen3-14B", "A100-40GB:8", ("A100-40GB", 2, 40960, 2)),
    ("openai/gpt-oss-20b", "L4:1", ("L4", 1, 131072, 1)),
    ("openai/gpt-oss-20b", "T4:1", Reason.NO_SUITABLE_GPU),
    ("openai/gpt-oss-20b", "H100:1", ("H100-80GB", 1, 131072, 1)),
    ("openai/gpt-oss-120b", "H100:8", ("H100-80GB", 2, 131072, 2)),
    ("openai/gpt-oss-120b", "A100-40GB:8", ("A100-40GB", 4, 131072, 4)),
    ("openai/gpt-oss-120b", "L40S:4", ("L40S", 2, 131072, 2)),
    ("mistralai/Mistral-Small-3.1-24B-Instruct-2503", "RTX-4090:2", ("RTX-4090", 2, 131072, 4)),
    ("mistralai/Mistral-Small-3.1-24B-Instruct-2503", "L40S:4", ("L40S", 2, 131072, 2)),
    ("mistralai/Mistral-Small-3.1-24B-Instruct-2503", "H100:8", ("H100-80GB", 1, 131072, 1)),
    ("Qwen/Qwen3-32B", "H100:1", ("H100-80GB", 1, 22528, 1)),
    ("Qwen/Qwen3-32B", "H100:8", ("H100-80GB", 2, 40960, 2)),
    ("Qwen/Qwen3-32B", "L40S:4", ("L40S", 4, 40960, 4)),
    ("Qwen/Qwen3-32B", "L4:8", ("L4", 8, 40960, 8)),
    ("Qwen/Qwen3-30B-A3B", "H100:1", ("H100-80GB", 1, 40960, 1)),
    ("Qwen/Qwen3-30B-A3B", "A100-40GB:8", ("A100-40GB", 4, 40960, 4)),
    ("meta-llama/Llama-3.3-70B-Instruct", "H100:8", ("H100-80GB", 4, 131072, 4)),
    ("meta-llama/Llama-3.3-70B-Instruct", "H200:8", ("H200", 4, 131072, 4)),
    ("meta-llama/Llama-3.3-70B-Instruct", "A100-40GB:8", ("A100-40GB", 8, 131072, 8)),
    ("meta-llama/Llama-3.3-70B-Instruct", "L4:8", ("L4", 2, 28672, 8)),
    ("meta-llama/Llama-3.3-70B-Instruct", "A10G:4", ("A10G", 2, 28672, 8)),
    ("meta-llama/Llama-3.3-70B-Instruct", "T4:1", Reason.INSUFFICIENT_GPU_MEMORY),
    ("RedHatAI/Llama-3.3-70B-Instruct-fp8-dynamic", "H100:8", ("H100-80GB", 2, 131072, 2)),
    ("RedHatAI/Llama-3.3-70B-Instruct-fp8-dynamic", "H200:8", ("H200", 1, 131072, 1)),
    ("RedHatAI/Llama-3.3-70B-Instruct-fp8-dynamic", "L40S:4", ("L40S", 4, 131072, 4)),
    ("Qwen/Qwen2.5-72B-Instruct", "H100:8", ("H100-80GB", 4, 131072, 4)),
    ("Qwen/Qwen2.5-72B-Instruct", "H200:8", ("H200", 4, 131072, 4)),
    ("mistralai/Mixtral-8x7B-Instruct-v0.1", "H100:1", ("H100-80GB", 1, 32768, 2)),
    ("mistralai/Mixtral-8x7B-Instruct-v0.1", "H100:8", ("H100-80GB", 4, 32768, 4)),
    ("meta-llama/Llama-4-Scout-17B-16E-Instruct", "H100:8", ("H100-80GB", 8, 262144, 8)),
    ("Qwen/Qwen3-235B-A22B-Instruct-2507", "A100-80GB:8", ("A100-80GB", 8, 40960, 8)),
    ("Qwen/Qwen3-235B-A22B-Instruct-2507", "H200:8", ("H200", 8, 40960, 8)),
    ("Qwen/Qwen3-235B-A22B-Instruct-2507-FP8", "H100:8", ("H100-80GB", 4, 40960, 4)),
    ("deepseek-ai/DeepSeek-R1", "H100:8", ("H100-80GB", 8, 163840, 16)),
    ("deepseek-ai/DeepSeek-R1", "H200:8", ("H200", 8, 163840, 8)),
    ("deepseek-ai/DeepSeek-V2-Lite-Chat", "A100-40GB:8", ("A100-40GB", 4, 163840, 4)),
    ("Qwen/Qwen3.5-27B", "H100:1", ("H100-80GB", 1, 233472, 1)),
    ("Qwen/Qwen3.5-27B", "L40S:4", ("L40S", 2, 262144, 2)),
    ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "H100:1", ("H100-80GB", 1, 262144, 1)),
    ("Qwen/Qwen3-Next-80B-A3B-Thinking", "H100:8", ("H100-80GB", 4, 262144, 4)),
    ("moonshotai/Kimi-K2.5", "H200:8", ("H200", 8, 262144, 8)),
]
"""Kind, tensor parallel size, longest sequence in tokens, GPUs of one engine on as many nodes as it needs."""
REDUCED = {
    ("Qwen/Qwen3-8B", "L4:1"),
    ("meta-llama/Llama-3.1-8B-Instruct", "L4:1"),
    ("Qwen/Qwen3-32B", "H100:1"),
    ("meta-llama/Llama-3.3-70B-Instruct", "L4:8"),
    ("meta-llama/Llama-3.3-70B-Instruct", "A10G:4"),
}
"""Where no group on a node has room for what is aimed at."""


def test_the_table_of_reviewed_choices_has_its_minimum_length() -> None:
    assert len({(name, gpus) for name, gpus, _ in CHOICES}) == len(CHOICES) >= 40


@pytest.mark.parametrize(("name", "gpus", "expected"), CHOICES, ids=[f"{name} on {gpus}" for name, gpus, _ in CHOICES])
def test_a_model_on_a_gpu_pool_gets_the_expected_kind_parallel_size_and_context(
    name: str, gpus: str, expected: tuple[str, int, int, int] | Reason
) -> None:
    found = choose(model(name), pool(gpus), on_gpus, SizingInputs())
    if isinstance(found, Infeasible):
        assert found.reason is expected
        return
    assert (found.offer.kind, found.shape.parallel.tensor, found.shape.context, found.gpus_per_replica) == expected
    assert found.context_reduced is ((name, gpus) in REDUCED)
    assert isinstance(found, GpuPlan)
