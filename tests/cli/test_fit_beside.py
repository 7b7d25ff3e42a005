"""`infd fit` with further engine arguments: its memory figures equal those of the operator."""

import json
from contextlib import redirect_stdout, suppress
from io import StringIO

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from generators.model_table import KINDS
from inference_operator.cli.arguments import settings_with
from inference_operator.cli.main import main
from inference_operator.cli.offline import offline_inputs
from inference_operator.engines.registry import ENGINES
from inference_operator.manifest import Manifest
from inference_operator.models.catalogue import names
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.outcomes import Planned
from tests.cli.conftest import Infd, only
from tests.testing.builders import inference_deployment, planned

TTFT, TPOT = (500, 2000, 5000), (20, 50, 100)
"""Milliseconds."""
HEAD = {"method": "EAGLE3", "model": "hf://org/head", "tokens": 4}


@pytest.mark.parametrize(
    ("options", "engine"),
    [
        (["--speculative=Auto"], {"speculative": {"method": "Auto"}}),
        (["--speculative=EAGLE3", "--draft=hf://org/head", "--draft-tokens=4"], {"speculative": HEAD}),
        (["--engine-args=--enable-lora --max-loras=4"], {"args": ["--enable-lora", "--max-loras=4"]}),
        (["--kv-offload=64Gi"], {"kvOffload": {"memory": "64Gi"}}),
    ],
)
def test_fit_gives_the_same_memory_as_a_plan_of_the_operator(infd: Infd, options: list[str], engine: Manifest) -> None:
    _, output, _ = infd("fit", "Qwen/Qwen3-8B", "--gpu", "H100:1", "-o", "json", *options)
    found = only(output)
    plan = planned(inference_deployment(engine=engine)).plan.plan
    assert plan.per_gpu is not None
    assert found["weightsGiB"] == pytest.approx(plan.per_gpu.weights_gib, abs=0.01)
    assert found["kvCacheTokens"] == plan.per_gpu.kv_cache_tokens
    assert f"{found['host']['memoryGiB']}Gi" == plan.memory
    assert found.get("unaccounted", []) == list(plan.unaccounted)
    assert ("Not counted" in found["reason"]) == bool(plan.unaccounted)


def test_fit_of_a_name_says_whether_the_hub_or_the_catalogue_was_asked(
    infd: Infd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INFERENCE_OPERATOR_MODEL_INSPECTION", "Always")
    status, _, said = infd("fit", "Qwen/Qwen3-8B", "--gpu", "L4:4")
    assert status == 0
    assert said.startswith("hf://Qwen/Qwen3-8B: `HF_HUB_OFFLINE` is set, and the model is not in the cache.")
    assert "The facts are those of the catalogue (ai-dynamo/aiconfigurator@" in said
    status, _, said = infd("fit", "Qwen/Qwen2.5-99B-Instruct", "--gpu", "H100:8")
    assert status == 2
    assert said.startswith("Qwen/Qwen2.5-99B-Instruct: is not in the catalogue. Did you mean `Qwen/Qwen2.5-")
    assert "`HF_HUB_OFFLINE` is set" in said


def test_fit_accepts_a_size_of_quantized_files_with_the_quantization(infd: Infd) -> None:
    options = ("fit", "Qwen/Qwen3-8B", "--gpu", "L4:4", "--weights-gib=5.7")
    status, _, said = infd(*options)
    assert status == 2
    assert "the files have only 5.7 GiB (--weights-gib), and the matrices need 15.3 GiB" in said
    assert infd(*options, "--quantization=awq")[0] == 0


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


def fleets_of(*arguments: str) -> list[Manifest]:
    output = StringIO()
    with redirect_stdout(output), suppress(SystemExit):
        main(["fit", *arguments, "-o", "json"])
    text = output.getvalue()
    return list(json.loads(text)["items"]) if text else []


@given(
    st.sampled_from(names()),
    st.sampled_from(KINDS),
    st.sampled_from((1, 2, 4, 8)),
    st.sampled_from(TTFT),
    st.sampled_from(TPOT),
)
@example("Qwen/Qwen3-8B", "A10G", 1, 5000, 100)
def test_a_rate_is_carried_by_engines_of_the_sizes_that_the_operator_chooses(
    model: str, kind: str, number: int, ttft: int, tpot: int
) -> None:
    """Of any model of the catalogue, on any GPUs, with any objective: what it refuses carries no rate."""
    gpus, objective = f"{kind}:{number}", {"ttft": f"{ttft}ms", "tpot": f"{tpot}ms"}
    fleets = fleets_of(model, f"--gpu={gpus}", "--rate=9/s", *(f"--{name}={time}" for name, time in objective.items()))
    raw = inference_deployment(source=f"hf://{model}", autoscaling={"maxReplicas": 9, "objective": objective})
    for fleet in fleets:
        found = outcome(offline_inputs(raw, settings_with([gpus]), ENGINES))
        assert isinstance(found, Planned), found
        parallel, context = found.plan.plan.parallel, found.plan.plan.max_model_len
        chosen = (parallel.tensor, parallel.pipeline, parallel.data, parallel.nodes, context)
        assert chosen == tuple(fleet[size] for size in ("tensor", "pipeline", "data", "nodes", "maxModelLen"))
