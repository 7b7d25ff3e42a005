"""Model facts from the config and the weight files of a repository."""

import json
from importlib.resources import files
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_operator.models import catalogue
from inference_operator.models.checkpoint import Weights, weights_of_files
from inference_operator.models.config import TEXT_CONFIGS, NotUnderstood
from inference_operator.models.facts import Attention, Kernel, ModelFacts
from inference_operator.models.model import model_facts
from inference_operator.units import GIB
from tests.testing.collected import entry, names
from tests.testing.for_each import for_each

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FIELDS = sorted({field for name in names() if (known := entry(name)) for field in known.config})
KEYS = st.sampled_from([*FIELDS, *TEXT_CONFIGS, "vision_config", "linear_attn_config", "counts"])
CONFIGS = st.dictionaries(KEYS, JSON | st.integers(0, 4096) | st.dictionaries(KEYS, JSON, max_size=4), max_size=16)


WHISPER = {"architectures": ["WhisperForConditionalGeneration"], "encoder_layers": 32, "decoder_layers": 32}


def facts(name: str) -> ModelFacts:
    known = entry(name)
    assert known
    found = model_facts(known.config, known.weights)
    assert isinstance(found, ModelFacts)
    return found


def counted(name: str) -> float:
    known = entry(name)
    assert known
    found = model_facts(known.config)
    assert isinstance(found, ModelFacts)
    return found.weight_bytes / GIB


@given(JSON | CONFIGS)
def test_any_json_config_gives_model_facts_or_a_refusal_that_names_the_field(document: object) -> None:
    found = model_facts(document)
    if isinstance(found, NotUnderstood):
        assert found.field.startswith("config.json")
        assert found.problem.endswith(".")
    else:
        assert found.weight_bytes > 0
        assert all(group.layers > 0 for group in found.groups)


@given(st.sampled_from([*names()]), KEYS, JSON)
def test_a_config_with_a_wrong_field_raises_no_exception(name: str, key: str, value: object) -> None:
    known = entry(name)
    assert known
    assert isinstance(model_facts({**known.config, key: value}, known.weights), ModelFacts | NotUnderstood)


@pytest.mark.parametrize("ratio", ["9" * 5000, "\u00b2", ""])
def test_a_ratio_of_a_compressed_cache_that_is_no_number_is_named(ratio: str) -> None:
    known = entry("deepseek-ai/DeepSeek-V4-Pro")
    assert known
    found = model_facts({**known.config, "compress_ratios": [ratio]})
    assert isinstance(found, NotUnderstood)
    assert found.field == "config.json.compress_ratios"


@given(JSON, st.dictionaries(st.text(max_size=8), st.integers(0, 100), max_size=3))
def test_any_weight_index_gives_a_size_or_a_refusal(index: object, sizes: dict[str, int]) -> None:
    assert isinstance(weights_of_files(sizes, index), Weights | NotUnderstood)


@for_each(names())
def test_every_collected_config_gives_model_facts(name: str) -> None:
    assert facts(name).weight_bytes > GIB / 10


def test_each_entry_of_the_catalogue_has_a_source_and_assumes_nothing() -> None:
    text = (files("inference_operator.models") / catalogue.FILE).read_text(encoding="utf-8")
    assert len(text) < 2**18
    found = json.loads(text)
    assert len(found) > 140
    for one in found:
        assert one["source"], one["model"]
        known = model_facts(one["config"])
        assert isinstance(known, ModelFacts), one["model"]
        assumed = set(known.assumptions) - set(known.tower.assumptions if known.tower else ())
        assert (assumed, known.context_stated) == (set(), True), one["model"]


