"""Sizes that vLLM derives itself are no arguments, and requested ones agree with each other."""

from dataclasses import replace

import pytest

from inference_operator.api.engine import EngineSpec
from inference_operator.api.reasons import Reason
from inference_operator.engines.vllm.memory_flags import memory_arguments, refusal_of_batches
from inference_operator.models.facts import ModelFacts
from inference_operator.models.model import model_facts
from inference_operator.sizing.choice import choose
from inference_operator.sizing.fitting import LONGEST_UNREQUESTED, TYPICAL_REQUESTS, USUAL_CONTEXT
from inference_operator.sizing.gpu_plan import GpuPlan, Infeasible
from inference_operator.sizing.plan import checked_plan
from inference_operator.sizing.shape import Shape, SizingInputs
from tests.sizing.pools import model, on_gpus, pool

RERANKER = {
    "architectures": ["XLMRobertaForSequenceClassification"],
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "vocab_size": 250002,
    "max_position_embeddings": 8192,
}
PLAIN = {
    "architectures": ["NewForCausalLM"],
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "vocab_size": 32000,
    "max_position_embeddings": 8192,
}
QWEN_VL = {
    "architectures": ["Qwen2_5_VLForConditionalGeneration"],
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "vocab_size": 152064,
    "max_position_embeddings": 128000,
    "vision_config": {"hidden_size": 1280, "intermediate_size": 3420, "depth": 32, "hidden_act": "silu"},
}


def facts_of(config: object) -> ModelFacts:
    found = model_facts(config)
    assert isinstance(found, ModelFacts)
    return found


def chosen(facts: ModelFacts, gpus: str, **shape: object) -> GpuPlan | Infeasible:
    return choose(facts, pool(gpus), on_gpus, SizingInputs(shape=replace(Shape(), **shape)))  # type: ignore[arg-type]


def arguments(facts: ModelFacts, gpus: str, **shape: object) -> list[str]:
    found = chosen(facts, gpus, **shape)
    assert isinstance(found, GpuPlan), found
    return list(memory_arguments(EngineSpec(), checked_plan(found, facts, downloads=True)))


def test_a_model_that_fits_with_vllms_own_sizes_gets_no_argument_for_them() -> None:
    assert arguments(model("Qwen/Qwen3-8B"), "H100:1") == ["--gpu-memory-utilization=0.92"]


def test_an_assumed_context_is_an_argument_because_vllm_would_derive_another() -> None:
    assumed = facts_of({name: value for name, value in PLAIN.items() if name != "max_position_embeddings"})
    assert (assumed.context, assumed.context_stated) == (8192, False)
    assert arguments(assumed, "H100:1") == ["--max-model-len=8192", "--gpu-memory-utilization=0.92"]
    assert arguments(facts_of(PLAIN), "H100:1") == ["--gpu-memory-utilization=0.92"]


def test_fewer_requested_tokens_than_vllms_sequences_lower_the_sequences_without_an_argument() -> None:
    found = chosen(model("Qwen/Qwen3-8B"), "H100:1", max_num_batched_tokens=512)
    assert isinstance(found, GpuPlan)
    assert (found.budget.max_num_seqs, found.budget.max_num_batched_tokens) == (512, 512)
    assert "--max-num-seqs" not in " ".join(arguments(model("Qwen/Qwen3-8B"), "H100:1", max_num_batched_tokens=512))


def test_more_requested_sequences_than_vllms_tokens_raise_the_tokens() -> None:
    given = arguments(model("Qwen/Qwen3-0.6B"), "L4:1", max_num_seqs=4096)
    assert {"--max-num-seqs=4096", "--max-num-batched-tokens=4096"} <= set(given)


def test_more_requested_sequences_than_requested_tokens_are_refused() -> None:
    refusal = refusal_of_batches(EngineSpec(maxNumSeqs=16, maxNumBatchedTokens=8))
    assert refusal
    assert (refusal.reason, refusal.field) == (Reason.INVALID_SPEC, "spec.engine.maxNumBatchedTokens")


