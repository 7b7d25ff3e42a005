"""The tables of vLLM's own answers: there is one of each kind for the version of the operator's images."""

from importlib.resources import files

import pytest

from inference_operator.engines import vllm
from inference_operator.engines.vllm.traits import served_facts
from inference_operator.models.catalogue import entry
from inference_operator.models.entry import entry_facts
from inference_operator.models.facts import ModelFacts
from inference_operator.settings import Settings
from inference_operator.sizing.choice import choose
from inference_operator.sizing.gpu_plan import GpuPlan, Infeasible
from inference_operator.sizing.shape import SizingInputs
from tests.sizing.pools import on_gpus, pool

KINDS = ("architectures", "attention", "encoders", "methods", "options", "parsers", "traits", "variables")


def test_the_version_of_each_default_image_has_every_table() -> None:
    for image in (Settings().gpu_engine_image, Settings().cpu_engine_image):
        version = image.rpartition(":")[2].removeprefix("v").partition("-")[0]
        for kind in KINDS:
            assert files(vllm).joinpath(f"{kind}-{version}.txt").read_text(encoding="utf-8"), (image, kind)


def served(name: str) -> ModelFacts:
    known = entry(name)
    assert known
    facts = entry_facts(known)
    assert isinstance(facts, ModelFacts)
    return served_facts(facts, [])


@pytest.mark.parametrize(
    ("requested", "field"), [(SizingInputs(pipeline=2), "pipeline"), (SizingInputs(nodes=2), "nodes")]
)
def test_an_architecture_without_stages_in_vllm_gets_no_pipeline(requested: SizingInputs, field: str) -> None:
    facts = served("BAAI/bge-m3")
    refused = choose(facts, pool("L4:8"), on_gpus, requested)
    assert isinstance(refused, Infeasible)
    assert refused.message == (
        f"spec.parallelism.{field}: The layers of this architecture cannot be divided over 2 stages. Use at most 1."
    )
    assert isinstance(choose(facts, pool("L4:8"), on_gpus, SizingInputs()), GpuPlan)
    divided = choose(served("Qwen/Qwen3-8B"), pool("L4:8"), on_gpus, requested)
    assert isinstance(divided, GpuPlan)
    assert divided.shape.parallel.pipeline == 2
