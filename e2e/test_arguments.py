"""The operator's arguments for vLLM, read by the argument parser of vLLM in the engine's image."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.deploy import stack
from e2e.engines import vllm_options
from inference_operator.cli.offline import offline_inputs
from inference_operator.engines.registry import ENGINES
from inference_operator.engines.vllm.request_limits import NO_HOST
from inference_operator.manifest import Manifest
from inference_operator.models.catalogue import entry
from inference_operator.models.checkpoint import Weights
from inference_operator.models.entry import Entry
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.outcomes import Planned
from inference_operator.settings import Settings
from tests.engines.test_vllm_adapters import LOCAL_ONLY, OF_HUB
from tests.testing.managed_flags import managed_flag

SAMPLES = [
    path
    for path in sorted((stack.ROOT / "manifests" / "samples").glob("*.yaml"))
    if yaml.safe_load(path.read_text())["spec"].get("engine", {}).get("kind", "VLLM") == "VLLM"
]
"""The samples that vLLM serves."""
GPUS = Settings(gpu_offers=("RTX-4090:1", "A100-80GB:8"))
"""The GPUs that the samples need."""
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
"""Fields of the spec, and vLLM's names of the parsed values."""
QUANTIZED = ("awq", "gptq")
"""Methods of checkpoints that are quantized: vLLM cannot apply them while it loads weights."""
REPLACED = ["--lora-modules", "b=org/b", "--lora-modules", "a=/a"]
"""Adapters that vLLM forgets, because it reads the last list only; the operator refuses them too."""
ABBREVIATED = ["m", "--tensor_par", "2", "--served-model=a", "--por=1", "-tp=4"]
"""Abbreviated spellings; the operator recognises managed flags in them."""


def in_volume(method: str = "") -> Entry:
    """What an inspection finds in the volumes that samples name: Qwen3-8B, quantized where a sample says so."""
    qwen = entry("Qwen/Qwen3-8B")
    assert qwen
    quantized = {"quantization_config": {"quant_method": method, "bits": 4, "group_size": 128}}
    config = {**qwen.config, **(quantized if method in QUANTIZED else {})}
    return replace(qwen, config=config, weights=Weights(16_381_470_720, "model.safetensors.index.json"))


def arguments(sample: Path) -> list[str]:
    """The arguments of the engine container for a sample."""
    return arguments_of(yaml.safe_load(sample.read_text()))


def arguments_of(raw: Manifest) -> list[str]:
    """The arguments of the engine container for a resource."""
    model = in_volume(raw["spec"].get("engine", {}).get("quantization", ""))
    planned = outcome(offline_inputs(raw, GPUS, ENGINES, model=model))
    assert isinstance(planned, Planned), planned
    engine = next(m for ref, m in planned.desired.items() if ref.name.endswith("-engine") and "template" in m["spec"])
    result: list[str] = engine["spec"]["template"]["spec"]["containers"][0]["args"]
    return result


@pytest.fixture(scope="module")
def parser_result(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The values that vLLM parses, in the order of the samples, and all its options and variables."""
    lists = [
        *(arguments(sample) for sample in SAMPLES),
        ABBREVIATED,
        *(["m", *args] for args in (*OF_HUB, *LOCAL_ONLY)),
    ]
    return vllm_options.parsed(lists, tmp_path_factory.mktemp("arguments"))


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_vllm_parses_engine_arguments_as_the_operator_means_them(parser_result: dict[str, Any], sample: Path) -> None:
    spec = yaml.safe_load(sample.read_text())
    requested, parsed = spec["spec"], parser_result["read"][SAMPLES.index(sample)]
    scheme, _, location = requested["model"]["source"].partition("://")
    folder = {"hf": location, "oci": "/models", "pvc": f"/models/{location.partition('/')[2]}"}
    assert parsed["model_tag"] == folder[scheme]
    names = [requested["model"].get("servedName", spec["metadata"]["name"]), *([location] if scheme == "hf" else [])]
    assert parsed["served_model_name"] == names
    assert (parsed["host"], parsed["port"]) == ("::", 8000)
    (planned,) = (text for text in arguments(sample) if text.startswith("--tensor-parallel-size="))
    assert planned == f"--tensor-parallel-size={parsed['tensor_parallel_size']}"
    assert requested.get("parallelism", {}).get("tensor") in {None, parsed["tensor_parallel_size"]}
    assert parsed["shutdown_timeout"] > 0
    assert parsed["allowed_media_domains"] == [NO_HOST]
    for name, flag in SIZES.items():
        if (value := requested.get("engine", {}).get(name)) is not None:
            assert parsed[flag] == value


def test_the_operators_table_of_options_is_that_of_vllm(parser_result: dict[str, Any]) -> None:
    assert vllm_options.TABLE.read_text().splitlines() == parser_result["options"], (
        "stale: `python -m e2e.engines.vllm_options`"
    )


def test_the_operators_list_of_variables_is_that_of_vllm(parser_result: dict[str, Any]) -> None:
    assert vllm_options.VARIABLES.read_text().splitlines() == parser_result["variables"], (
        "stale: `python -m e2e.engines.vllm_options`"
    )


def test_vllm_resolves_abbreviated_flags_as_the_operator_does(parser_result: dict[str, Any]) -> None:
    parsed = parser_result["read"][len(SAMPLES)]
    assert (parsed["served_model_name"], parsed["port"], parsed["tensor_parallel_size"]) == (["a"], 1, 4)
    flags = [managed_flag(argument) for argument in ABBREVIATED]
    assert flags == [None, "--tensor-parallel-size", None, "--served-model-name", "--port", "--tensor-parallel-size"]


def test_vllm_reads_the_adapters_that_the_operator_refuses_with_a_cache(parser_result: dict[str, Any]) -> None:
    read = parser_result["read"][len(SAMPLES) + 1 :]
    of_hub = [any(not path.startswith("/") for path in one["adapters"]) for one in read]
    assert [args for args, found in zip(OF_HUB, of_hub, strict=False) if not found] == [REPLACED]
    assert not any(of_hub[len(OF_HUB) :])
    assert len(of_hub) == len(OF_HUB) + len(LOCAL_ONLY)
