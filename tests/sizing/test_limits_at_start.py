"""Limits that vLLM has at its start, beside memory: sequences with states, attention, encoders, blocks of weights.

The rules are computed here from the facts and not by the code that sizes, so that a plan that breaks one is seen.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from inference_operator.api.reasons import Reason
from inference_operator.engines.vllm.memory import vllm_memory
from inference_operator.hardware.kinds import GPU_KINDS
from inference_operator.models.catalogue import entry, names
from inference_operator.models.entry import entry_facts
from inference_operator.models.facts import Kernel, MatrixPart, ModelFacts
from inference_operator.models.model import model_facts
from inference_operator.models.slim import slim
from inference_operator.sizing.choice import choose
from inference_operator.sizing.gpu_plan import GpuPlan, Infeasible
from inference_operator.sizing.kv_cache import cache_layout
from inference_operator.sizing.shape import LEAST_SEQUENCES, ParallelSizes, Shape, SizingInputs
from inference_operator.sizing.weights import rank_weights
from inference_operator.units import GIB
from tests.sizing.pools import model, on_gpus, pool

HYBRID = "Qwen/Qwen3.5-27B"
SPARSE_MLA_MAJORS = (9, 10, 12)
UNDIVIDED = frozenset({"Qwen2AudioForConditionalGeneration"})
"""Each rank has the encoder of Transformers as a whole (vLLM 0.32.0, `model_executor/models/qwen2_audio.py`)."""
"""vLLM 0.32.0, `v1/attention/backends/mla/*sparse*.py`, `supports_compute_capability`."""
GLM_VISION = {"depth": 24, "hidden_size": 1536, "num_heads": 12, "intermediate_size": 10944, "out_hidden_size": 4096}
GLM_4_5V: dict[str, Any] = {
    "architectures": ["Glm4vMoeForConditionalGeneration"],
    "model_type": "glm4v_moe",
    "text_config": {
        "hidden_size": 4096,
        "num_hidden_layers": 46,
        "num_attention_heads": 96,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "intermediate_size": 10944,
        "moe_intermediate_size": 1408,
        "n_routed_experts": 128,
        "n_shared_experts": 1,
        "num_experts_per_tok": 8,
        "first_k_dense_replace": 1,
        "vocab_size": 151552,
        "max_position_embeddings": 65536,
    },
    "vision_config": GLM_VISION,
}
BLOCKS = {"num_bits": 8, "type": "float", "strategy": "block", "block_structure": [128, 128]}
CHANNELS = {"num_bits": 8, "type": "float", "strategy": "channel"}
FOUR_BITS = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128}


def facts_of(config: object) -> ModelFacts:
    found = model_facts(config)
    assert isinstance(found, ModelFacts), found
    return found


def chosen(facts: ModelFacts, gpus: str, inputs: SizingInputs | None = None) -> GpuPlan:
    found = choose(facts, pool(gpus), on_gpus, inputs or SizingInputs())
    assert isinstance(found, GpuPlan), found
    return found


def refused(facts: ModelFacts, gpus: str, inputs: SizingInputs | None = None) -> Infeasible:
    found = choose(facts, pool(gpus), on_gpus, inputs or SizingInputs())
    assert isinstance(found, Infeasible), found
    return found


def blocks(facts: ModelFacts, plan: GpuPlan) -> int:
    """Blocks of the KV cache of a plan, as vLLM divides it."""
    memory = vllm_memory("0.32.0", memory_gib=plan.offer.memory_gib, product=plan.offer.kind)
    return int(plan.budget.kv_cache * GIB // cache_layout(facts, memory, plan.shape).unit_bytes)


# --- sequences with states ---


def test_a_batch_has_no_more_sequences_than_the_cache_has_blocks_of_states() -> None:
    plan = chosen(model(HYBRID), "H100:1")
    assert plan.shape.max_num_seqs is not None
    assert 256 < plan.shape.max_num_seqs < blocks(model(HYBRID), plan) < 1024
    assert "maxNumSeqs" not in plan.left_to_engine


def test_states_of_nemotron_h_are_in_float32_unless_its_config_says_otherwise() -> None:
    """With 31,342,523,842 bytes, one H200 has 185 blocks in vLLM 0.32: ten layers of 16.9 MB each."""
    known = entry("nvidia/Nemotron-H-56B-Base-8K")
    assert known
    memory = vllm_memory("0.32.0", memory_gib=140.0)
    stated, other = (
        cache_layout(facts_of({**known.config, **more}), memory, Shape()).unit_bytes
        for more in ({}, {"mamba_ssm_cache_dtype": "bfloat16"})
    )
    assert 31_342_523_842 // stated == 185
    assert other < 0.6 * stated


def test_models_without_states_keep_the_engines_own_number_of_sequences() -> None:
    plan = chosen(model("Qwen/Qwen3-8B"), "H100:1")
    assert plan.shape.max_num_seqs == 1024
    assert "maxNumSeqs" in plan.left_to_engine


def test_more_requested_sequences_than_blocks_are_refused_with_the_number_that_fits() -> None:
    requested = SizingInputs(tensor=1, nodes=1, shape=Shape(max_num_seqs=1024))
    found = refused(model(HYBRID), "H100:1", requested)
    assert (found.field, found.reason) == ("spec.engine.maxNumSeqs", Reason.INSUFFICIENT_GPU_MEMORY)
    assert "each of 1,024 sequences needs one for the states of its layers" in found.problem
    most = int(found.cure.removeprefix("Use at most ").partition(",")[0])
    assert 256 < most < 1024
    fitting = replace(requested, shape=Shape(max_num_seqs=most))
    assert chosen(model(HYBRID), "H100:1", fitting).shape.max_num_seqs == most
    assert refused(model(HYBRID), "H100:1", replace(requested, shape=Shape(max_num_seqs=2 * most)))


def test_requested_sequences_get_the_gpus_that_have_blocks_for_them() -> None:
    plan = chosen(model(HYBRID), "H100:8", SizingInputs(shape=Shape(max_num_seqs=1024)))
    assert plan.shape.parallel.world_size > 1
    assert blocks(model(HYBRID), plan) >= 1024


@pytest.mark.parametrize("shape", [Shape(whole_graphs=False), Shape(kv_cache_bytes=2**36)])
def test_no_number_of_sequences_is_refused_without_graphs_of_whole_steps_or_with_blocks_for_it(shape: Shape) -> None:
    requested = replace(shape, max_num_seqs=300)
    facts = model(HYBRID)
    assert chosen(facts, "H200:1", SizingInputs(tensor=1, shape=requested)).shape.max_num_seqs == 300
    eager = SizingInputs(tensor=1, shape=replace(Shape(whole_graphs=False), max_num_seqs=1024))
    assert chosen(facts, "H100:1", eager).shape.max_num_seqs == 1024


def test_a_cache_of_a_requested_size_limits_the_sequences_too() -> None:
    plan = chosen(model(HYBRID), "H200:1", SizingInputs(tensor=1, shape=Shape(kv_cache_bytes=2**34)))
    assert plan.shape.max_num_seqs is not None
    assert plan.shape.max_num_seqs <= blocks(model(HYBRID), plan) < 1024


def test_a_reported_number_of_sequences_is_a_limit_and_no_request() -> None:
    usual = chosen(model(HYBRID), "H100:1").shape.max_num_seqs
    assert usual is not None
    fewer, more = (
        chosen(model(HYBRID), "H100:1", SizingInputs(most_sequences=most)).shape.max_num_seqs for most in (100, 900)
    )
    assert (fewer, more) == (100, usual)


def test_more_gpus_come_before_a_batch_of_few_sequences() -> None:
    facts = dict(concerned())["nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-FP8"]
    plan = chosen(facts, "H100:8")
    assert (plan.shape.max_num_seqs or 0) >= LEAST_SEQUENCES
    fewer = chosen(facts, "H100:8", SizingInputs(tensor=4, pipeline=2, nodes=1))
    assert (fewer.shape.max_num_seqs or 0) < LEAST_SEQUENCES


def test_earlier_versions_of_vllm_start_with_more_sequences_than_blocks() -> None:
    assert not vllm_memory("0.19.0", memory_gib=79).block_per_sequence
    assert vllm_memory("0.20.0", memory_gib=79).block_per_sequence


# --- attention ---


@pytest.mark.parametrize("name", ["deepseek-ai/DeepSeek-V3.2", "zai-org/GLM-5.1-FP8", "deepseek-ai/DeepSeek-V4-Flash"])
@pytest.mark.parametrize("gpus", ["A100-80GB:8", "L40S:8", "RTX-4090:8", "T4:8"])
def test_sparse_latent_attention_is_refused_on_gpus_without_a_kernel(name: str, gpus: str) -> None:
    found = refused(model(name), gpus)
    assert (found.reason, found.cure) == (Reason.NO_SUITABLE_GPU, "Use another kind of GPU.")
    assert "needs compute capability" in found.problem


def test_the_refusal_of_sparse_latent_attention_names_the_compute_capabilities() -> None:
    problem = refused(model("deepseek-ai/DeepSeek-V3.2"), "A100-80GB:8").problem
    assert problem.endswith("Sparse latent attention needs compute capability 9.x, 10.x, or 12.x; this GPU has 8.0.")


def test_a_model_with_sparse_attention_gets_the_gpus_of_the_cluster_that_can_compute_it() -> None:
    assert chosen(model("deepseek-ai/DeepSeek-V3.2"), "A100-80GB:8 H200:8").offer.kind == "H200"


@pytest.mark.parametrize("name", ["deepseek-ai/DeepSeek-V3", "deepseek-ai/DeepSeek-V2-Lite"])
def test_latent_attention_without_an_index_runs_on_earlier_gpus(name: str) -> None:
    facts = model(name)
    assert not facts.uses_sparse_mla
    assert on_gpus(pool("A100-80GB:8")[0]).unable(facts, Shape()) is None


# --- encoders ---


def test_an_encoder_whose_heads_the_size_does_not_divide_is_whole_on_each_rank_and_counted_so() -> None:
    facts = facts_of(GLM_4_5V)
    engine = on_gpus(pool("H100:8")[0])
    four, eight = (engine.budget(facts, Shape(ParallelSizes(size), context=8192)) for size in (4, 8))
    assert (four.whole_encoder, eight.whole_encoder) == (False, True)
    whole, divided = (
        rank_weights(facts, Shape(ParallelSizes(8), whole_encoder=mode))[0].bytes / GIB for mode in (True, False)
    )
    assert eight.weights == pytest.approx(whole, abs=0.01)
    assert whole - divided == pytest.approx(7 / 8 * 1.95, abs=0.25)
    plan = chosen(facts, "H100:8", SizingInputs(tensor=8))
    assert plan.shape.whole_encoder


@pytest.mark.parametrize(("mode", "allowed"), [(None, (1, 2, 4, 8, 16)), (True, (1, 2, 4, 8, 16)), (False, (1, 2, 4))])
def test_sizes_that_do_not_divide_an_encoder_are_allowed_unless_arguments_divide_it(
    *, mode: bool | None, allowed: tuple[int, ...]
) -> None:
    facts = replace(facts_of(GLM_4_5V), heads=128, groups=model("Qwen/Qwen3-VL-235B-A22B-Instruct").groups)
    assert on_gpus(pool("H100:8")[0]).allowed_sizes(facts, Shape(whole_encoder=mode), 16) == allowed


def test_an_encoder_that_vllm_always_divides_limits_the_sizes() -> None:
    config = {**GLM_4_5V, "architectures": ["SmolVLMForConditionalGeneration"]}
    facts = facts_of(config)
    assert on_gpus(pool("H100:8")[0]).allowed_sizes(facts, Shape(), 8) == (1, 2, 4)
    found = refused(facts, "H100:8", SizingInputs(tensor=8))
    assert found.message == (
        "spec.parallelism.tensor: 12 attention heads of the encoder of images are not divisible by 8. Use 1, 2, or 4."
    )


def test_the_width_of_an_encoder_counts_as_its_heads_do() -> None:
    vision = {"depth": 32, "hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16}
    facts = facts_of({**GLM_4_5V, "architectures": ["Qwen2_5_VLForConditionalGeneration"], "vision_config": vision})
    engine = on_gpus(pool("H100:8")[0])
    assert [engine.budget(facts, Shape(ParallelSizes(size))).whole_encoder for size in (4, 8)] == [False, True]


@pytest.mark.parametrize("architecture", ["Gemma4ForConditionalGeneration", "Qwen2AudioForConditionalGeneration", "X"])
def test_an_encoder_that_vllm_does_not_divide_sets_no_limit(architecture: str) -> None:
    facts = replace(facts_of(GLM_4_5V), architecture=architecture)
    engine = on_gpus(pool("H100:8")[0])
    assert engine.allowed_sizes(facts, Shape(), 8) == (1, 2, 4, 8)
    assert not engine.budget(facts, Shape(ParallelSizes(8))).whole_encoder


def test_the_heads_of_an_encoder_survive_the_reduction_of_a_config() -> None:
    assert facts_of(slim(GLM_4_5V, None)).tower == facts_of(GLM_4_5V).tower
    assert facts_of(GLM_4_5V).tower.heads == 12  # type: ignore[union-attr]  # it has one


# --- blocks of weights ---


def compressed(*groups: dict[str, Any], stored: str = "float-quantized", **more: Any) -> dict[str, Any]:  # noqa: ANN401
    """The config of a model whose weights llm-compressor has quantized in these groups."""
    listed = {f"group_{index}": {"targets": ["Linear"], **group} for index, group in enumerate(groups)}
    section = {"quant_method": "compressed-tensors", "format": stored, "config_groups": listed, **more}
    known = entry("Qwen/Qwen3-235B-A22B")
    assert known
    return {**known.config, "quantization_config": section}


def test_blocks_of_compressed_tensors_allow_the_sizes_that_deepseeks_form_allows() -> None:
    native = compressed()
    native["quantization_config"] = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    engine = on_gpus(pool("H100:8")[0])
    found = [facts_of(config) for config in (compressed({"weights": BLOCKS}), native)]
    assert [one.quantization.kernel for one in found] == [Kernel.FP8_BLOCK] * 2
    assert [engine.allowed_sizes(one, Shape(), 8) for one in found] == [(1, 2, 4)] * 2
    messages = {refused(one, "H100:8", SizingInputs(tensor=8)).message for one in found}
    assert len(messages) == 1
    assert "make 192 for each of 8, no multiple of the 128" in messages.pop()
    assert chosen(found[0], "H100:8").shape.parallel.tensor <= 4


@pytest.mark.parametrize(
    ("groups", "more", "kernel", "group"),
    [
        ([{"weights": BLOCKS}], {}, Kernel.FP8_BLOCK, 128),
        ([{"weights": {**BLOCKS, "block_structure": "128x64"}}], {}, Kernel.FP8_BLOCK, 128),
        ([{"weights": {**BLOCKS, "block_structure": None}}], {}, Kernel.FP8_BLOCK, 128),
        ([{"weights": CHANNELS}], {}, Kernel.FP8, 0),
        ([{"weights": {"num_bits": 8, "type": "int"}}], {"stored": "int-quantized"}, Kernel.INT8, 0),
        ([{"weights": FOUR_BITS}], {"stored": "pack-quantized"}, Kernel.GPTQ, 128),
        ([{"weights": CHANNELS}, {"weights": BLOCKS}], {}, Kernel.FP8_BLOCK, 128),
        (
            [
                {"weights": CHANNELS, "format": "float-quantized"},
                {"weights": FOUR_BITS, "format": "pack-quantized"},
            ],
            {"stored": "mixed-precision"},
            Kernel.GPTQ,
            128,
        ),
        ([{"weights": {"num_bits": 4, "type": "float", "group_size": 32}}], {"stored": "x"}, Kernel.MXFP4, 32),
        (
            [{"weights": {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16}}],
            {"stored": "mixed-precision"},
            Kernel.NVFP4,
            16,
        ),
        ([{"weights": None, "input_activations": CHANNELS}], {}, Kernel.NONE, 0),
        ([], {}, Kernel.NONE, 0),
    ],
)
def test_all_groups_of_compressed_tensors_count_with_their_own_format(
    groups: list[dict[str, Any]], more: dict[str, Any], kernel: Kernel, group: int
) -> None:
    found = facts_of(compressed(*groups, **more)).quantization
    assert (found.kernel, found.group, found.method) == (kernel, group, "compressed-tensors")


@pytest.mark.parametrize(
    "section",
    [
        {"config_groups": []},
        {"config_groups": {"a": 1}},
        {"config_groups": {"a": {"weights": {"num_bits": 8, "type": 3, "block_structure": [{}, "9" * 30]}}}},
        {"config_groups": {"a": {"weights": {"num_bits": 8, "strategy": "block", "block_structure": [0, -1]}}}},
    ],
)
def test_odd_groups_of_compressed_tensors_are_read_without_an_error(section: dict[str, Any]) -> None:
    config = compressed()
    config["quantization_config"] = {"quant_method": "compressed-tensors", "format": "float-quantized", **section}
    assert isinstance(model_facts(config), ModelFacts)


def test_a_config_with_groups_keeps_its_facts_when_it_is_reduced() -> None:
    config = compressed({"weights": FOUR_BITS}, {"weights": BLOCKS, "format": "float-quantized"}, stored="x")
    reduced = slim(config, None)
    assert facts_of(reduced) == facts_of(config)
    groups = reduced["quantization_config"]["config_groups"]
    assert groups["group_0"]["targets"] == {"counts": {"Linear": 1}}


# --- all of them ---


@cache
def concerned() -> tuple[tuple[str, ModelFacts], ...]:
    """The models of the catalogue to which one of the limits applies."""
    found = [(name, facts) for name in names() if isinstance(facts := entry_facts(entry(name)), ModelFacts)]  # type: ignore[arg-type]
    return tuple((name, facts) for name, facts in found if _is_concerned(facts))


def _is_concerned(facts: ModelFacts) -> bool:
    return (
        facts.has_states
        or facts.uses_sparse_mla
        or facts.tower is not None
        or facts.quantization.kernel is Kernel.FP8_BLOCK
        or facts.quantization.kv_cache_fp8
    )


def broken(facts: ModelFacts, plan: GpuPlan) -> Iterator[str]:
    """The limits that a plan breaks."""
    shape, tensor = plan.shape, plan.shape.parallel.tensor
    if facts.has_states and (shape.max_num_seqs or 0) > blocks(facts, plan):
        yield f"{shape.max_num_seqs} sequences, {blocks(facts, plan)} blocks"
    if facts.uses_sparse_mla and plan.offer.capability[0] not in SPARSE_MLA_MAJORS:
        yield f"sparse attention on {plan.offer.kind}"
    if facts.quantization.kv_cache_fp8 and plan.offer.capability < ((8, 9) if facts.uses_mla else (8, 0)):
        yield f"an FP8 KV cache on {plan.offer.kind}"
    undivided = shape.whole_encoder or facts.architecture in UNDIVIDED
    if facts.tower and facts.tower.heads % tensor and not undivided:
        yield f"{facts.tower.heads} heads of the encoder over {tensor}"
    if facts.quantization.kernel is Kernel.FP8_BLOCK:
        for matrix in (one for one in facts.matrices if one.part is MatrixPart.EXPERTS):
            if facts.experts and facts.experts.intermediate_size % (tensor * facts.quantization.group):
                yield f"{matrix.part} in blocks over {tensor}"


def broken_by_default(kinds: Sequence[str], nodes: int | None) -> tuple[list[str], int]:
    """The limits that default plans of the catalogue break on these kinds of GPUs, and the number of these plans."""
    found, plans = [], 0
    for name, facts in concerned():
        for kind in kinds:
            plan = choose(facts, pool(f"{kind}:8"), on_gpus, SizingInputs(nodes=nodes))
            if isinstance(plan, GpuPlan):
                plans += 1
                found += [f"{name} on {kind}: {limit}" for limit in broken(facts, plan)]
    return found, plans


def test_no_default_plan_on_one_node_breaks_a_limit_of_vllm() -> None:
    found, plans = broken_by_default(("RTX-4090", "A100-40GB", "H100", "B200"), 1)
    assert plans > 100
    assert not found


@pytest.mark.full
def test_no_default_plan_on_any_kind_of_gpu_breaks_a_limit_of_vllm() -> None:
    found, plans = broken_by_default([kind.name for kind in GPU_KINDS if kind.capability >= (7, 5)], None)
    assert plans > 800
    assert not found
