"""LoRA adapters of a hub, which an engine that asks no hub cannot load."""

import json

import pytest

from inference_operator.api.engine import EngineSpec
from inference_operator.api.model import ModelSpec
from inference_operator.api.reasons import Reason
from inference_operator.engines.vllm.vllm import Vllm

MODEL = ModelSpec(source="hf://org/model")
REMOTE = json.dumps({"name": "sql", "path": "org/sql", "base_model_name": "org/model"})
LOCAL = json.dumps({"name": "sql", "path": "/adapters/sql", "base_model_name": "org/model"})
OF_HUB = (
    ["--lora-modules", "sql=org/sql"],
    ["--lora-modules=sql=org/sql"],
    ["--lora_modules", "sql=org/sql"],
    ["--lora_modules=sql=org/sql"],
    ["--lora-mod", "sql=org/sql"],
    ["--lora-m=sql=org/sql"],
    ["--lora-modules", "a=/a", "b=org/b"],
    ["--lora-modules", "a=/a", "--seed=1", "--lora-modules", "b=org/b"],
    ["--lora-modules", "b=org/b", "--lora-modules", "a=/a"],
    ["--lora-modules", REMOTE],
    [f"--lora-modules={REMOTE}"],
    ["--lora-modules", LOCAL, REMOTE],
    ["--lora-modules", "a=/a", REMOTE],
    ["--lora-modules.name=a", "--lora-modules.path=org/a"],
    ["--lora_modules.path", "org/a", "--lora-modules.name", "a"],
    ["--lora-modules", "a=name=org/b"],
    ["--lora-modules", "a="],
    ["--lora-modules", "a=adapters/a"],
    ["--lora-modules", "a=~/a"],
)
LOCAL_ONLY = (
    ["--seed=1"],
    ["--enable-lora", "--max-loras=4"],
    ["--lora-modules", "a=/a"],
    ["--lora_modules=a=/a"],
    ["--lora-modules", "a=/a", "b=/b", LOCAL],
    [f"--lora-mod={LOCAL}"],
    ["--lora-modules.name=a", "--lora-modules.path=/a"],
    ["--lora-target-modules", "q_proj"],
)
REFUSED_BY_VLLM = (["--lora-modules"], ["--lora-modules", "[1, 2]"], ["--lora-modules", "{,"], ["--lora-modules", "x"])


def reason_of(args: list[str], *, cached: bool) -> Reason | None:
    refusal = Vllm().check_model(EngineSpec(args=args), MODEL, cached=cached)
    return refusal.reason if refusal else None


@pytest.mark.parametrize("args", OF_HUB, ids=" ".join)
def test_an_adapter_of_a_hub_is_refused_only_with_a_cache(args: list[str]) -> None:
    assert reason_of(args, cached=True) is Reason.INVALID_SPEC
    assert reason_of(args, cached=False) is None


@pytest.mark.parametrize("args", [*LOCAL_ONLY, *REFUSED_BY_VLLM], ids=" ".join)
def test_adapters_in_folders_are_accepted_with_a_cache(args: list[str]) -> None:
    assert reason_of(args, cached=True) is None


def test_the_refusal_names_the_argument_and_does_not_repeat_its_value() -> None:
    refusal = Vllm().check_model(EngineSpec(args=["--seed=1", "--lora-modules=a=org/secret"]), MODEL, cached=True)
    assert refusal is not None
    assert refusal.message == (
        "spec.engine.args[1]: `--lora-modules` names an adapter of a hub, and an engine with `spec.cache` asks no hub."
        " Name a folder of the container, with a path that begins with `/`, or remove `spec.cache`."
    )
