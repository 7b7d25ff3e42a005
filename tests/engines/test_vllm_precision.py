"""Requested types and quantization that vLLM refuses for a model, or for a GPU."""

from dataclasses import replace
from typing import Any

import pytest

from inference_operator.api.engine import EngineSpec
from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.engines.vllm.vllm import Vllm
from inference_operator.models.facts import Attention, LayerGroup, ModelFacts
from inference_operator.models.model import model_facts
from inference_operator.sizing.choice import choose
from inference_operator.sizing.gpu_plan import GpuPlan, Infeasible
from inference_operator.sizing.shape import Shape, SizingInputs
from tests.sizing.pools import model, on_gpus, pool

ENGINE, IMAGE = Vllm(), "docker.io/vllm/vllm-openai:v0.32.0"
AWQ, PLAIN, OSS = "Qwen/Qwen3-8B-AWQ", "meta-llama/Llama-3.1-8B-Instruct", "openai/gpt-oss-20b"
FP8, GEMMA, MLA = "Qwen/Qwen3-235B-A22B-Instruct-2507-FP8", "google/gemma-3-4b-it", "deepseek-ai/DeepSeek-V2-Lite-Chat"


def refusal(facts: ModelFacts, image: str = IMAGE, **engine: Any) -> Refusal | None:  # noqa: ANN401 - fields of the API
    spec = EngineSpec(**engine)
    return ENGINE.check_request(spec, facts, ENGINE.shape(spec), image=image)


def quantized(method: str, **section: Any) -> ModelFacts:  # noqa: ANN401 - any JSON
    config = {"num_hidden_layers": 2, "hidden_size": 256, "num_attention_heads": 4, "vocab_size": 1000}
    sized = {**config, "intermediate_size": 512, "quantization_config": {"quant_method": method, **section}}
    found = model_facts(sized)
    assert isinstance(found, ModelFacts), found
    return found


@pytest.mark.parametrize(
    ("name", "engine", "field", "words"),
    [
        (AWQ, {"quantization": "gptq"}, "quantization", "is quantized with `awq`, not `gptq`"),
        (AWQ, {"quantization": "fp8"}, "quantization", "is quantized with `awq`, not `fp8`"),
        (FP8, {"quantization": "awq_marlin"}, "quantization", "is quantized with `fp8`"),
        (PLAIN, {"quantization": "awq"}, "quantization", "`awq` cannot do it while vLLM loads them"),
        (PLAIN, {"quantization": "gptq_marlin"}, "quantization", "cannot do it"),
        (PLAIN, {"quantization": "compressed-tensors"}, "quantization", "cannot do it"),
        (PLAIN, {"quantization": "int4"}, "quantization", "has no quantization `int4`"),
        (PLAIN, {"quantization": "bitsandbytes"}, "quantization", "has no quantization `bitsandbytes`"),
        (PLAIN, {"quantization": "fbgemm_fp8"}, "quantization", "gives up the quantization `fbgemm_fp8`"),
        (PLAIN, {"quantization": "online"}, "quantization", "cannot do it"),
        (PLAIN, {"quantization": "fp8", "dtype": "float32"}, "dtype", "`fp8` weights cannot be computed in float32"),
        (OSS, {"dtype": "float16"}, "dtype", "`mxfp4` weights cannot be computed in float16"),
        (AWQ, {"dtype": "float32"}, "dtype", "Remove it, or use `bfloat16` or `float16`"),
        (GEMMA, {"dtype": "float16"}, "dtype", "do not run in float16"),
        (FP8, {"kvCacheDtype": "fp8_e5m2"}, "kvCacheDtype", "not possible with the `fp8` weights"),
        (MLA, {"kvCacheDtype": "fp8_e5m2"}, "kvCacheDtype", "Latent attention has no KV cache of `fp8_e5m2`"),
    ],
)
def test_precision_that_contradicts_the_models_files_is_refused_at_its_field(
    name: str, engine: dict[str, Any], field: str, words: str
) -> None:
    found = refusal(model(name), **engine)
    assert found
    assert (found.reason, found.field) == (Reason.UNSUPPORTED_PRECISION, f"spec.engine.{field}")
    assert words in found.message


@pytest.mark.parametrize(
    ("name", "engine"),
    [
        (AWQ, {"quantization": "awq"}),
        (AWQ, {"quantization": "awq_marlin", "dtype": "float16"}),
        (AWQ, {"quantization": "none"}),
        (PLAIN, {"quantization": "fp8"}),
        (PLAIN, {"quantization": "fp8_per_block"}),
        (PLAIN, {"quantization": "online", "args": ["--quantization-config.linear=mxfp8"]}),
        (PLAIN, {"quantization": "fbgemm_fp8", "args": ["--allow-deprecated-quantization", "--hf-overrides={}"]}),
        (PLAIN, {"dtype": "float32", "kvCacheDtype": "fp8_e5m2"}),
        (OSS, {"dtype": "bfloat16", "quantization": "mxfp4"}),
        (OSS, {"quantization": "fp8"}),
        (GEMMA, {"dtype": "float32"}),
        (FP8, {"kvCacheDtype": "fp8"}),
    ],
)
def test_precision_that_vllm_takes_is_not_refused(name: str, engine: dict[str, Any]) -> None:
    assert refusal(model(name), **engine) is None