@pytest.mark.parametrize(
    ("name", "gib"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", 14.96),
        ("meta-llama/Llama-3.3-70B-Instruct", 131.42),
        ("Qwen/Qwen2.5-72B-Instruct", 135.43),
        ("microsoft/phi-4", 27.31),
        ("deepseek-ai/DeepSeek-V2-Lite-Chat", 29.26),
        ("mistralai/Mixtral-8x7B-Instruct-v0.1", 86.99),
        ("openai/gpt-oss-20b", 12.82),
        ("MiniMaxAI/MiniMax-M2.7", 214.34),
        ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", 58.82),
        ("Qwen/Qwen3.5-4B", 8.68),
    ],
)
def test_the_computed_weights_of_a_model_are_close_to_its_checkpoint_size(name: str, gib: float) -> None:
    assert counted(name) == pytest.approx(gib, rel=0.025)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Qwen/Qwen3-8B", [(Attention.FULL, 36, 8, 256)]),
        ("deepseek-ai/DeepSeek-V2-Lite-Chat", [(Attention.LATENT, 27, 1, 576)]),
        ("google/gemma-3-27b-it", [(Attention.FULL, 10, 16, 256), (Attention.SLIDING, 52, 16, 256)]),
        ("openai/gpt-oss-20b", [(Attention.FULL, 12, 8, 128), (Attention.SLIDING, 12, 8, 128)]),
        ("meta-llama/Llama-4-Scout-17B-16E-Instruct", [(Attention.FULL, 12, 8, 256), (Attention.CHUNKED, 36, 8, 256)]),
        ("Qwen/Qwen3.5-4B", [(Attention.FULL, 8, 4, 512), (Attention.STATE, 24, 0, 0)]),
        ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", [(Attention.FULL, 6, 2, 256), (Attention.STATE, 23, 0, 0)]),
        ("google/gemma-4-31B-it", [(Attention.FULL, 10, 4, 1024), (Attention.SLIDING, 50, 16, 512)]),
    ],
)
def test_layers_of_a_model_are_grouped_by_their_attention_type(name: str, expected: list[tuple[Any, ...]]) -> None:
    assert [(one.attention, one.layers, one.kv_heads, one.elements) for one in facts(name).groups] == expected


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-BF16", 120),
        ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", 31.6),
        ("Qwen/Qwen3-30B-A3B", 30.5),
        ("Qwen/Qwen3-8B", 8.2),
    ],
)
def test_the_computed_number_of_parameters_matches_the_name_of_the_model(name: str, billions: float) -> None:
    assert sum(one.elements for one in facts(name).matrices) / 1e9 == pytest.approx(billions, rel=0.02)


@pytest.mark.parametrize(
    ("section", "kernel", "bits", "group"),
    [
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, Kernel.FP8_BLOCK, 8.002, 128),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, Kernel.AWQ, 4.156, 128),
        ({"quant_method": "gptq", "bits": 8, "group_size": -1}, Kernel.GPTQ, 8.156, 128),
        ({"quant_method": "mxfp4"}, Kernel.MXFP4, 4.25, 32),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, Kernel.NVFP4, 4.5, 16),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, Kernel.BITSANDBYTES, 4.5, 0),
        (
            {"quant_method": "compressed-tensors", "config_groups": {"0": {"weights": {"num_bits": 8}}}},
            Kernel.FP8,
            8,
            0,
        ),
        ({"quant_method": "compressed-tensors", "format": "int-quantized"}, Kernel.INT8, 8, 0),
        (
            {
                "quant_method": "compressed-tensors",
                "format": "pack-quantized",
                "config_groups": {
                    "group_0": {"weights": {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128}},
                    "group_1": {"weights": {"num_bits": 4, "type": "int", "strategy": "channel", "group_size": -1}},
                },
            },
            Kernel.GPTQ,
            4.156,
            128,
        ),
    ],
)
def test_the_quantization_of_a_config_gives_kernel_group_size_and_bits(
    section: dict[str, Any], kernel: Kernel, bits: float, group: int
) -> None:
    known = entry("Qwen/Qwen3-8B")
    assert known
    found = model_facts({**known.config, "quantization_config": section})
    assert isinstance(found, ModelFacts)
    assert (found.quantization.kernel, found.quantization.group) == (kernel, group)
    assert found.quantization.bits == pytest.approx(bits, abs=0.001)


