"""Weights of checkpoints that llm-compressor stores in more than one way: their files tell the size of the whole."""

from itertools import product
from typing import Any

import pytest

from inference_operator.models.catalogue import entry
from inference_operator.models.checkpoint import Weights
from inference_operator.models.facts import MatrixPart, ModelFacts
from inference_operator.models.model import model_facts
from inference_operator.sizing.shape import ParallelSizes, Shape
from inference_operator.sizing.weights import rank_weights

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