@pytest.mark.parametrize("gpus", ["L4:1", "H100:1"])
def test_a_reranker_gets_no_argument_for_sizes_and_has_no_kv_cache(gpus: str) -> None:
    facts = facts_of(RERANKER)
    found = chosen(facts, gpus)
    assert isinstance(found, GpuPlan)
    assert (facts.is_pooling, facts.is_encoder) == (True, True)
    assert (found.budget.kv_needed, found.budget.kv_tokens) == (0.0, 0)
    assert found.budget.max_num_batched_tokens == 8192
    assert arguments(facts, gpus) == ["--gpu-memory-utilization=0.92"]


def test_a_batch_that_holds_no_prompt_of_an_encoder_is_refused() -> None:
    found = chosen(facts_of(RERANKER), "H100:1", max_num_batched_tokens=2048)
    assert isinstance(found, Infeasible)
    assert found.reason is Reason.CONTEXT_TOO_LONG


@pytest.mark.parametrize(
    ("name", "gpus", "context", "own"),
    [
        ("deepseek-ai/DeepSeek-V3", "H200:8", 163_840, 163_840),
        ("google/gemma-3-27b-it", "H200:8", 131_072, 131_072),
        ("Qwen/Qwen3-30B-A3B-Instruct-2507", "H200:8", 262_144, 262_144),
        ("Qwen/Qwen3-30B-A3B-Instruct-2507", "L40S:8", 177_152, 262_144),
        ("meta-llama/Llama-3.3-70B-Instruct", "H100:8", 131_072, 131_072),
        ("meta-llama/Llama-4-Scout-17B-16E-Instruct", "H100:8", LONGEST_UNREQUESTED, 10_485_760),
    ],
)
def test_a_default_context_is_the_models_own_or_the_longest_beside_eight_typical_requests(
    name: str, gpus: str, context: int, own: int
) -> None:
    found = chosen(model(name), gpus)
    assert isinstance(found, GpuPlan)
    assert (found.budget.context, found.model_context) == (context, own if context < own else 0)
    assert found.budget.typical_beside_longest >= TYPICAL_REQUESTS
    requested = chosen(model(name), gpus, context=min(own, 1_048_576))
    assert isinstance(requested, GpuPlan)
    assert requested.model_context == 0


@pytest.mark.parametrize(
    "name", ["meta-llama/Llama-3.3-70B-Instruct", "Qwen/Qwen3-14B", "Qwen/Qwen3-30B-A3B-Instruct-2507"]
)
@pytest.mark.parametrize("gpus", ["L4:8", "H100:8", "B200:8"])
def test_a_context_that_nobody_requests_never_takes_more_gpus(name: str, gpus: str) -> None:
    found, usual = (chosen(model(name), gpus, context=context) for context in (None, USUAL_CONTEXT))
    assert isinstance(found, GpuPlan)
    assert found.context_reduced or (isinstance(usual, GpuPlan) and found.gpus_per_replica <= usual.gpus_per_replica)


def test_a_longer_context_than_the_default_is_kept_on_request() -> None:
    found = chosen(model("meta-llama/Llama-3.1-8B-Instruct"), "L4:8", context=131072)
    assert isinstance(found, GpuPlan)
    assert found.budget.context == 131072


def test_video_is_refused_by_default_and_its_memory_is_counted_on_request() -> None:
    facts = facts_of(QWEN_VL)
    without, with_video = chosen(facts, "H100:1"), chosen(facts, "H100:1", video=True)
    assert isinstance(without, GpuPlan)
    assert isinstance(with_video, GpuPlan)
    assert 2 < without.budget.activation < 4
    assert 6 < with_video.budget.activation < 16
    assert '--limit-mm-per-prompt={"video":0}' in arguments(facts, "H100:1")
    assert "--limit-mm-per-prompt" not in " ".join(arguments(facts, "H100:1", video=True))


def test_an_unknown_encoder_is_counted_as_a_large_one_and_the_plan_says_so() -> None:
    facts = facts_of({**QWEN_VL, "architectures": ["NewForConditionalGeneration"]})
    found = chosen(facts, "H100:1")
    assert isinstance(found, GpuPlan)
    assert any("largest image" in one for one in found.assumptions)
    assert found.budget.activation > 2
