"""FP8 KV caches that recipes set, and the advice about them and about quantized checkpoints of a model."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from inference_operator.api.engine import EngineSpec
from inference_operator.api.reasons import ConditionType
from inference_operator.cli.arguments import named_gpus
from inference_operator.engines.vllm.precision import RECIPE_CACHES
from inference_operator.engines.vllm.vllm import Vllm
from inference_operator.manifest import Manifest
from inference_operator.models.catalogue import entry, names, siblings
from inference_operator.models.entry import entry_facts
from inference_operator.models.facts import Kernel, ModelFacts
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.outcomes import Planned
from inference_operator.roles.pinned_plan import PLAN_ANNOTATION
from inference_operator.settings import Settings
from inference_operator.sizing.plan import Plan
from inference_operator.status.report import report
from inference_operator.units import GIB
from tests.testing.builders import inference_deployment, inputs
from tests.testing.for_each import for_each

RECIPES = json.loads((Path(__file__).parents[2] / "bench" / "data" / "recipes.json").read_text(encoding="utf-8"))
ULTRA, GLM = "nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16", "zai-org/GLM-5.2-FP8"
MODELOPT, V4 = "nvidia/DeepSeek-V3.1-NVFP4", "deepseek-ai/DeepSeek-V4-Flash"
V4_EXPERTS = "deepseek-ai/DeepSeek-V4"
"""Its experts have four bits themselves."""
FILES_GIB = {
    "Qwen/Qwen3-8B-AWQ": 5.68,
    "Qwen/Qwen3.6-35B-A3B-FP8": 34.90,
    "zai-org/GLM-5.2-FP8": 703.75,
    "nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-NVFP4": 328.13,
}
"""All that kaito-project/kaito@056b8280b has of them (presets/workspace/models/model_catalog.yaml)."""
FP8_LINE = "`spec.engine.kvCacheDtype: fp8` would"


def planned(raw: Manifest, gpus: str, **more: Any) -> Planned:  # noqa: ANN401 - fields of inputs
    found = outcome(inputs(raw, nodes=[], settings=Settings(gpu_offers=(gpus,)), **more))
    assert isinstance(found, Planned), found
    return found


def plan_of(model: str, gpus: str, **engine: object) -> tuple[Plan, list[str]]:
    """The plan, and the engine's arguments for its KV cache."""
    found = planned(inference_deployment(source=f"hf://{model}", engine=engine), gpus)
    objects = [one for one in found.desired.values() if one["kind"] in ("Deployment", "StatefulSet")]
    pods = [container for one in objects for container in one["spec"]["template"]["spec"]["containers"]]
    return found.plan.plan, sorted({a for pod in pods for a in pod.get("args", ()) if "--kv-cache-dtype" in a})


@pytest.mark.parametrize(
    ("model", "gpus", "engine", "expected"),
    [
        (ULTRA, "H100:8", {}, ["--kv-cache-dtype=fp8"]),
        (ULTRA, "H100:8", {"kvCacheDtype": "bfloat16"}, ["--kv-cache-dtype=bfloat16"]),
        (GLM, "B200:8", {}, ["--kv-cache-dtype=fp8_e4m3"]),
        (GLM, "H200:8", {}, ["--kv-cache-dtype=fp8"]),
        (MODELOPT, "H200:8", {}, []),
        (V4, "H200:8", {}, []),
        ("Qwen/Qwen3-8B", "H100:8", {}, []),
    ],
)
def test_a_recipe_sets_the_kv_cache_of_a_new_plan_where_the_gpus_have_a_kernel(
    model: str, gpus: str, engine: dict[str, object], expected: list[str]
) -> None:
    plan, arguments = plan_of(model, gpus, **engine)
    assert arguments == expected
    assert plan.kv_cache_dtype == ("" if engine else "".join(expected).partition("=")[2])


def test_a_gpu_without_a_kernel_keeps_the_models_type() -> None:
    engine, spec = Vllm(), EngineSpec()
    found = entry("deepseek-ai/DeepSeek-V2-Lite")
    facts = entry_facts(found) if found else None
    assert isinstance(facts, ModelFacts)
    for gpus, kept in (("A100-80GB", ""), ("H100", "fp8")):
        served = replace(engine.as_served(facts, spec, "org/model"), recipe_cache="fp8")
        assert engine.on_gpus("", named_gpus(gpus)).budget(served, engine.shape(spec)).recipe_cache == kept


