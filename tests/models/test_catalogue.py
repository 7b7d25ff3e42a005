"""The catalogue: sizes of its models, and where its configs come from."""

import re
from pathlib import Path

import pytest

from inference_operator.models.catalogue import entry, names
from inference_operator.models.entry import entry_facts
from inference_operator.models.facts import ModelFacts
from tests.testing.for_each import for_each

IN_NAME = re.compile(r"(?<![a-z0-9.])(\d+(?:\.\d+)?)([mbt])(?![a-z])", re.IGNORECASE)
"""The size in a name: `8B`, `2.4T`; not the active parameters in `A3B`."""
BILLIONS = {"m": 0.001, "b": 1, "t": 1000}
STATED = {
    r"DeepSeek-(R1(?!-Distill)|V3)": 671,
    r"DeepSeek-V2-Lite": 15.7,
    r"DeepSeek-V4-Flash": 284,
    r"DeepSeek-V4-Pro": 1600,
    r"GLM-4\.5(-Air|V)": 106,
    r"GLM-4\.[5-7]": 355,
    r"GLM-5": 744,
    r"Kimi-K2": 1026,
    r"Kimi-K3": 2800,
    r"Llama-3\.2-1B": 1.24,
    r"Llama-4-Maverick": 400,
    r"Llama-4-Scout": 109,
    r"MiMo-V2-Flash": 309,
    r"MiniLM-L6": 0.0227,
    r"MiniMax-M2": 229,
    r"MiniMax-M3": 428,
    r"Mistral-Large-Instruct-2407": 123,
    r"Mistral-Nemo": 12.2,
    r"Mixtral-8x22B": 141,
    r"Mixtral-8x7B": 46.7,
    r"Phi-(3\.5|4)-mini": 3.8,
    r"bge-large-en-v1\.5": 0.335,
    r"command-r7b": 8.03,
    r"bge-(reranker-v2-)?m3": 0.568,
    r"granite-4\.0-h-small": 32,
    r"gte-modernbert-base": 0.149,
    r"multilingual-e5-large": 0.56,
    r"[Pp]hi-4(-reasoning)?$": 14.7,
}
"""Billions of parameters on the model's card, for names without a size or with another one."""
MOST_DEVIATION = 0.12


def stated(name: str) -> float:
    """Billions of parameters that a model has, as its card or its name says."""
    for pattern, billions in STATED.items():
        if re.search(pattern, name):
            return billions
    size = IN_NAME.search(name.partition("/")[2])
    assert size, f"{name}: no size in its name; add that of its card"
    return float(size[1]) * BILLIONS[size[2].lower()]


@for_each(names())
def test_as_many_parameters_are_counted_as_the_name_of_a_model_says(name: str) -> None:
    known = entry(name)
    assert known
    facts = entry_facts(known)
    if "whisper" in name:
        assert not isinstance(facts, ModelFacts)
        return
    assert isinstance(facts, ModelFacts), facts
    counted = sum(matrix.elements for matrix in facts.matrices) / 1e9
    assert counted == pytest.approx(stated(name), rel=MOST_DEVIATION)


def test_no_model_of_the_catalogue_lacks_its_context() -> None:
    facts = {name: entry_facts(known) for name in names() if (known := entry(name))}
    assert not [name for name, each in facts.items() if isinstance(each, ModelFacts) and not each.context_stated]


@for_each(["CHANGELOG.md", "docs/explanation/scope.md"])
def test_a_page_says_how_many_models_the_catalogue_has(page: str) -> None:
    assert f"{len(names())} public models" in (Path(__file__).parents[2] / page).read_text(encoding="utf-8")
