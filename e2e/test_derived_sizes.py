"""Every rendered command line through vLLM's own configuration classes, for public models on GPUs that are not there.

The configs are in `vllm_parser/public_models.jsonl`: files of public repositories, with commit and path, and configs
that transformers' own classes make from a model's published sizes. Long lists of layer names are shortened.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from e2e.engines import vllm_options
from inference_operator.cli.offline import offline_inputs
from inference_operator.engines.group.launch import MEMBER
from inference_operator.engines.group.options import Options
from inference_operator.engines.registry import ENGINES
from inference_operator.engines.vllm.architectures import SUPPORT
from inference_operator.hardware.kinds import GpuKind, kind_named
from inference_operator.manifest import STATEFUL_SET, Manifest
from inference_operator.model_files.files import Files, inspect_files
from inference_operator.models.entry import Entry
from inference_operator.models.facts import Kernel, ModelFacts
from inference_operator.models.model import model_facts
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.outcomes import Outcome, Planned
from inference_operator.settings import Settings
from inference_operator.sizing.plan import Plan
from inference_operator.sizing.shape import Shape
from inference_operator.units import GIB

MODELS = [json.loads(line) for line in vllm_options.SCRIPT.joinpath("public_models.jsonl").read_text().splitlines()]
REBUILT = "transformers 5.19.0"
"""The source of configs that are made from transformers' classes."""
QUICK = ("L4", "H100")
"""One GPU for each of vLLM's usual defaults for batches."""
ALL = ("T4", "L4", "A10G", "RTX-4090", "L40S", "A100-40GB", "A100-80GB", "H100", "H200", "B200")
T4 = ("T4",)
T4_CAPABILITY = (7, 5)
LEADER = "10.0.0.5"
"""The address of the first pod of an engine over several nodes."""
LEAST_MODELS = 60


@dataclass(frozen=True)
class Case:
    """A model on a kind of GPU, with its plan."""

    name: str
    facts: ModelFacts
    plan: Plan
    given: Manifest
    """What the script in the image gets."""


def entry_of(model: Manifest, folder: Path) -> Entry | None:
    """What an inspection finds in the files; None if the operator does not understand them."""
    facts = model_facts(model["files"]["config.json"])
    if not isinstance(facts, ModelFacts):
        return None
    for name, content in model["files"].items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))
    sizes = {name: (folder / name).stat().st_size for name in model["files"]}
    weights = {"model.safetensors": facts.weight_bytes}
    found = inspect_files(Files(model["model"], model["source"], sizes | weights, folder.joinpath, _no_header))
    return found if isinstance(found, Entry) else None


def _no_header(_name: str, _length: int) -> bytes:
    return b""


def decision(entry: Entry, gpu: GpuKind, engine: Manifest, parallelism: Manifest) -> Outcome:
    """The decision for a model on up to eight GPUs of one node."""
    sizes = {"nodes": 1, **parallelism}
    spec = {"model": {"source": "pvc://models/x"}, "engine": engine, "parallelism": sizes}
    metadata = {"name": "m", "namespace": "default"}
    raw = {"apiVersion": "inference-operator.dev/v1alpha1", "kind": "InferenceDeployment", "metadata": metadata}
    settings = Settings(gpu_offers=(f"{gpu.name}:8",))
    return outcome(offline_inputs({**raw, "spec": spec}, settings, ENGINES, model=entry))


def planned(entry: Entry, gpu: GpuKind, engine: Manifest, tensor: int | None = None) -> Planned | None:
    """The same, if the model fits and can run there; otherwise None."""
    found = decision(entry, gpu, engine, {} if tensor is None else {"tensor": tensor})
    return found if isinstance(found, Planned) else None


def cases(
    gpus: Sequence[str], folder: Path, engine: Manifest, only: Sequence[str], tensor: int | None
) -> Iterator[Case]:
    """Every model, or only some, on every kind of GPU on which it fits."""
    for model in (one for one in MODELS if not only or one["model"] in only):
        entry = entry_of(model, folder / model["model"])
        for name in gpus if entry else ():
            gpu = kind_named(name)
            assert gpu
            assert entry
            if found := planned(entry, gpu, engine, tensor):
                yield _case(model, gpu, found)


def _case(model: Manifest, gpu: GpuKind, found: Planned) -> Case:
    facts = found.model.facts if found.model else None
    assert isinstance(facts, ModelFacts)
    given = {**asked(model, gpu), "arguments": arguments_of(found)}
    return Case(f"{model['model']} on {gpu.name}", facts, found.plan.plan, given)


def arguments_of(found: Planned, rank: int = 0) -> list[str]:
    """The arguments of vLLM in the pod of one rank, with those that the program of a group adds."""
    engine = next(m for ref, m in found.desired.items() if ref.name.startswith("m-engine") and "template" in m["spec"])
    container = engine["spec"]["template"]["spec"]["containers"][0]
    if engine["kind"] != STATEFUL_SET.name:
        arguments: list[str] = container["args"]
        return arguments
    words = [*container["command"], *container["args"]]
    start = next(index for index, word in enumerate(words) if f'["{MEMBER}"]' in word) + 1
    pod = {"GROUP_RANK": str(rank), "POD_NAME": f"m-engine-0-{rank}", "POD_IP": "", "GROUP_SERVICE": ""}
    started = Options(words[start:], pod).started(LEADER)
    return started[started.index("serve") + 1 :]


