"""A stored inspection gives the same facts as the whole config, and fits into a termination message."""

import json
from math import ceil
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_operator.jobs.inspection_result import parsed_result, result_text
from inference_operator.jobs.result import LIMIT, Cause, Failure
from inference_operator.models.checkpoint import Weights
from inference_operator.models.config import NotUnderstood
from inference_operator.models.entry import Entry
from inference_operator.models.facts import ModelFacts
from inference_operator.models.model import model_facts
from inference_operator.models.slim import slim
from tests.models.test_model import CONFIGS, JSON
from tests.testing.collected import entry, names
from tests.testing.for_each import for_each

WEIGHTS = Weights(2**44, "4 files of model.safetensors.index.json")
NOISE: dict[str, Any] = {
    "transformers_version": "5.0.0",
    "auto_map": {"AutoModel": "modeling.Model"},
    "id2label": {str(number): f"LABEL_{number}" for number in range(200)},
    "pruned_heads": {},
    "task_specific_params": None,
    "eos_token_id": [151645, 151643],
}
"""Config fields that sizing does not read."""
MODULES = [f"model.layers.{layer}.mlp.gate" for layer in range(100)]
QUANTIZED = {
    "quant_method": "compressed-tensors",
    "config_groups": {
        str(group): {"targets": MODULES, "weights": {"num_bits": 8, "type": "float", "group_size": None}}
        for group in range(3)
    },
    "ignore": MODULES,
    "kv_cache_scheme": {"num_bits": 8, "type": "float", "observer": "minmax"},
}


def kept(config: object, weights: Weights = WEIGHTS) -> tuple[Entry, str]:
    stored = Entry("org/model", f"hf://org/model@{'0' * 40}:config.json", slim(config, weights), weights, "0" * 40)
    text = result_text(stored)
    assert parsed_result(text) == stored
    return stored, text


def layered(config: dict[str, Any]) -> dict[str, Any]:
    """A config as on the hub: with a list of layers, where the catalogue has counts."""
    lists = {
        name: [
            key if name != "compress_ratios" else int(key)
            for key, times in value["counts"].items()
            for _ in range(times)
        ]
        for name, value in config.items()
        if isinstance(value, dict) and "counts" in value
    }
    return {**config, **lists}


@for_each(names())
def test_a_stored_inspection_keeps_the_facts_and_fits_its_limit(name: str) -> None:
    known = entry(name)
    assert known
    for config in (known.config, layered({**known.config, **NOISE}), {"text_config": known.config, **NOISE}):
        stored, text = kept(config)
        assert model_facts(stored.config, stored.weights) == model_facts(config, WEIGHTS)
        assert len(text) <= LIMIT
        assert not set(NOISE) & set(stored.config)


def test_a_stored_inspection_omits_lists_of_modules() -> None:
    known = entry("Qwen/Qwen3-8B")
    assert known
    config = {**known.config, "quantization_config": QUANTIZED}
    stored, text = kept(config)
    assert model_facts(stored.config, WEIGHTS) == model_facts(config, WEIGHTS)
    assert len(text) < LIMIT / 2


@given(CONFIGS)
def test_a_stored_inspection_keeps_the_facts_of_any_valid_config(config: dict[str, Any]) -> None:
    facts = model_facts(config, WEIGHTS)
    if isinstance(facts, ModelFacts):
        assert model_facts(slim(config, WEIGHTS), WEIGHTS) == facts


@given(st.sampled_from(names()), st.sampled_from(["layer_types", "vision_config", "quantization_config"]), JSON)
def test_an_invalid_field_of_a_stored_inspection_raises_no_exception(name: str, field: str, value: object) -> None:
    known = entry(name)
    assert known
    config = {**known.config, field: value}
    facts = model_facts(config, WEIGHTS)
    if isinstance(facts, ModelFacts):
        assert model_facts(slim(config, WEIGHTS), WEIGHTS) == facts


@given(st.text() | JSON.map(json.dumps) | st.text().map(lambda text: json.dumps({"error": text, "weights": text})))
def test_any_text_is_read_as_an_inspection_or_as_none(text: str) -> None:
    result = parsed_result(text)
    assert result is None or parsed_result(result_text(result)) == result


# A short text many times over: to draw 2,000 characters one by one takes most of a second.
LONG = st.text(min_size=1).map(lambda text: text * ceil(2000 / len(text)))


@given(st.sampled_from(Cause), st.text(), LONG, LONG)
def test_every_inspection_failure_fits_the_size_limit(cause: Cause, field: str, problem: str, cure: str) -> None:
    text = result_text(Failure(cause, NotUnderstood(field, problem, cure)))
    assert len(text.encode()) <= LIMIT
    again = parsed_result(text)
    assert isinstance(again, Failure)
    assert again.cause is cause


@pytest.mark.parametrize(("gib", "read"), [(1.5, 3 * 2**29), (0, 0), (-1, None), (1e308, None), ("much", None)])
def test_the_size_of_a_download_is_kept_and_read_only_as_a_size(gib: object, read: int | None) -> None:
    known = entry("Qwen/Qwen3-8B")
    assert known
    text = result_text(Entry("org/model", "hf://org/model", known.config, WEIGHTS, download_bytes=5 * 2**30))
    assert json.loads(text)["downloadGib"] == 5
    found = parsed_result(json.dumps({**json.loads(text), "downloadGib": gib}))
    assert (found.download_bytes if isinstance(found, Entry) else None) == read


def test_a_config_above_the_size_limit_becomes_a_failure() -> None:
    known = entry("Qwen/Qwen3-8B")
    assert known
    stored = Entry("org/model", "hf://org/model", {**known.config, "model_type": "x" * LIMIT}, WEIGHTS)
    failure = parsed_result(result_text(stored))
    assert isinstance(failure, Failure)
    assert failure.message.startswith(f"config.json: the fields that sizing needs are longer than {LIMIT} bytes.")
