import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from inference_operator.api.resource import resource
from inference_operator.manifest import DEPLOYMENT, Ref
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.outcomes import Planned
from inference_operator.settings import Settings
from tests.testing.builders import model_known

SAMPLES = sorted((Path(__file__).parents[2] / "manifests" / "samples").glob("*.yaml"))
NOW = datetime(2026, 11, 21, tzinfo=UTC)


POOL = {
    "quickstart": "RTX-4090:1",
    "rtx-4090": "RTX-4090:1",
    "zero": "RTX-4090:1",
    "pvc": "L4:4",
    "llama-70b-tp8": "H100-80GB:8",
}
"""GPUs that somebody has who takes the sample; others name theirs."""
INSPECTED = {"llama-70b-gptq-int8": "meta-llama/Meta-Llama-3-70B"}
"""What is in the volume of a sample, as far as it matters."""
HIGH_THROUGHPUT = ["--max-num-seqs=256", "--max-num-batched-tokens=16384", "--gpu-memory-utilization=0.95"]
SIZES = {
    "quickstart": [
        "--tensor-parallel-size=1",
        "--max-model-len=28672",
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
        "--cpu-offload-gb=20",
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


def planned(sample: Path) -> Planned:
    offers = tuple(filter(None, [POOL.get(sample.stem)]))
    asked = resource(yaml.safe_load(sample.read_text()))
    inspected = model_known(yaml.safe_load(sample.read_text()), INSPECTED.get(sample.stem, ""))
    children = {Ref.of(inspected): inspected}
    result = outcome(Inputs(resource=asked, children=children, pods=(), settings=Settings(gpu_offers=offers), now=NOW))
    assert isinstance(result, Planned), result
    return result


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


def test_a_sample_with_nothing_but_the_model_and_its_gpu_takes_two_gpus_of_a_node_that_has_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (sample,) = (path for path in SAMPLES if path.stem == "rtx-4090")
    monkeypatch.setitem(POOL, "rtx-4090", "RTX-4090:2")
    assert planned(sample).plan.plan.gpus_per_replica == 2
    assert "takes two" in sample.read_text()


def test_the_list_of_samples_names_every_sample() -> None:
    page = (SAMPLES[0].parent / "README.md").read_text()
    assert sorted(re.findall(r"\]\((.+\.yaml)\)", page)) == [sample.name for sample in SAMPLES]


GATED = ("meta-llama/", "llama-3-70b")
"""Models for which Hugging Face asks for the consent of its user."""


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_a_sample_with_a_gated_model_says_so_in_its_comment_and_in_the_list(sample: Path) -> None:
    text = sample.read_text()
    gated = any(name in yaml.safe_load(text)["spec"]["model"]["source"].lower() for name in GATED)
    (row,) = (line for line in (sample.parent / "README.md").read_text().splitlines() if f"]({sample.name})" in line)
    assert ("gated" in text, "gated" in row) == (gated, gated)