def asked(model: Manifest, gpu: GpuKind) -> Manifest:
    """What the script in the image needs to know of a model, and of the kind of GPU."""
    answers = {
        "name": gpu.name,
        "memory_bytes": int(gpu.memory_gib * GIB),
        "capability": gpu.capability,
        "count": 8,
        "linked": gpu.linked,
    }
    return {"model": model["model"], "files": model["files"], "gpu": answers}


def said(case: Case) -> Manifest:
    """What the plan says vLLM will derive."""
    return {
        "max_model_len": case.plan.max_model_len,
        "max_num_seqs": case.plan.max_num_seqs,
        "max_num_batched_tokens": case.plan.max_num_batched_tokens,
        "chunked_prefill": not case.facts.is_encoder,
        "prefix_caching": not case.facts.is_encoder,
        "runner": "pooling" if case.facts.is_pooling else "generate",
        "quantized": case.facts.quantization.kernel is not Kernel.NONE,
        "in_blocks": case.facts.quantization.kernel is Kernel.FP8_BLOCK,
        "whole_encoder": case.plan.whole_encoder,
    }


def differences(found: Sequence[Case], results: Sequence[Manifest]) -> list[str]:
    """A line for each case that vLLM refuses, or about which the plan says something else."""
    lines = []
    for case, result in zip(found, results, strict=True):
        if "error" in result:
            lines.append(f"{case.name}: {case.given['arguments']}: {result['error']}")
            continue
        whole = result["encoder_mode"] == "data"
        derived = {**result, "quantized": result["quantization"] is not None, "whole_encoder": whole}
        lines += [f"{case.name}: {k}: plan {v}, vLLM {derived[k]}" for k, v in said(case).items() if derived[k] != v]
    return lines


class Compared(NamedTuple):
    """Cases, and what vLLM derives from each."""

    cases: list[Case]
    results: list[Manifest]


def compared(gpus: Sequence[str], folder: Path, engine: Manifest | None = None) -> Compared:
    """Every model on these kinds of GPU."""
    found = list(cases(gpus, folder / "models", engine or {}, (), None))
    return Compared(found, vllm_options.derived([case.given for case in found], folder, tables=False)["derived"])


def test_there_are_enough_public_models_of_every_kind() -> None:
    sources = Counter(model["source"] == REBUILT for model in MODELS)
    assert sources[False] >= LEAST_MODELS
    assert sources[True] > 0


@dataclass(frozen=True)
class Derived:
    """What vLLM derives in one run, since it takes longest to start: cases with their results, and its tables."""

    quick: Compared
    """All models on two kinds of GPU."""
    whole: Compared
    """A model whose encoder has fewer heads than there are GPUs, in two."""
    t4: Compared
    """All models on a GPU without bfloat16."""
    tables: dict[str, Any]


@pytest.fixture(scope="module")
def derived(tmp_path_factory: pytest.TempPathFactory) -> Derived:
    """The comparisons of this module."""
    folder = tmp_path_factory.mktemp("derived")
    every = [
        list(cases(gpus, folder / "models", {}, only, tensor))
        for gpus, only, tensor in ((QUICK, (), None), (("A100-80GB", "H100"), ("zai-org/GLM-4.5V",), 8), (T4, (), None))
    ]
    tables = vllm_options.derived([case.given for listed in every for case in listed], folder)
    results = iter(tables["derived"])
    quick, whole, t4 = (Compared(listed, [next(results) for _ in listed]) for listed in every)
    return Derived(quick, whole, t4, tables)


def test_vllm_accepts_every_command_line_and_derives_what_the_plan_says(derived: Derived) -> None:
    found, results = derived.quick
    assert len({case.given["model"] for case in found}) >= LEAST_MODELS
    assert differences(found, results) == []


def test_the_operators_tables_are_those_of_vllm(derived: Derived) -> None:
    for path, text in vllm_options.tables(derived.tables).items():
        assert path.read_text() == text, f"{path.name}: `python -m e2e.engines.vllm_options` writes it"


def test_an_encoder_whose_heads_the_size_does_not_divide_is_whole_in_vllm(derived: Derived) -> None:
    found, results = derived.whole
    assert differences(found, results) == []
    assert [result["encoder_mode"] for result in results] == ["data", "data"]
    assert {case.facts.tower.heads for case in found if case.facts.tower} == {12}


def test_vllm_takes_float32_for_models_that_forbid_float16_on_a_gpu_without_bfloat16(derived: Derived) -> None:
    found, results = derived.t4
    assert differences(found, results) == []
    named = {case.facts.model_type for case in found}
    assert named & SUPPORT.without_float16, "the test says nothing without such a model"
    for case, result in zip(found, results, strict=True):
        wide = SUPPORT.as_run(case.facts, Shape(), T4_CAPABILITY).element_bytes or case.facts.element_bytes
        assert result["element_bytes"] == wide, case.name


@pytest.mark.full
def test_vllm_accepts_every_command_line_with_a_profile(tmp_path: Path) -> None:
    for profile in ("Throughput", "Latency", "Smallest"):
        found, results = compared(QUICK, tmp_path / profile, {"profile": profile})
        assert differences(found, results) == [], profile


@pytest.mark.full
def test_vllm_accepts_every_command_line_on_every_kind_of_gpu(tmp_path: Path) -> None:
    found, results = compared(ALL, tmp_path)
    assert differences(found, results) == []


@pytest.mark.full
@pytest.mark.parametrize("engine", [{"maxNumBatchedTokens": 512}, {"maxNumSeqs": 4096}, {"maxModelLen": 256}], ids=str)
def test_vllm_accepts_every_command_line_with_one_requested_size(tmp_path: Path, engine: Manifest) -> None:
    found, results = compared(ALL, tmp_path, engine)
    assert differences(found, results) == []
