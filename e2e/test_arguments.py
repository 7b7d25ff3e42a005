"""What the operator tells vLLM, read by the argument parser of the vLLM that the engine's image carries."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e import stack, vllm_options
from inference_operator.cli.offline import offline_inputs
from inference_operator.engines.registry import ENGINES
from inference_operator.engines.vllm.arguments import managed_flag
from inference_operator.models.catalogue import entry
from inference_operator.models.checkpoint import Weights
from inference_operator.models.entry import Entry
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.outcomes import Planned
from inference_operator.settings import Settings

SAMPLES = sorted((stack.ROOT / "manifests" / "samples").glob("*.yaml"))
GPUS = Settings(gpu_offers=("RTX-4090:1", "A100-80GB:8"))
"""What the samples ask for; where they name a volume, Qwen3-8B is in it."""
SIZES = {
    "maxModelLen": "max_model_len",
    "maxNumSeqs": "max_num_seqs",
    "maxNumBatchedTokens": "max_num_batched_tokens",
    "gpuMemoryUtilization": "gpu_memory_utilization",
    "dtype": "dtype",
    "quantization": "quantization",
    "kvCacheDtype": "kv_cache_dtype",
    "cpuOffloadGiB": "cpu_offload_gb",
}
"""Fields, and what vLLM calls what it reads of them."""
ABBREVIATED = ["m", "--tensor_par", "2", "--served-model=a", "--por=1", "-tp=4"]
"""Spellings that the operator takes for managed flags."""


def in_volume() -> Entry:
    """What an inspection would find in the volumes that samples name."""
    known = entry("Qwen/Qwen3-8B")
    assert known
    return replace(known, weights=Weights(16_381_470_720, "model.safetensors.index.json"))


def arguments(sample: Path) -> list[str]:
    """The arguments of the engine's container that a sample becomes."""
    planned = outcome(offline_inputs(yaml.safe_load(sample.read_text()), GPUS, ENGINES, model=in_volume()))
    assert isinstance(planned, Planned)
    engine = next(m for ref, m in planned.desired.items() if ref.name.endswith("-engine") and "template" in m["spec"])
    result: list[str] = engine["spec"]["template"]["spec"]["containers"][0]["args"]
    return result


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What vLLM reads, in the order of the samples, and every option that it knows."""
    lists = [*(arguments(sample) for sample in SAMPLES), ABBREVIATED]
    return vllm_options.parsed(lists, tmp_path_factory.mktemp("arguments"))


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_vllm_parses_engine_arguments_as_the_operator_means_them(read: dict[str, Any], sample: Path) -> None:
    spec = yaml.safe_load(sample.read_text())
    asked, found = spec["spec"], read["read"][SAMPLES.index(sample)]
    scheme, _, where = asked["model"]["source"].partition("://")
    folder = {"hf": where, "oci": "/models", "pvc": f"/models/{where.partition('/')[2]}"}
    assert found["model_tag"] == folder[scheme]
    assert found["served_model_name"] == [asked["model"].get("servedName", spec["metadata"]["name"])]
    assert (found["host"], found["port"]) == ("0.0.0.0", 8000)  # noqa: S104 - inside the pod
    assert found["tensor_parallel_size"] == asked.get("parallelism", {}).get("tensor", 1)
    assert found["shutdown_timeout"] > 0
    for name, flag in SIZES.items():
        if (value := asked.get("engine", {}).get(name)) is not None:
            assert found[flag] == value


def test_the_options_that_the_operator_knows_are_vllms(read: dict[str, Any]) -> None:
    assert vllm_options.TABLE.read_text().splitlines() == read["options"], "stale: `python -m e2e.vllm_options`"


def test_vllm_resolves_abbreviated_flags_as_the_operator_does(read: dict[str, Any]) -> None:
    found = read["read"][-1]
    assert (found["served_model_name"], found["port"], found["tensor_parallel_size"]) == (["a"], 1, 4)
    flags = [managed_flag(argument) for argument in ABBREVIATED]
    assert flags == [None, "--tensor-parallel-size", None, "--served-model-name", "--port", "--tensor-parallel-size"]
