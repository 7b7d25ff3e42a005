"""What an adapter's config and tensors say: whether engines can serve it, and for which model it is."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_operator.models.adapter import AdapterFacts, adapter_facts, base_problem
from inference_operator.models.config import NotUnderstood

CONFIG: dict[str, Any] = {"peft_type": "LORA", "r": 8, "lora_alpha": 16, "target_modules": ["q_proj"]}
LAYER = "base_model.model.model.layers.3"
SHAPES = {f"{LAYER}.self_attn.q_proj.lora_A.weight": [8, 64], f"{LAYER}.self_attn.q_proj.lora_B.weight": [32, 8]}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*CONFIG, "bias", "use_dora"]), inner),
    max_leaves=5,
)


def test_rank_base_and_sizes_come_from_config_and_tensors() -> None:
    config = {**CONFIG, "base_model_name_or_path": "org/base"}
    assert adapter_facts(config, SHAPES) == AdapterFacts(8, "org/base", 64, 4)


def test_the_rank_is_the_largest_of_config_patterns_and_tensors() -> None:
    pattern = {**CONFIG, "rank_pattern": {"v_proj": 32}}
    found = adapter_facts(pattern, SHAPES)
    assert isinstance(found, AdapterFacts)
    assert found.rank == 32
    found = adapter_facts(CONFIG, {f"{LAYER}.mlp.down_proj.lora_A.weight": [64, 128]})
    assert isinstance(found, AdapterFacts)
    assert found.rank == 64


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"peft_type": "IA3"}, "`peft_type`"),
        ({"r": 0}, "`r`"),
        ({"r": "8"}, "`r`"),
        ({"r": True}, "`r`"),
        ({"target_modules": []}, "`target_modules`"),
        ({"use_dora": True}, "DoRA"),
        ({"bias": "all"}, "biases"),
        ({"lora_bias": True}, "bias"),
        ({"modules_to_save": ["lm_head"]}, "`modules_to_save`"),
        ({"modules_to_save": "lm_head"}, "`modules_to_save`"),
        ({"init_lora_weights": "pissa"}, "`init_lora_weights`"),
        ({"alora_invocation_tokens": [1]}, "activated"),
        ({"r": 1024}, "rank 1024"),
    ],
)
def test_what_engines_cannot_load_is_refused(change: dict[str, Any], problem: str) -> None:
    found = adapter_facts({**CONFIG, **change}, SHAPES)
    assert isinstance(found, NotUnderstood)
    assert problem in found.problem
    assert found.cure


@pytest.mark.parametrize(
    "name",
    [
        "base_model.model.visual.blocks.0.attn.qkv.lora_A.weight",
        "base_model.model.vision_tower.layers.0.q_proj.lora_A.weight",
        "base_model.model.model.layers.0.self_attn.q_proj.weight",
        "embed_tokens.weight",
    ],
)
def test_tensors_of_a_tower_or_of_no_adapter_are_refused(name: str) -> None:
    assert isinstance(adapter_facts(CONFIG, {**SHAPES, name: [8, 64]}), NotUnderstood)


def test_adapters_of_the_embedding_and_of_a_classifier_are_taken() -> None:
    more = {
        "base_model.model.model.embed_tokens.lora_embedding_A": [8, 1000],
        "base_model.model.score.weight": [2, 64],
        "base_model.model.model.embed_tokens.base_layer.weight": [1000, 64],
    }
    assert isinstance(adapter_facts({**CONFIG, "modules_to_save": ["score"]}, {**SHAPES, **more}), AdapterFacts)


@given(JSON)
def test_any_config_gives_facts_or_a_problem(config: object) -> None:
    assert isinstance(adapter_facts(config, {}), AdapterFacts | NotUnderstood)


@pytest.mark.parametrize(
    ("base", "model"),
    [
        ("Qwen/Qwen3-8B", "Qwen/Qwen3-8B"),
        ("unsloth/Qwen3-8B-unsloth-bnb-4bit", "Qwen/Qwen3-8B"),
        ("Qwen/Qwen3-8B", "RedHatAI/Qwen3-8B-FP8-dynamic"),
        ("Qwen/Qwen3-8B", "RedHatAI/Qwen3-8B-quantized.w4a16"),
        ("/data/models/qwen", "Qwen/Qwen3-8B"),
        ("", "Qwen/Qwen3-8B"),
        ("Qwen/Qwen3-8B", ""),
    ],
)
def test_an_adapter_fits_its_base_model_of_any_owner_and_precision(base: str, model: str) -> None:
    assert base_problem(AdapterFacts(8, base), model) == ""


@pytest.mark.parametrize("base", ["Qwen/Qwen3-8B-Base", "Qwen/Qwen3-4B"])
def test_an_adapter_of_another_base_model_is_refused(base: str) -> None:
    assert f"another base model, `{base}`" in base_problem(AdapterFacts(8, base), "Qwen/Qwen3-8B")


def test_sizes_of_another_model_are_refused_whatever_its_name() -> None:
    facts = AdapterFacts(8, "/data/qwen", 4096, 36)
    assert "hidden size" in base_problem(facts, "", hidden_size=2560, layers=36)
    assert "layers" in base_problem(facts, "", hidden_size=4096, layers=28)
    assert base_problem(facts, "", hidden_size=4096, layers=40) == ""
