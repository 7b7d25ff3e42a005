"""Every engine keeps the contract: those of the release, and those that only tests have."""

import inspect
from dataclasses import replace
from pathlib import Path

import pytest

from inference_operator.api.engine_kind import EngineKind
from inference_operator.engines.base import Engine
from inference_operator.engines.options import ImportedArguments
from inference_operator.engines.registry import ENGINES, VLLM
from tests.engines.contract import FACTS, EngineContract, Subject
from tests.testing.preallocating_engine import PREALLOCATING, Preallocating
from tests.testing.second_engine import ECHO, Echo

PAGE = Path(__file__).with_name("vllm-0.32.0-metrics.txt").read_text()
TRANSFORMERS = str(EngineKind.TRANSFORMERS)
LLAMA_CPP = str(EngineKind.LLAMA_CPP)
LLAMA_CPP_PAGE = Path(__file__).with_name("llama_cpp-0.7.0-metrics.txt").read_text()
SGLANG = str(EngineKind.SGLANG)
SGLANG_PAGE = Path(__file__).with_name("sglang-0.5.23-metrics.txt").read_text()
"""Written by SGLang's own collectors (`srt/observability/metrics_collector.py`), without a GPU."""
IN_GGUF = replace(FACTS, architecture="qwen3", weights_from="qwen3-8b-bf16.gguf")
TRANSFORMERS_PAGE = Path(__file__).with_name("transformers-5.19.0-metrics.txt").read_text()
SUBJECTS = (
    Subject(VLLM, ENGINES[VLLM], PAGE, running=2),
    Subject(TRANSFORMERS, ENGINES[TRANSFORMERS], TRANSFORMERS_PAGE, running=1),
    Subject(LLAMA_CPP, ENGINES[LLAMA_CPP], LLAMA_CPP_PAGE, running=2, facts=IN_GGUF),
    Subject(SGLANG, ENGINES[SGLANG], SGLANG_PAGE, running=2),
    Subject(ECHO, Echo(), "echoes 3\n", running=3),
    Subject(PREALLOCATING, Preallocating()),
)


@pytest.fixture(params=SUBJECTS, ids=lambda subject: subject.name, scope="module")
def subject(request: pytest.FixtureRequest) -> Subject:
    assert isinstance(request.param, Subject)
    return request.param


class TestContract(EngineContract):
    """The contract, for each engine."""


def test_every_engine_of_the_release_is_a_subject() -> None:
    assert set(ENGINES.by_name) <= {one.name for one in SUBJECTS}


def test_an_engine_that_does_not_state_what_it_must_cannot_be_made() -> None:
    class Unstated(Engine):
        pass

    with pytest.raises(TypeError, match=r"check.*cpu_needs.*image.*on_gpus.*option_classes.*process"):
        Unstated()  # type: ignore[abstract]


def test_arguments_of_an_engine_that_knows_no_fields_for_them_stay_arguments() -> None:
    assert Echo().imported(["--delay=1"]) == ImportedArguments(kept=["--delay=1"])


def test_no_module_outside_its_folder_imports_an_engine_in_an_example() -> None:
    """The linter sees no imports in docstrings."""
    folders = [Path(inspect.getfile(type(engine))).parent for engine in ENGINES.by_name.values()]
    package = folders[0].parents[1]
    importing = {
        str(module.relative_to(package))
        for folder in folders
        for module in package.rglob("*.py")
        if folder not in module.parents and f"{package.name}.engines.{folder.name}." in module.read_text()
    }
    assert importing == {"engines/registry.py"}


@pytest.mark.parametrize(("engine", "reads"), [(ENGINES[LLAMA_CPP], True), (ENGINES[VLLM], False)])
def test_a_model_in_a_format_that_the_engine_does_not_read_is_refused(engine: Engine, reads: bool) -> None:  # noqa: FBT001 - a parameter
    refusal = engine.check_format(replace(FACTS, weights_from="1 .gguf files"))
    said = "The weights are GGUF, which this engine does not read."
    said += " Use a model whose weights are pickle files, safetensors."
    assert (refusal.message if refusal else "") == ("" if reads else f"spec.model.source: {said}")
