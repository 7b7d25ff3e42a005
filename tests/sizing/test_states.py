"""Layers with states by any field of a config, and layers with experts (numbers from the models' public configs)."""

from dataclasses import replace
from typing import Any

import pytest

from inference_operator.api.engine import EngineSpec
from inference_operator.engines.vllm.vllm import Vllm
from inference_operator.models.facts import Attention, MatrixPart, ModelFacts
from inference_operator.models.model import model_facts
from inference_operator.models.slim import slim
from inference_operator.sizing.fitting import SAFE_SEQUENCES
from inference_operator.sizing.lora_and_speculative import unaccounted
from inference_operator.sizing.shape import Shape, SizingInputs
from inference_operator.units import GIB
from tests.sizing.test_limits_at_start import blocks, chosen, facts_of

ATTENTION = {"num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 65536, "tie_word_embeddings": False}
JAMBA: dict[str, Any] = {
    "architectures": ["JambaForCausalLM"],
    "model_type": "jamba",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "attn_layer_period": 8,
    "attn_layer_offset": 4,
    "expert_layer_period": 2,
    "expert_layer_offset": 1,
    "num_experts": 16,
    "num_experts_per_tok": 2,
    "mamba_d_state": 16,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
    "mamba_dt_rank": 256,
    "max_position_embeddings": 262144,
    "torch_dtype": "bfloat16",
    **ATTENTION,
}
LFM2_LAYERS = ["full_attention" if index in (2, 5, 8, 10, 12, 14) else "conv" for index in range(16)]
LFM2: dict[str, Any] = {
    "architectures": ["Lfm2ForCausalLM"],
    "model_type": "lfm2",
    "hidden_size": 2048,
    "intermediate_size": 12288,
    "num_hidden_layers": 16,
    "conv_L_cache": 3,
    "layer_types": LFM2_LAYERS,
    "max_position_embeddings": 128000,
    **ATTENTION,
    "tie_word_embeddings": True,
}
FALCON_H1: dict[str, Any] = {
    "architectures": ["FalconH1ForCausalLM"],
    "model_type": "falcon_h1",
    "hidden_size": 3072,
    "head_dim": 128,
    "num_hidden_layers": 44,
    "intermediate_size": 12288,
    "attn_layer_indices": None,
    "mamba_d_ssm": 3072,
    "mamba_n_heads": 24,
    "mamba_d_head": 128,
    "mamba_d_state": 256,
    "mamba_n_groups": 1,
    "mamba_d_conv": 4,
    "num_attention_heads": 12,
    "num_key_value_heads": 2,
    "vocab_size": 130048,
    "max_position_embeddings": 262144,
}
ZAMBA2: dict[str, Any] = {
    "architectures": ["Zamba2ForCausalLM"],
    "model_type": "zamba2",
    "hidden_size": 2560,
    "num_hidden_layers": 54,
    "hybrid_layer_ids": [6, 12, 18, 24, 30, 36, 42, 47, 51],
    "n_mamba_heads": 80,
    "mamba_headdim": 64,
    "mamba_d_state": 64,
    "mamba_ngroups": 1,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
    "num_attention_heads": 32,
    "intermediate_size": 10240,
    "vocab_size": 32000,
    "max_position_embeddings": 4096,
}
LING: dict[str, Any] = {
    "architectures": ["BailingMoeV2_5ForCausalLM"],
    "model_type": "bailing_hybrid",
    "hidden_size": 2048,
    "num_hidden_layers": 20,
    "layer_group_size": 5,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "intermediate_size": 5120,
    "moe_intermediate_size": 512,
    "num_experts": 256,
    "num_experts_per_tok": 8,
    "first_k_dense_replace": 1,
    "vocab_size": 157184,
    "max_position_embeddings": 131072,
}
KIMI: dict[str, Any] = {
    "architectures": ["KimiLinearForCausalLM"],
    "model_type": "kimi_linear",
    "hidden_size": 2304,
    "num_hidden_layers": 27,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "num_attention_heads": 32,
    "head_dim": 72,
    "linear_attn_config": {
        "kda_layers": [*range(1, 21)],
        "num_heads": 32,
        "head_dim": 128,
        "short_conv_kernel_size": 4,
    },
    "intermediate_size": 9216,
    "vocab_size": 163840,
    "max_position_embeddings": 1048576,
}
BAMBA = {
    "architectures": ["BambaForCausalLM"],
    "model_type": "bamba",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "attn_layer_indices": [9, 18, 27],
    "mamba_n_heads": 128,
    "mamba_d_head": "auto",
    "mamba_d_state": 128,
    "mamba_n_groups": 1,
    "intermediate_size": 14336,
    "max_position_embeddings": 262144,
    **ATTENTION,
}


def counted(facts: ModelFacts) -> tuple[int, int]:
    """Layers with keys and values, and layers with a state."""
    kept, states = 0, 0
    for group in facts.groups:
        states += group.layers if group.attention is Attention.STATE else 0
        kept += 0 if group.attention is Attention.STATE else group.layers
    return kept, states


@pytest.mark.parametrize(
    ("config", "layers", "state"),
    [
        (JAMBA, (4, 28), (8192, 3, 8192 * 16)),
        (LFM2, (6, 10), (2048, 2, 0)),
        (FALCON_H1, (44, 44), (3072 + 2 * 256, 3, 3072 * 256)),
        (ZAMBA2, (9, 54), (5120 + 2 * 64, 3, 5120 * 64)),
        (LING, (4, 16), (0, 0, 16 * 128 * 128)),
        ({**LING, "architectures": ["BailingMoeV3ForCausalLM"], "num_hidden_layers": 22}, (6, 16), (6144, 3, 262144)),
        (KIMI, (7, 20), (3 * 4096, 3, 32 * 128 * 128)),
        (BAMBA, (3, 29), (8192 + 2 * 128, 3, 8192 * 128)),
        ({**LFM2, "layer_types": None, "full_attn_idxs": [2, 5, 8]}, (3, 13), (2048, 2, 0)),
        ({**ZAMBA2, "layers_block_type": ["mamba"] * 45 + ["hybrid"] * 9}, (9, 54), (5248, 3, 327680)),
    ],
)
def test_layers_with_states_are_told_by_any_field(
    config: dict[str, Any], layers: tuple[int, int], state: tuple[int, int, int]
) -> None:
    facts = facts_of(config)
    (group,) = (group for group in facts.groups if group.attention is Attention.STATE)
    assert counted(facts) == layers
    assert group.state
    assert (group.state.convolution_width, group.state.convolution_length, group.state.recurrent) == state
    assert facts_of(slim(config, None)) == facts


def test_experts_in_every_second_layer_count_once_in_two() -> None:
    facts = facts_of(JAMBA)
    experts = {matrix.layers for matrix in facts.matrices if matrix.part is MatrixPart.EXPERTS}
    assert experts == {16}
    assert facts.weight_bytes / GIB == pytest.approx(96, rel=0.02)


@pytest.mark.parametrize(
    ("fields", "layers"),
    [
        ({"moe_layer_freq": [0, *[1] * 31]}, 31),
        ({"moe_layer_freq": 2}, 16),
        ({"mlp_only_layers": [0, 1, 2]}, 29),
        ({"num_dense_layers": 2}, 30),
        ({"interleave_moe_layer_step": 2}, 16),
    ],
)
def test_layers_with_experts_are_told_by_any_field(fields: dict[str, Any], layers: int) -> None:
    plain = {name: value for name, value in JAMBA.items() if not name.startswith(("expert", "attn", "mamba"))}
    facts = facts_of({**plain, "architectures": ["X"], "model_type": "x", **fields})
    assert {matrix.layers for matrix in facts.matrices if matrix.part is MatrixPart.EXPERTS} == {layers}


def test_the_context_of_a_hybrid_needs_the_memory_of_its_few_layers_with_keys() -> None:
    plan = chosen(facts_of(JAMBA), "A100-80GB:2")
    assert plan.budget.context == 262144
    assert plan.budget.concurrency > 8
    small = chosen(facts_of(LFM2), "T4:1")
    assert small.budget.context == 128000
    assert (small.shape.max_num_seqs or 0) <= blocks(facts_of(LFM2), small)


UNKNOWN = {
    "architectures": ["Qwen4ExpForCausalLM"],
    "model_type": "qwen4_exp",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "intermediate_size": 12288,
    "max_position_embeddings": 262144,
    **ATTENTION,
}


def served(config: dict[str, Any]) -> ModelFacts:
    return Vllm().as_served(facts_of(config), EngineSpec())


def test_a_hybrid_whose_states_are_unknown_gets_a_safe_number_of_sequences_and_says_so() -> None:
    facts = served(UNKNOWN)
    assert facts.has_unknown_states
    plan = chosen(facts, "H100:1")
    assert plan.shape.max_num_seqs == SAFE_SEQUENCES
    assert "maxNumSeqs" not in plan.left_to_engine
    assert unaccounted(facts, Shape()) == ("the states of its layers, whose sizes are not in its config",)
    asked = chosen(facts, "H100:1", SizingInputs(shape=Shape(max_num_seqs=100)))
    assert asked.shape.max_num_seqs == 100


@pytest.mark.parametrize(
    "config",
    [
        LFM2,
        {**UNKNOWN, "architectures": ["Qwen3ForCausalLM"]},
        {**UNKNOWN, "architectures": ["GraniteMoeHybridForCausalLM"], "layer_types": ["attention"] * 32},
    ],
)
def test_other_models_have_no_unknown_states(config: dict[str, Any]) -> None:
    facts = served(config)
    assert not facts.has_unknown_states
    assert replace(facts, has_unknown_states=False) == facts
    assert isinstance(model_facts(config), ModelFacts)
