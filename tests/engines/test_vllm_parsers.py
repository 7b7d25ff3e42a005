"""Parsers of tool calls and reasoning: defaults by family, fields, and arguments of the user."""

import json
import re
from pathlib import Path

import pytest

from inference_operator.api.engine import EngineSpec
from inference_operator.api.reasons import Reason
from inference_operator.engines.process import Parsers
from inference_operator.engines.vllm.parsers import (
    FAMILIES,
    REASONING_PARSERS,
    TOOL_PARSERS,
    parser_arguments,
    parsers_of,
    refusal_of_parsers,
)
from tests.testing.for_each import for_each

IMAGE = "vllm/vllm-openai:v0.32.0"
RECIPES = json.loads((Path(__file__).parents[2] / "bench" / "data" / "recipes.json").read_text(encoding="utf-8"))
SAME = {"qwen3_xml": "qwen3_coder", "glm45": "glm47"}
"""Names of one parser (vLLM 0.32.0, `tool_parsers/__init__.py`, `reasoning/__init__.py`)."""
OTHER_THAN_THE_RECIPE = {
    r"DeepSeek-V3(-FP4)?$": "it does not think",
    r"MiMo-V2-Flash": "vLLM 0.32 has parsers of its own for it, which the recipe of MiMo-V2.5 names",
    r"Nemotron-3-Nano-(4|30)B": "the recipe loads a plugin, for which vLLM 0.32 has a parser",
    r"Nemotron-Nano-9B-v2": "the recipe loads a plugin",
    r"Nemotron-3-Super-120B-A12B-Base": "it does not chat",
}
"""Models whose parsers are not those of their recipe, and why."""
QWEN = Parsers("hermes", "qwen3")


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("Qwen/Qwen3-8B", ("hermes", "qwen3")),
        ("Qwen/Qwen3-235B-A22B-Thinking-2507-FP8", ("hermes", "qwen3")),
        ("Qwen/Qwen3-235B-A22B-Instruct-2507", ("hermes", "")),
        ("Qwen/Qwen3-Coder-480B-A35B-Instruct", ("qwen3_coder", "")),
        ("Qwen/Qwen3-Embedding-0.6B", ("", "")),
        ("Qwen/Qwen3-8B-Base", ("", "")),
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-32B", ("", "deepseek_r1")),
        ("deepseek-ai/DeepSeek-R1", ("deepseek_v3", "deepseek_r1")),
        ("deepseek-ai/DeepSeek-V3.1", ("deepseek_v31", "deepseek_v3")),
        ("meta-llama/Llama-3.3-70B-Instruct", ("llama3_json", "")),
        ("meta-llama/Llama-3.1-8B", ("", "")),
        ("openai/gpt-oss-120b", ("openai", "openai_gptoss")),
        ("moonshotai/Kimi-K2-Instruct", ("kimi_k2", "")),
        ("zai-org/GLM-4.7-FP8", ("glm47", "glm47")),
        ("mistralai/Mistral-Small-3.1-24B-Instruct-2503", ("mistral", "")),
        ("BAAI/bge-m3", ("", "")),
        ("google/translategemma-4b-it", ("", "")),
    ],
)
def test_a_model_gets_the_parsers_of_its_family(model: str, expected: tuple[str, str]) -> None:
    found = parsers_of(IMAGE, model=model, architecture="")
    assert (found.tool_call, found.reasoning) == expected


@for_each(RECIPES["models"], named=lambda recipe: recipe["model"])
def test_a_model_has_the_parsers_that_its_recipe_names(recipe: dict[str, str]) -> None:
    found = parsers_of(IMAGE, model=recipe["model"], architecture="")
    pairs = ((recipe["tool"], found.tool_call), (recipe["reasoning"], found.reasoning))
    differs = any(named and SAME.get(named, named) != SAME.get(own, own) for named, own in pairs)
    assert differs == any(re.search(model, recipe["model"]) for model in OTHER_THAN_THE_RECIPE), pairs


def test_every_familys_parsers_exist_in_this_release() -> None:
    assert {one.tool_call for one in FAMILIES} - {""} <= TOOL_PARSERS
    assert {one.reasoning for one in FAMILIES} - {""} <= REASONING_PARSERS


@pytest.mark.parametrize(
    ("engine", "expected"),
    [
        ({}, ["--enable-auto-tool-choice", "--tool-call-parser=hermes", "--reasoning-parser=qwen3"]),
        ({"toolCallParser": "None", "reasoningParser": "None"}, []),
        (
            {"toolCallParser": "mistral", "reasoningParser": "None"},
            ["--enable-auto-tool-choice", "--tool-call-parser=mistral"],
        ),
        ({"args": ["--tool-call-parser=xlam", "--enable-auto-tool-choice"]}, ["--reasoning-parser=qwen3"]),
        ({"args": ["--enable-auto-tool-choice"], "reasoningParser": "None"}, ["--tool-call-parser=hermes"]),
    ],
)
def test_fields_and_arguments_replace_the_parsers_of_the_family(engine: dict[str, object], expected: list[str]) -> None:
    assert list(parser_arguments(EngineSpec.model_validate(engine), QWEN)) == expected


def test_a_parser_that_is_set_by_field_and_argument_is_refused() -> None:
    refusal = refusal_of_parsers(EngineSpec(toolCallParser="xlam", args=("--tool-call-parser=xlam",)), image=IMAGE)
    assert refusal
    assert (refusal.reason, refusal.field) == (Reason.MANAGED_ARGUMENT, "spec.engine.toolCallParser")


def test_an_unknown_parser_is_refused_with_the_known_names() -> None:
    refusal = refusal_of_parsers(EngineSpec(reasoningParser="nosuch"), image=IMAGE)
    assert refusal
    assert refusal.reason is Reason.UNKNOWN_ARGUMENT
    assert "deepseek_r1" in refusal.cure
    assert refusal_of_parsers(EngineSpec(reasoningParser="nosuch"), image="mine:1") is None
