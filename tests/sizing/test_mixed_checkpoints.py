"""Weights of checkpoints that llm-compressor stores in more than one way, with and without the size of their files."""

import json
import re
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from e2e.engines.vllm_options import SCRIPT
from inference_operator.models.catalogue import entry
from inference_operator.models.checkpoint import Weights
from inference_operator.models.facts import MatrixPart, ModelFacts
from inference_operator.models.model import model_facts
from inference_operator.models.slim import slim
from inference_operator.sizing.shape import ParallelSizes, Shape
from inference_operator.sizing.weights import rank_weights
from inference_operator.units import GIB

SCHEMES: dict[str, tuple[float, dict[str, Any]]] = {
    "fp8": (8.0, {"format": "float-quantized", "weights": {"num_bits": 8, "type": "float", "strategy": "channel"}}),
    "int8": (8.0, {"format": "int-quantized", "weights": {"num_bits": 8, "type": "int", "strategy": "channel"}}),
    "w4a16": (
        4.125,
        {"format": "pack-quantized", "weights": {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128}},
    ),
    "nvfp4": (
        4.5,
        {
            "format": "nvfp4-pack-quantized",
            "weights": {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16},
        },
    ),
}
MODELS = ("Qwen/Qwen3-30B-A3B", "Qwen/Qwen3-8B")
MIXES = [(model, *pair) for model, pair in product(MODELS, product(SCHEMES, SCHEMES)) if pair[0] != pair[1]]


def mixed(name: str, attention: str, rest: str) -> tuple[ModelFacts, int]:
    """The facts of a model with two ways of storage, and the size of its files."""
    known = entry(name)
    assert known
    plain = model_facts(known.config)
    assert isinstance(plain, ModelFacts)
    bits = {MatrixPart.ATTENTION: attention, MatrixPart.MLP: rest, MatrixPart.EXPERTS: rest}
    size = sum(
        matrix.elements * (SCHEMES[bits[matrix.part]][0] if matrix.part in bits else 16) / 8
        for matrix in plain.matrices
    )
    groups = {f"group_{index}": SCHEMES[scheme][1] for index, scheme in enumerate((attention, rest))}
    section = {"quant_method": "compressed-tensors", "format": "mixed-precision", "config_groups": groups}
    facts = model_facts({**known.config, "quantization_config": section}, Weights(round(size), "files"))
    assert isinstance(facts, ModelFacts), facts
    return facts, round(size)


@pytest.mark.parametrize(("name", "attention", "rest"), MIXES)
def test_weights_of_a_mixed_checkpoint_are_those_of_its_files(name: str, attention: str, rest: str) -> None:
    facts, size = mixed(name, attention, rest)
    (whole,) = rank_weights(facts, Shape(ParallelSizes(1)))
    assert whole.bytes == pytest.approx(size, rel=0.02)
    (half,) = rank_weights(facts, Shape(ParallelSizes(2)))
    assert half.bytes == pytest.approx(size / 2, rel=0.03)


BITS = {"fp8": 8.0, "int8": 8.0, "w4a16": 4.125, "nvfp4": 4.5, "mxfp4": 4.25, "w4a16-zeros": 4.15625}
WEIGHTS: dict[str, dict[str, Any]] = {
    **{name: scheme for name, (_, scheme) in SCHEMES.items()},
    "mxfp4": {"format": "mxfp4-pack-quantized", "weights": {"num_bits": 4, "type": "float", "group_size": 32}},
    "w4a16-zeros": {
        "format": "pack-quantized",
        "weights": {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128, "symmetric": False},
    },
}
WEIGHTS["w4a16"] = {**WEIGHTS["w4a16"], "weights": {**WEIGHTS["w4a16"]["weights"], "symmetric": True}}
ATTENTION, EXPERTS, DENSE = r"re:.*self_attn.*", r"re:.*mlp\.experts\..*", r"re:.*mlp\.(gate|up|gate_up|down)_proj.*"
PROJECTIONS = [f"self_attn.{one}_proj" for one in "qkvo"]
LAST = r"re:.*layers\.(28|29|30|31|32|33|34|35|47)\.mlp\.(gate|up|down)_proj"
GROUPS: dict[str, tuple[list[tuple[str, list[str]]], list[str]]] = {
    "experts alone": ([("w4a16", ["Linear"])], ["lm_head", ATTENTION, "re:.*shared_experts.*", DENSE]),
    "attention left out": ([("nvfp4", ["Linear"])], [ATTENTION, "lm_head", "re:.*mlp.gate$"]),
    "FP8 attention, 4-bit rest": ([("fp8", [ATTENTION, "lm_head"]), ("nvfp4", [EXPERTS, DENSE])], ["re:.*mlp.gate$"]),
    "the class after the names": ([("w4a16", ["Linear"]), ("fp8", [r"re:.*(q|k|v|o)_proj$"])], ["lm_head"]),
    "names of every layer": (
        [
            ("int8", [f"model.layers.{layer}.{one}" for layer in range(48) for one in PROJECTIONS]),
            ("mxfp4", ["Linear"]),
        ],
        ["lm_head"],
    ),
    "the first layers left out": (
        [("fp8", ["Linear"])],
        [f"model.layers.{layer}.{one}" for layer in range(3) for one in PROJECTIONS],
    ),
    "the last layers with more bits": ([("fp8", [ATTENTION, LAST]), ("nvfp4", [DENSE, EXPERTS])], ["lm_head"]),
    "8-bit integers and 4 bits with zero points": ([("int8", [ATTENTION]), ("w4a16-zeros", ["Linear"])], ["lm_head"]),
    "one group of two": ([("fp8", [r"re:.*self_attn\.[qkvo]_proj$"])], []),
    "experts by numbers": (
        [
            ("mxfp4", [r"re:^model\.layers\.\d+\.mlp\.experts\.\d+\.(?:gate_proj|up_proj|down_proj)$"]),
            ("fp8", ["Linear"]),
        ],
        ["lm_head"],
    ),
}
"""Groups with the layers that they name, and the layers that are left out, in the forms of public checkpoints."""


