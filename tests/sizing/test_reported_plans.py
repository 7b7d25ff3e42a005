"""Failures that were reported to other projects, as requests to sizing: what it plans, or why it refuses."""

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from inference_operator.hardware.offers import GpuOffer
from inference_operator.models.catalogue import entry
from inference_operator.models.checkpoint import Weights
from inference_operator.models.config import NotUnderstood
from inference_operator.models.facts import ModelFacts
from inference_operator.models.model import model_facts
from inference_operator.sizing.choice import choose
from inference_operator.sizing.gpu_plan import GpuPlan, Infeasible
from inference_operator.sizing.shape import Shape, SizingInputs
from inference_operator.units import GIB
from tests.sizing.pools import model, on_gpus, pool

MISTRAL_SMALL_4: dict[str, Any] = {
    "architectures": ["Mistral3ForConditionalGeneration"],
    "text_config": {
        "model_type": "mistral4",
        "num_hidden_layers": 36,
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "num_key_value_heads": 32,
        "max_position_embeddings": 1048576,
        "kv_lora_rank": 256,
        "qk_rope_head_dim": 64,
        "vocab_size": 131072,
    },
    "quantization_config": {"quant_method": "fp8"},
}
"""Sizes of kaito-project/kaito@056b8280b, presets/workspace/models/model_catalog.yaml, and its 112.63 GiB of files."""
MOST_TOKENS = 810_208
"""What vLLM's error of that report names as the longest context."""
GEMMA_2_2B: dict[str, Any] = {
    "architectures": ["Gemma2ForCausalLM"],
    "model_type": "gemma2",
    "num_hidden_layers": 26,
    "hidden_size": 2304,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "intermediate_size": 9216,
    "vocab_size": 256000,
    "max_position_embeddings": 8192,
    "sliding_window": 4096,
    "torch_dtype": "bfloat16",
    "tie_word_embeddings": True,
}


def of_config(config: dict[str, Any], gib: float | None = None) -> ModelFacts:
    found = model_facts(config, Weights(round(gib * GIB), "files") if gib else None)
    assert isinstance(found, ModelFacts), found
    return found


def next_in_blocks() -> ModelFacts:
    known = entry("Qwen/Qwen3-Next-80B-A3B-Instruct")
    assert known
    return of_config({**known.config, "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}})


@dataclass(frozen=True)
class Report:
    """A request, and the tensor parallel size that is planned for it, or words of the refusal."""

    facts: ModelFacts
    gpus: list[GpuOffer]
    tensor: int | None
    planned: int | None = None
    refused: str = ""
    shape: Shape = field(default_factory=Shape)


SMALL_4 = of_config(MISTRAL_SMALL_4, 112.63)
OF_KAITO = Shape(utilization=0.84)
EIGHT_GB = [replace(pool("RTX-4090:1")[0], kind="RTX-4060", memory_gib=7.6)]
REPORTS = {
    "kaito#2132, the context of the report": Report(
        SMALL_4, pool("H100-NVL:2"), 2, refused="offers 78.2 GiB", shape=replace(OF_KAITO, context=1_048_576)
    ),
    "kaito#2132, a context that fits": Report(
        SMALL_4, pool("H100-NVL:2"), 2, 2, shape=replace(OF_KAITO, context=650_000)
    ),
    "kubeai#499": Report(
        of_config(GEMMA_2_2B, 4.9), EIGHT_GB, 1, refused="offers 7.0 GiB", shape=Shape(context=8192, max_num_seqs=256)
    ),
    "vllm#25378, a part of a block": Report(
        next_in_blocks(), pool("H100:8"), 8, refused="make 64 for each of 8, no multiple of the 128 that share a scale"
    ),
    "vllm#25378, whole blocks": Report(next_in_blocks(), pool("H100:8"), 4, 4),
    "vllm#52435": Report(
        model("deepseek-ai/DeepSeek-V4-Flash"),
        pool("H200:3"),
        3,
        refused="64 attention heads are not divisible by 3. Use 1, 2, 4, 8, or 16.",
        shape=Shape(expert_parallel=True),
    ),
    "gpustack#2259, the size of the report": Report(
        model("google/gemma-3-27b-it"), pool("A100-40GB:3"), 3, refused="32 attention heads are not divisible by 3."
    ),
    "gpustack#2259": Report(model("google/gemma-3-27b-it"), pool("A100-40GB:3"), None, 2),
}


@pytest.mark.parametrize("name", REPORTS)
def test_a_request_of_a_report_is_planned_so_that_vllm_starts_or_is_refused_with_the_reason(name: str) -> None:
    report = REPORTS[name]
    inputs = SizingInputs(tensor=report.tensor, pipeline=1, nodes=1, shape=report.shape)
    found = choose(report.facts, report.gpus, on_gpus, inputs)
    if report.planned is None:
        assert isinstance(found, Infeasible), found
        assert report.refused in found.message
    else:
        assert isinstance(found, GpuPlan), found
        assert found.shape.parallel.tensor == report.planned


def test_latent_attention_is_whole_on_each_gpu_and_holds_no_more_tokens_than_vllm_counts() -> None:
    """kaito#2132: an estimate that divided it by the GPUs was too large."""
    found = choose(SMALL_4, pool("H100-NVL:2"), on_gpus, SizingInputs(tensor=2, shape=OF_KAITO))
    assert isinstance(found, GpuPlan)
    assert found.budget.kv_token_bytes == 36 * (256 + 64) * 2
    assert 0.8 * MOST_TOKENS < found.budget.kv_tokens < MOST_TOKENS


def test_a_model_with_an_encoder_and_a_decoder_is_not_sized_as_one_with_a_decoder_alone() -> None:
    """Whisper's config names layers of both, and `num_hidden_layers` too."""
    sizes = {"d_model": 1280, "num_hidden_layers": 32, "decoder_layers": 32, "encoder_layers": 32, "vocab_size": 51866}
    config = {"architectures": ["WhisperForConditionalGeneration"], "model_type": "whisper", **sizes}
    found = model_facts({**config, "is_encoder_decoder": True, "max_target_positions": 448})
    assert isinstance(found, NotUnderstood)
    assert found.message.startswith("config.json.is_encoder_decoder: is true: the operator sizes no model")