def test_a_pinned_plan_without_a_recipe_stays() -> None:
    raw = inference_deployment(source=f"hf://{ULTRA}")
    first = planned(raw, "H100:8")
    text = PLAN_ANNOTATION.write(replace(first.plan, plan=replace(first.plan.plan, kv_cache_dtype="", advice=())))
    children = json.loads(json.dumps(list(first.desired.values())))
    for child in children:
        if child["metadata"].get("annotations", {}).get(PLAN_ANNOTATION.key):
            child["metadata"]["annotations"][PLAN_ANNOTATION.key] = text
    again = planned(raw, "H100:8", children=children)
    assert (again.plan.plan.kv_cache_dtype, again.plan.plan.advice) == ("", ())


def test_the_table_of_kv_caches_is_that_of_the_recipes() -> None:
    assert {one["model"]: one["kv"] for one in RECIPES["models"] if "kv" in one} == RECIPE_CACHES


def advice_of(model: str, gpus: str, **engine: object) -> str:
    raw = inference_deployment(source=f"hf://{model}", engine=engine)
    seen = inputs(raw, nodes=[], settings=Settings(gpu_offers=(gpus,)))
    sized = report(seen, outcome(seen), []).status.condition(ConditionType.SIZED)
    assert sized
    return sized.message


@pytest.mark.parametrize(
    ("model", "gpus", "engine", "words", "absent"),
    [
        ("Qwen/Qwen3-32B", "H100:8", {}, "`Qwen/Qwen3-32B-FP8`, the same model in FP8, would need 1 x", FP8_LINE),
        ("Qwen/Qwen3-8B", "L4:8", {}, f"{FP8_LINE} carry about 1.2 times the requests", "Qwen3-8B-FP8"),
        ("Qwen/Qwen3-8B", "L4:8", {"kvCacheDtype": "fp8"}, "Qwen3-8B-FP8", FP8_LINE),
        ("Qwen/Qwen3-8B-FP8", "H100:8", {}, "One engine carries", "the same model in"),
        ("google/gemma-3-27b-it", "L4:8", {}, "One engine carries", FP8_LINE),
    ],
)
def test_sized_says_what_would_need_less_and_nothing_else(
    model: str, gpus: str, engine: dict[str, object], words: str, absent: str
) -> None:
    found = advice_of(model, gpus, **engine)
    assert words in found
    assert absent not in found


@for_each([(base, name) for base in names() for name in siblings(base)])
def test_siblings_are_smaller_checkpoints_of_the_same_model(pair: tuple[str, str]) -> None:
    base, name = pair
    facts, other = (entry_facts(found) for each in (base, name) if (found := entry(each)))
    assert isinstance(facts, ModelFacts)
    assert isinstance(other, ModelFacts)
    sizes = ("layers", "hidden_size", "heads", "vocabulary")
    assert [getattr(facts, size) for size in sizes] == [getattr(other, size) for size in sizes]
    assert other.quantization.kernel is not Kernel.NONE
    assert other.weight_bytes < facts.weight_bytes or base.startswith(V4_EXPERTS)
    if published := FILES_GIB.get(name):
        assert other.weight_bytes / GIB == pytest.approx(published, rel=0.055)


def test_siblings_of_the_catalogue_that_recipes_name_are_found() -> None:
    known, precisions = {name.lower() for name in names()}, {"fp8", "nvfp4", "int4"}
    stated = [
        (one["of"], one["model"]) for one in RECIPES["models"] if one.get("precision") in precisions and "of" in one
    ]
    here = [(base, name) for base, name in stated if {base.lower(), name.lower()} <= known]
    unlike = [(base, name) for base, name in here if name.lower() not in {one.lower() for one in siblings(base)}]
    assert len(here) > 25
    assert unlike == [
        ("google/gemma-4-26B-A4B-it", "nvidia/Gemma-4-26B-A4B-NVFP4"),  # its name lacks "it"
        ("Qwen/Qwen3-235B-A22B-Instruct-2507", "Qwen/Qwen3-235B-A22B-FP8"),  # an earlier model
        ("deepseek-ai/DeepSeek-R1", "deepseek-ai/DeepSeek-R1-0528"),  # a later model
    ]