def modules(config: dict[str, Any]) -> Iterator[tuple[str, int]]:
    """Names and elements of the linear layers of a model of Qwen3's, as its checkpoint has them."""
    hidden, wide = config["hidden_size"], config.get("head_dim", 128)
    heads, kept = config["num_attention_heads"] * wide, config["num_key_value_heads"] * wide
    experts, width = config.get("num_experts", 0), config.get("moe_intermediate_size", config["intermediate_size"])
    for layer in range(config["num_hidden_layers"]):
        for name, rows in (("q", heads), ("k", kept), ("v", kept), ("o", heads)):
            yield f"model.layers.{layer}.self_attn.{name}_proj", rows * hidden
        for place in (f"experts.{expert}." for expert in range(experts)) if experts else ("",):
            for name in ("gate", "up", "down"):
                yield f"model.layers.{layer}.mlp.{place}{name}_proj", width * hidden


def named(module: str, names: list[str]) -> bool:
    return any(re.match(name[3:], module) if name.startswith("re:") else name == module for name in names)


def stored_bits(module: str, groups: list[tuple[str, list[str]]], ignored: list[str]) -> float:
    """Bits of an element as compressed-tensors 0.17 chooses them (`utils/match.py`): names first, then the class."""
    if named(module, ignored):
        return 16
    own = [scheme for scheme, names in groups if named(module, names)]
    whole = [scheme for scheme, names in groups if "Linear" in names]
    return next((BITS[scheme] for scheme in (*own, *whole)), 16)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("form", GROUPS)
def test_weights_of_a_mixed_checkpoint_are_counted_by_the_layers_that_its_groups_name(name: str, form: str) -> None:
    known = entry(name)
    assert known
    plain = model_facts(known.config)
    assert isinstance(plain, ModelFacts)
    groups, ignored = GROUPS[form]
    section = {
        "quant_method": "compressed-tensors",
        "format": "mixed-precision",
        "config_groups": {
            f"group_{n}": {**WEIGHTS[scheme], "targets": names} for n, (scheme, names) in enumerate(groups)
        },
        "ignore": ignored,
    }
    config = {**known.config, "quantization_config": section}
    elements = dict(modules(known.config))
    size = plain.weight_bytes + sum(
        count * (stored_bits(module, groups, ignored) - 16) / 8 for module, count in elements.items()
    )
    facts = model_facts(config)
    assert isinstance(facts, ModelFacts), facts
    assert facts.weight_bytes == pytest.approx(size, rel=0.02)
    assert model_facts(slim(config, None)) == facts
    assert len(json.dumps(slim(config, None)["quantization_config"])) < 2500


def test_the_counted_size_of_a_public_checkpoint_whose_experts_alone_have_4_bits_is_that_of_its_files() -> None:
    """554.32 GiB: kaito-project/kaito@056b8280b, presets/workspace/models/model_catalog.yaml."""
    lines = SCRIPT.joinpath("public_models.jsonl").read_text().splitlines()
    config = next(one for one in map(json.loads, lines) if one["model"] == "moonshotai/Kimi-K2.5")["files"][
        "config.json"
    ]
    facts = model_facts(config)
    assert isinstance(facts, ModelFacts)
    assert facts.weight_bytes / GIB == pytest.approx(554.32, rel=0.005)
