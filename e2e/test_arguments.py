"""What the operator tells vLLM, read by the argument parser of the vLLM that the engine's image carries."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e import images, stack
from e2e.images.detect import found_builder
from inference_operator.cli.main import offline_inputs
from inference_operator.engines.vllm.flags import FLAG_ALIASES, MANAGED_FLAGS
from inference_operator.pipeline import Planned, outcome

SCRIPT = Path(__file__).parent / "vllm_parser"
SAMPLES = sorted((stack.ROOT / "manifests" / "samples").glob("*.yaml"))
ABBREVIATED = ["m", "--tensor_par", "2", "--served-model=a", "--por=1", "-tp=4"]
"""Spellings that the operator takes for managed flags."""


def arguments(sample: Path) -> list[str]:
    """The arguments of the engine's container that a sample becomes."""
    planned = outcome(offline_inputs(yaml.safe_load(sample.read_text())))
    assert isinstance(planned, Planned)
    engine = next(m for ref, m in planned.desired.items() if ref.name.endswith("-engine") and "template" in m["spec"])
    result: list[str] = engine["spec"]["template"]["spec"]["containers"][0]["args"]
    return result


@pytest.fixture(scope="module")
def parsed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What vLLM reads, in the order of the samples, and every flag that it knows."""
    folder = tmp_path_factory.mktemp("arguments")
    (folder / "lists.json").write_text(json.dumps([*(arguments(sample) for sample in SAMPLES), ABBREVIATED]))
    images.build(["engine-cpu"])
    command = ("/opt/vllm/bin/python", "/script/parse.py", "/data/lists.json", "/data/result.json")
    volumes = {SCRIPT: "/script:ro", folder: "/data"}
    found_builder().run("vllm-parser", images.reference("engine-cpu"), command, volumes)
    result: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return result


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_vllm_reads_what_the_operator_means(parsed: dict[str, Any], sample: Path) -> None:
    spec = yaml.safe_load(sample.read_text())
    asked, read = spec["spec"], parsed["read"][SAMPLES.index(sample)]
    scheme, _, where = asked["model"]["source"].partition("://")
    folder = {"hf": where, "oci": "/models", "pvc": f"/models/{where.partition('/')[2]}"}
    assert read["model_tag"] == folder[scheme]
    assert read["served_model_name"] == [asked["model"].get("servedName", spec["metadata"]["name"])]
    assert (read["host"], read["port"]) == ("0.0.0.0", 8000)  # noqa: S104 - inside the pod
    assert read["tensor_parallel_size"] == asked.get("parallelism", {}).get("tensor", 1)
    assert read["shutdown_timeout"] > 0


def test_every_managed_flag_is_one_of_vllms(parsed: dict[str, Any]) -> None:
    assert set(MANAGED_FLAGS) - set(parsed["flags"]) == set()
    assert set(FLAG_ALIASES) - set(parsed["flags"]) == set()


def test_abbreviations_mean_what_the_operator_takes_them_for(parsed: dict[str, Any]) -> None:
    read = parsed["read"][-1]
    assert (read["served_model_name"], read["port"], read["tensor_parallel_size"]) == (["a"], 1, 4)
