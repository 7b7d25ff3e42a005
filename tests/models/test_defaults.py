"""Values that a config.json leaves out and transformers fills in."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from inference_operator.manifest import Manifest
from inference_operator.models.facts import ModelFacts
from inference_operator.models.model import model_facts
from inference_operator.models.slim import slim

ROOT = Path(__file__).parents[2]
SCRIPT = "bench/transformers_defaults.py"
TABLE = ROOT / "operator/inference_operator/models/transformers_defaults.json"
GEMMA_3_4B: Manifest = {
    "architectures": ["Gemma3ForConditionalGeneration"],
    "model_type": "gemma3",
    "text_config": {
        "hidden_size": 2560,
        "intermediate_size": 10240,
        "model_type": "gemma3_text",
        "num_hidden_layers": 34,
        "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
        "sliding_window": 1024,
    },
    "vision_config": {"hidden_size": 1152, "num_hidden_layers": 27, "intermediate_size": 4304},
}
"""The form of google/gemma-3-4b-it: neither heads nor vocabulary nor context are stated."""


def test_a_config_that_states_neither_heads_nor_context_has_those_of_its_type() -> None:
    facts = model_facts(GEMMA_3_4B)
    assert isinstance(facts, ModelFacts)
    assert (facts.context, facts.heads, facts.kv_heads, facts.vocabulary) == (131072, 8, 4, 262208)
    assert facts.assumptions == ()


def test_a_null_of_a_config_is_no_default() -> None:
    text = {**GEMMA_3_4B["text_config"], "num_key_value_heads": None}
    facts = model_facts({**GEMMA_3_4B, "text_config": text})
    assert isinstance(facts, ModelFacts)
    assert facts.kv_heads == 8


def test_a_reduced_config_keeps_its_defaults_and_nulls() -> None:
    text = {**GEMMA_3_4B["text_config"], "num_key_value_heads": None}
    document = {**GEMMA_3_4B, "text_config": text}
    reduced = slim(document, None)
    assert "text_config" not in reduced
    assert model_facts(reduced) == model_facts(document)


@pytest.mark.full
def test_the_table_is_what_the_script_writes() -> None:
    uv = os.environ.get("UV") or shutil.which("uv")
    assert uv, "uv installs transformers: run the tests with `uv run pytest`"
    stored = TABLE.read_text(encoding="utf-8")
    release = f"transformers=={json.loads(stored)['transformers']}"
    command = (uv, "run", "--quiet", "--no-project", "--with", release, "python", SCRIPT)
    written = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout
    assert written == stored


def test_the_table_is_of_the_release_in_the_engine_image() -> None:
    pinned = (ROOT / "images/engine-cpu/requirements.txt").read_text(encoding="utf-8").split()
    assert f"transformers=={json.loads(TABLE.read_text(encoding='utf-8'))['transformers']}" in pinned