def test_only_weight_files_that_the_index_names_are_counted() -> None:
    index = {"metadata": {"total_size": 1}, "weight_map": {"a": "1.safetensors", "b": "2.safetensors"}}
    sizes = {"1.safetensors": 3, "2.safetensors": 4, "original/1.safetensors": 100, "3.safetensors": 100}
    assert weights_of_files(sizes, index) == Weights(7, "2 files of model.safetensors.index.json")


def test_a_missing_weight_file_of_the_index_is_refused() -> None:
    found = weights_of_files({}, {"weight_map": {"a": "1.safetensors"}})
    assert isinstance(found, NotUnderstood)
    assert "1.safetensors" in found.message


def test_duplicate_weight_files_of_a_repository_are_not_counted_twice() -> None:
    assert facts("openai/gpt-oss-120b").weight_bytes / GIB == pytest.approx(60.7, abs=0.1)


def test_a_config_without_a_model_type_and_with_a_huge_vocabulary_shares_its_embeddings() -> None:
    known = entry("google/gemma-2-27b-it")
    assert known
    bare = {name: value for name, value in known.config.items() if name not in ("model_type", "architectures")}
    named, nameless = model_facts(known.config), model_facts(bare)
    assert isinstance(named, ModelFacts)
    assert isinstance(nameless, ModelFacts)
    assert nameless.weight_bytes == named.weight_bytes


def test_files_that_are_far_smaller_than_an_unquantised_config_counts_are_refused_with_both_sizes() -> None:
    whole = {**facts_config(), "quantization_config": None}
    size = counted_size(whole)
    refusal = model_facts(whole, Weights(round(size * 0.5), "4 files of model.safetensors.index.json"))
    assert isinstance(refusal, NotUnderstood)
    half, full = f"{size * 0.5 / GIB:.1f} GiB (4 files of model.safetensors.index.json)", f"{size / GIB:.1f} GiB"
    assert refusal.field == "config.json.quantization_config"
    assert refusal.problem.startswith(f"is missing, although the files have only {half}, and the matrices need {full}")
    stated = model_facts({**whole, "quantization_config": {"quant_method": "fp8"}}, Weights(round(size * 0.5), "x"))
    assert isinstance(stated, ModelFacts)


def test_the_size_of_files_counts_and_a_different_count_is_told() -> None:
    size = counted_size(facts_config())
    found = model_facts(facts_config(), Weights(2 * size, "2 files"))
    assert isinstance(found, ModelFacts)
    assert (found.weight_bytes, found.weights_from) == (
        2 * size,
        f"2 files; counted from config.json: {size / GIB:.1f} GiB",
    )


def facts_config() -> dict[str, object]:
    known = entry("Qwen/Qwen3-8B")
    assert known
    return known.config


def counted_size(config: dict[str, object]) -> int:
    found = model_facts(config)
    assert isinstance(found, ModelFacts)
    return found.weight_bytes


def test_a_model_with_a_decoder_behind_an_encoder_is_refused_as_such() -> None:
    found = model_facts({**WHISPER, "is_encoder_decoder": True})
    assert isinstance(found, NotUnderstood)
    assert found.message == (
        "config.json.is_encoder_decoder: is true: the operator sizes no model that has a decoder behind an encoder,"
        " such as Whisper. vLLM starts it without a check of its sizes where `spec.parallelism.tensor` is set."
    )


def test_attention_layers_may_be_listed_by_their_indexes() -> None:
    config = {
        "num_hidden_layers": 6,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "head_dim": 64,
        "hidden_size": 512,
    }
    mamba = {"attn_layer_indices": [2, 5], "mamba_n_heads": 16, "mamba_d_head": 64, "mamba_d_state": 128}
    found = model_facts({**config, **mamba, "vocab_size": 1000, "intermediate_size": 1024, "model_type": "bamba"})
    assert isinstance(found, ModelFacts)
    assert [(one.attention, one.layers) for one in found.groups] == [(Attention.FULL, 2), (Attention.STATE, 4)]


