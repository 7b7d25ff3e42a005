"""`infd fit` with further engine arguments: its memory figures equal those of the operator."""

import json
import shlex

import pytest

from tests.cli.conftest import Infd
from tests.testing.builders import inference_deployment, planned

DRAFT = '--speculative-config={"model":"Qwen/Qwen3-0.6B","num_speculative_tokens":4}'
UNKNOWN = '--speculative-config={"method":"eagle3","model":"org/head","num_speculative_tokens":4}'


@pytest.mark.parametrize("args", [[DRAFT], [UNKNOWN], ["--enable-lora", "--max-loras=4"], ["--kv-offloading-size=64"]])
def test_fit_gives_the_same_memory_as_a_plan_of_the_operator(infd: Infd, args: list[str]) -> None:
    _, output, _ = infd("fit", "Qwen/Qwen3-8B", "--gpu", "H100:1", "-o", "json", f"--engine-args={shlex.join(args)}")
    found = json.loads(output)
    plan = planned(inference_deployment(engine={"args": args})).plan.plan
    assert plan.per_gpu is not None
    assert found["weights_gib"] == pytest.approx(plan.per_gpu.weights_gib, abs=0.01)
    assert found["kv_cache_tokens"] == plan.per_gpu.kv_cache_tokens
    assert f"{found['host']['memory_gib']}Gi" == plan.memory
    assert found.get("unaccounted", []) == list(plan.uncounted)
    assert ("Not counted" in found["reason"]) == bool(plan.uncounted)


def test_fit_needs_a_size_for_a_model_name_with_a_quantization_that_its_config_lacks(infd: Infd) -> None:
    name = "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8"
    status, _, complaints = infd("fit", name, "--gpu", "H200:8")
    assert status == 2
    assert complaints.startswith("quantization_config: is not in config.json, although the name says")
    for more in ("--weights-gib=120", "--quantization=fp8"):
        assert infd("fit", name, "--gpu", "H200:8", more)[0] == 0


def test_fit_refuses_arguments_that_the_operator_refuses(infd: Infd) -> None:
    for args, said in (
        ("--kv-cache-memory-bytes=2048T", "asks for a KV cache of 2,048 TiB"),
        ("--port=1", "`--port` is managed by the operator"),
    ):
        status, _, complaints = infd("fit", "Qwen/Qwen3-8B", f"--engine-args={args}")
        assert status == 2
        assert complaints.startswith("--engine-args: ")
        assert said in complaints
    assert "unclosed quotation mark" in infd("fit", "Qwen/Qwen3-8B", "--engine-args='")[2]