def test_names_of_methods_count_for_the_version_of_the_tables_only() -> None:
    for image in ("docker.io/vllm/vllm-openai:v0.11.0", "example.org/mine:latest"):
        assert refusal(model(PLAIN), image, quantization="bitsandbytes") is None
        assert refusal(model(AWQ), image, quantization="gptq") is not None


def test_a_checkpoint_whose_method_vllm_gives_up_needs_its_option() -> None:
    facts = quantized("fbgemm_fp8")
    found = refusal(facts)
    assert found
    assert found.field == "spec.model.source"
    assert "--allow-deprecated-quantization" in found.cure
    assert refusal(facts, args=["--allow-deprecated-quantization"]) is None


def test_methods_of_checkpoints_that_replace_a_requested_one_are_not_refused() -> None:
    assert refusal(quantized("modelopt", quant_algo="FP8"), quantization="fp8") is None
    assert refusal(quantized("auto-round", bits=4), quantization="awq") is None
    assert refusal(quantized("gptq", bits=4), quantization="moe_wna16") is None


def test_methods_that_quantize_while_loading_have_needs_of_their_own() -> None:
    facts = model("Qwen/Qwen3-8B")
    assert able(facts, "T4:1", quantization="mxfp4")
    assert not able(model(OSS), "T4:1")
    assert refusal(facts, quantization="mxfp4", dtype="float16") is None
    assert refusal(quantized("modelopt", quant_algo="MIXED_PRECISION", bits=8), kvCacheDtype="fp8_e5m2") is None


def test_scales_of_compressed_tensors_decide_about_e5m2() -> None:
    weights = {"num_bits": 8, "type": "float"}
    groups = {"format": "float-quantized", "config_groups": {"group_0": {"weights": weights}}}
    kept = quantized("compressed-tensors", **groups, kv_cache_scheme={"num_bits": 8, "type": "float"})
    assert refusal(quantized("compressed-tensors", **groups), kvCacheDtype="fp8_e5m2") is None
    assert refusal(kept, kvCacheDtype="fp8_e5m2")


def able(facts: ModelFacts, gpus: str, **engine: Any) -> bool:  # noqa: ANN401 - fields of the API
    return on_gpus(pool(gpus)[0]).unable(facts, ENGINE.shape(EngineSpec(**engine))) is None


@pytest.mark.parametrize("name", [OSS, GEMMA, MLA])
def test_an_fp8_cache_of_sinks_images_or_latent_attention_needs_fp8_arithmetic(name: str) -> None:
    found = choose(model(name), pool("A100-80GB:1"), on_gpus, requested(kvCacheDtype="fp8"))
    assert isinstance(found, Infeasible)
    assert "needs compute capability 8.9 for this model; this GPU has 8.0." in found.problem
    assert able(model(name), "L40S:1", kvCacheDtype="fp8")
    assert able(model(name), "A100-80GB:1")


def requested(**engine: Any) -> SizingInputs:  # noqa: ANN401 - fields of the API
    return SizingInputs(shape=ENGINE.shape(EngineSpec(**engine)))


def test_an_fp8_cache_of_usual_heads_needs_only_ampere() -> None:
    assert able(model("Qwen/Qwen3-8B"), "A100-80GB:1", kvCacheDtype="fp8")
    assert not able(model("Qwen/Qwen3-8B"), "T4:1", kvCacheDtype="fp8")
    phi = replace(model("Qwen/Qwen3-8B"), groups=(LayerGroup(Attention.FULL, 36, 32, 160),))
    assert not able(phi, "A100-80GB:1", kvCacheDtype="fp8"), "heads of 80"
    assert not able(model("Qwen/Qwen3-8B"), "A100-80GB:1", kvCacheDtype="fp8", dtype="float32")


def test_a_cache_that_the_checkpoint_states_counts_as_a_requested_one() -> None:
    facts = model("Qwen/Qwen3-8B")
    kept = replace(facts, quantization=replace(facts.quantization, kv_cache_fp8=True, method="modelopt_fp4"))
    for shape in (Shape(), Shape(kv_cache_dtype="fp8")):
        found = choose(kept, pool("T4:1"), on_gpus, SizingInputs(shape=shape))
        assert isinstance(found, Infeasible)
        assert found.problem.endswith("The checkpoint asks for it; `spec.engine.kvCacheDtype: float16` does not.")
    assert able(kept, "T4:1", kvCacheDtype="float16")


def test_a_stored_cache_of_sparse_latent_attention_has_a_kernel_on_blackwell_only() -> None:
    facts = model("deepseek-ai/DeepSeek-V3.2")
    kept = replace(facts, quantization=replace(facts.quantization, kv_cache_fp8=True, method="modelopt_fp4"))
    assert [able(kept, gpus) for gpus in ("H200:8", "B200:8")] == [False, True]
    assert able(kept, "H200:8", kvCacheDtype="fp8")


def test_latent_attention_has_no_float32() -> None:
    assert not able(model(MLA), "L40S:1", dtype="float32")
    assert able(model(MLA), "L40S:1", dtype="float16")
    assert able(model("Qwen/Qwen3-8B"), "L40S:1", dtype="float32")


def test_bfloat16_is_refused_on_gpus_without_it_and_float16_is_not() -> None:
    facts = model("Qwen/Qwen3-8B")
    assert not able(facts, "T4:1", dtype="bfloat16")
    assert not able(facts, "T4:1", kvCacheDtype="bfloat16")
    assert able(facts, "T4:1", dtype="float16")
    assert isinstance(choose(facts, pool("L4:1"), on_gpus, requested(dtype="bfloat16")), GpuPlan)