ZAMBA = {
    "architectures": ["Zamba2ForCausalLM"],
    "model_type": "zamba2",
    "hidden_size": 3584,
    "num_hidden_layers": 81,
    "num_attention_heads": 32,
    "intermediate_size": 14336,
    "vocab_size": 32000,
    "max_position_embeddings": 4096,
    "layers_block_type": [*["mamba"] * 68, *["hybrid"] * 13],
}


def test_small_files_are_refused_as_quantized_unless_layers_share_weights() -> None:
    files = Weights(round(13.7 * GIB), "4 files of model.safetensors.index.json")
    shared = model_facts(ZAMBA, files)
    assert isinstance(shared, ModelFacts)
    assert shared.weight_bytes == files.total_bytes
    refused = model_facts({**ZAMBA, "model_type": "new"}, files)
    assert isinstance(refused, NotUnderstood)
    assert refused.message.startswith(
        "config.json.quantization_config: is missing, although the files have only 13.7 GiB"
    )


INSTRUCT = (
    *(f"meta-llama/Llama-{name}-Instruct" for name in ("3.1-8B", "3.1-70B", "3.1-405B", "3.2-1B", "3.2-3B", "3.3-70B")),
    *(f"Qwen/Qwen2.5-{size}B-Instruct" for size in (0.5, 1.5, 3, 7, 14, 32, 72)),
    *(f"Qwen/Qwen2.5-{name}-Instruct" for name in ("Coder-7B", "Coder-32B", "VL-7B")),
    *(f"Qwen/Qwen3-{name}" for name in ("0.6B", "1.7B", "4B", "8B", "14B", "32B", "30B-A3B", "235B-A22B")),
    *(f"Qwen/Qwen3-{name}-Instruct-2507" for name in ("4B", "30B-A3B", "235B-A22B")),
    *(f"mistralai/Mistral-Small-{name}" for name in ("24B-Instruct-2501", "3.2-24B-Instruct-2506")),
    "mistralai/Mistral-7B-Instruct-v0.3",
    "mistralai/Mixtral-8x7B-Instruct-v0.1",
    *(f"google/gemma-3-{size}b-it" for size in (1, 4, 12, 27)),
    "openai/gpt-oss-20b",
    "openai/gpt-oss-120b",
    "microsoft/phi-4",
    "BAAI/bge-m3",
    "Qwen/Qwen3-Embedding-0.6B",
    "Qwen/Qwen3-Embedding-8B",
    "intfloat/multilingual-e5-large",
)


@pytest.mark.parametrize("name", INSTRUCT)
def test_the_catalogue_has_the_most_used_instruct_and_embedding_models(name: str) -> None:
    assert catalogue.entry(name) is not None


@pytest.mark.parametrize(
    ("name", "gib", "context"),
    [
        ("meta-llama/Llama-3.2-1B-Instruct", 2.30, 131_072),
        ("meta-llama/Llama-3.2-3B-Instruct", 5.98, 131_072),
        ("Qwen/Qwen2.5-0.5B-Instruct", 0.92, 32_768),
        ("Qwen/Qwen3-4B-Instruct-2507", 7.49, 262_144),
        ("mistralai/Mistral-Small-24B-Instruct-2501", 43.9, 32_768),
        ("Qwen/Qwen3-Embedding-8B", 14.1, 40_960),
    ],
)
def test_a_model_made_from_its_card_has_the_size_of_its_repository(name: str, gib: float, context: int) -> None:
    known = catalogue.entry(name)
    assert known
    found = model_facts(known.config, known.weights, known.side)
    assert isinstance(found, ModelFacts)
    assert found.weight_bytes / GIB == pytest.approx(gib, rel=0.01)
    assert found.context == context
