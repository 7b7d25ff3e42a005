import re
from pathlib import Path

import pytest
import yaml

from inference_operator.api.model_gateway import MODEL_GATEWAY_API
from inference_operator.api.reasons import ConditionType
from inference_operator.api.refusal import Refusal
from inference_operator.cli.arguments import settings_with
from inference_operator.cli.offline import model_of, offline_inputs
from inference_operator.engines.registry import ENGINES
from inference_operator.manifest import DEPLOYMENT
from inference_operator.models.catalogue import entry
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.outcomes import Planned
from inference_operator.status.report import report

SAMPLES = sorted((Path(__file__).parents[2] / "manifests" / "samples").glob("*.yaml"))


README = (SAMPLES[0].parent / "README.md").read_text(encoding="utf-8")
OPTIONS = dict(re.findall(r"(?m)^\| \[([\w-]+)\]\(.*\| (?:`([^`]*)` )?\|$", README))
"""The options of `infd plan` for each sample: the GPUs of somebody who takes it, and the facts of what no hub has."""
HIGH_THROUGHPUT = ["--max-num-seqs=256", "--max-num-batched-tokens=16384", "--gpu-memory-utilization=0.95"]
SIZES = {
    "quickstart": [
        "--tensor-parallel-size=1",
        "--max-model-len=25600",
        "--gpu-memory-utilization=0.92",
    ],
    "llama-70b-throughput": ["--tensor-parallel-size=8", *HIGH_THROUGHPUT],
    "llama-70b-gptq-int8": [
        "--tensor-parallel-size=8",
        *HIGH_THROUGHPUT,
        "--quantization=gptq",
    ],
    "awq-70b-offload": [
        "--tensor-parallel-size=1",
        "--max-model-len=4096",
        "--max-num-seqs=4",
        "--gpu-memory-utilization=0.92",
        '--limit-mm-per-prompt={"video":0}',
        "--cpu-offload-gb=24",
    ],
}
"""What vLLM is told of sizes, exactly."""
GPUS = {
    "cpu": 0,
    "cpu-oci": 0,
    "quickstart": 1,
    "small-gpu": 1,
    "rtx-4090": 1,
    "llama-70b-tp8": 16,
    "llama-70b-throughput": 8,
    "llama-70b-gptq-int8": 8,
    "fp8": 1,
    "awq-70b-offload": 1,
    "prefix-affinity": 2,
    "vision": 1,
    "air-gapped": 1,
    "tenant": 1,
    "exposed": 1,
    "zero": 1,
}
"""GPUs of all engines that the list of samples names as needed."""


def planned(sample: Path, options: str = "") -> Planned:
    words = (options or OPTIONS[sample.stem]).split()
    chosen = dict(zip(words[::2], words[1::2], strict=True))
    settings = settings_with([chosen["--gpu"]] if "--gpu" in chosen else [])
    model = model_of(str(sample.parent / chosen["--model"])) if "--model" in chosen else None
    result = outcome(offline_inputs(yaml.safe_load(sample.read_text()), settings, ENGINES, model=model))
    assert isinstance(result, Planned), result
    return result


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_a_sample_that_no_hub_has_carries_the_command_of_its_plan(sample: Path) -> None:
    text, options = sample.read_text(), OPTIONS[sample.stem]
    source = yaml.safe_load(text)["spec"]["model"]["source"]
    is_hubs = source.startswith("hf://") and "GGUF" not in source
    assert is_hubs == ("--model" not in options)
    assert is_hubs or f"infd plan -f {sample.name} {options}\n" in text


def test_the_facts_of_a_sample_are_those_of_the_catalogue() -> None:
    for file, name in {"qwen3-8b": "Qwen/Qwen3-8B", "llama-3-70b-gptq-int8": "meta-llama/Meta-Llama-3-70B"}.items():
        stored, known = model_of(str(SAMPLES[0].parent / "models" / f"{file}.json")), entry(name)
        assert stored
        assert known
        assert {**stored.config, "quantization_config": None} == {**known.config, "quantization_config": None}


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_every_sample_manifest_gives_a_plan(sample: Path) -> None:
    assert planned(sample).plan.plan.device


@pytest.mark.parametrize("name", SIZES)
def test_the_sizes_of_a_sample_are_rendered_exactly(name: str) -> None:
    (sample,) = (path for path in SAMPLES if path.stem == name)
    found = planned(sample).desired.items()
    (engines,) = (m for ref, m in found if ref.name.endswith("-engine") and ref.kind == DEPLOYMENT)
    args = engines["spec"]["template"]["spec"]["containers"][0]["args"]
    start = args.index(SIZES[name][0])
    assert args[start : start + len(SIZES[name])] == SIZES[name]
    assert args[start + len(SIZES[name])].startswith(("--enable-auto-tool-choice", "--allowed-media-domains"))


@pytest.mark.parametrize(("name", "gpus"), GPUS.items())
def test_a_sample_needs_as_many_gpus_as_the_list_says(name: str, gpus: int) -> None:
    (sample,) = (path for path in SAMPLES if path.stem == name)
    found = planned(sample)
    (engines,) = (m for ref, m in found.desired.items() if ref.name.endswith("-engine") and m["kind"] == "Deployment")
    assert found.plan.plan.gpus_per_replica * engines["spec"]["replicas"] == gpus


def test_the_quickstart_states_its_gpu_and_the_command_of_its_plan() -> None:
    page = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    assert "a GPU with 24 GB" in page
    assert f"`infd plan -f manifests/samples/first.yaml {OPTIONS['first']}`" in page


@pytest.mark.parametrize("gpu", ["L4", "A10G", "RTX-4090", "RTX-3090"])
def test_the_first_status_of_a_newcomer_finds_no_fault_with_a_gpu_of_24_gigabytes(gpu: str) -> None:
    (sample,) = (path for path in SAMPLES if path.stem == "first")
    inputs = offline_inputs(yaml.safe_load(sample.read_text()), settings_with([f"{gpu}:1"]), ENGINES)
    sized = report(inputs, outcome(inputs), []).status.condition(ConditionType.SIZED)
    assert sized
    assert "of 40,960 tokens" in sized.message, "the model's own length"
    assert not re.search("less than the target|slow for|Larger GPUs|faster GPUs", sized.message)


def test_a_sample_with_nothing_but_the_model_and_its_gpu_takes_two_gpus_of_a_node_that_has_them() -> None:
    (sample,) = (path for path in SAMPLES if path.stem == "rtx-4090")
    assert planned(sample, "--gpu RTX-4090:2").plan.plan.gpus_per_replica == 2
    assert "takes two" in sample.read_text()


GATEWAYS = sorted((SAMPLES[0].parent / "gateways").glob("*.yaml"))
PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "one-url.md").read_text(encoding="utf-8")


def test_the_gateways_among_the_samples_and_on_their_page_are_valid() -> None:
    """Without a name: the aliases of the page."""
    shown = [yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)]
    of_page = [one for one in shown if "router" not in one["spec"]]
    assert len(of_page) == len(shown) - 1
    for raw in (*of_page, *(yaml.safe_load(path.read_text()) for path in GATEWAYS)):
        found = MODEL_GATEWAY_API.parse({"metadata": {"name": "models"}, **raw})
        assert not isinstance(found.spec, Refusal), found.spec
    assert all(f"](gateways/{path.name})" in README for path in GATEWAYS)


def test_the_list_of_samples_names_every_sample() -> None:
    assert sorted(re.findall(r"\]\(([\w-]+\.yaml)\)", README)) == [sample.name for sample in SAMPLES]


GATED = ("meta-llama/", "llama-3-70b")
"""Models for which Hugging Face asks for the consent of its user."""


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_a_sample_with_a_gated_model_says_so_in_its_comment_and_in_the_list(sample: Path) -> None:
    text = sample.read_text()
    gated = any(name in yaml.safe_load(text)["spec"]["model"]["source"].lower() for name in GATED)
    (row,) = (line for line in README.splitlines() if f"]({sample.name})" in line)
    assert ("gated" in text, "gated" in row) == (gated, gated)
