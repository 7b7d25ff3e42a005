"""Pinned plans stay valid from one release of the operator to the next.

A plan is decided once. An annotation of the engine Deployment stores it with the hash of the specification
(ADR 5). If the hash of an unchanged specification changes, the next release decides every such plan again
and may replace serving engines.

If a test here fails, first find the cause:

- Only specifications that use a new field or argument have a new hash: keep the recorded values, keep the new value out
  of `requested_of_sizes` where it is not used, and add a line to `SPECIFICATIONS` for the new field.
- An existing field has a new meaning, so plans must be decided again: record the new hashes, raise `SIZING_RULES`, and
  say in CHANGELOG.md whose engines restart.
- `Plan` or `PinnedPlan` has a new field: give it a default, so that `STORED` of older releases is still read. Never
  change `STORED`. If this release writes another form, add it as another constant.
"""

import json

import pytest

from inference_operator.manifest import Manifest
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.outcomes import Planned
from inference_operator.roles.pinned_plan import PLAN_ANNOTATION
from inference_operator.sizing.plan import SIZING_RULES
from tests.testing.builders import ENGINES, inference_deployment, inputs, planned

SPECIFICATIONS: dict[str, tuple[Manifest, str]] = {
    "a model alone": (inference_deployment(), "0d96558eb5f0a75f"),
    "another source": (
        inference_deployment(source="oci://ghcr.io/org/qwen:1", parallelism={"tensor": 1}),
        "0925ccbde536efe6",
    ),
    "a size": (inference_deployment(parallelism={"tensor": 2, "pipeline": 2}), "cd9819c0773bb8a4"),
    "GPUs": (
        inference_deployment(hardware={"gpu": {"products": ["H100"], "memory": "40Gi"}}),
        "843a5305752224c8",
    ),
    "CPUs": (inference_deployment(hardware={"device": "CPU"}), "7b35308dd9956dee"),
    "an image": (inference_deployment(engine={"image": "example.com/vllm:1"}), "9099e9ff4c5fd741"),
    "all that sizes the engine": (
        inference_deployment(
            engine={
                "maxModelLen": 8192,
                "maxNumSeqs": 64,
                "maxNumBatchedTokens": 4096,
                "gpuMemoryUtilization": 0.9,
                "dtype": "float16",
                "quantization": "fp8",
                "kvCacheDtype": "fp8",
                "cpuOffloadGiB": 1,
            }
        ),
        "cf51797ee2d0e645",
    ),
    "where engines may be": (
        inference_deployment(scheduling={"nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}}),
        "9a13b2eb1ef3e8e8",
    ),
    "what sizes do not depend on": (
        inference_deployment(
            replicas=3, drainTimeout="1m", engine={"args": ["--seed=1"], "env": [{"name": "A", "value": "b"}]}
        ),
        "0d96558eb5f0a75f",
    ),
    "a revision": (
        inference_deployment(parallelism={"tensor": 1}, model={"source": "hf://Qwen/Qwen3-8B", "revision": "v1"}),
        "494834cbc6544dc9",
    ),
    "a size of the cache": (
        inference_deployment(engine={"args": ["--kv-cache-memory-bytes=8G"]}),
        "9b76392c4bcfdf2a",
    ),
    "a draft model": (
        inference_deployment(
            engine={"args": ['--speculative-config={"model": "org/draft", "num_speculative_tokens": 4}']}
        ),
        "9753fc17a8c87e76",
    ),
    "adapters": (
        inference_deployment(engine={"args": ["--enable-lora", "--max-loras=4", "--max-lora-rank=64"]}),
        "d6d5fe38ffa58598",
    ),
    "cache in the host's memory": (
        inference_deployment(engine={"args": ["--kv-offloading-size=64"]}),
        "7ad016994fd860d3",
    ),
}
"""Specifications, and the hash of the fields that their plans depend on."""

STORED: Manifest = {
    "asked": "9726d6d048aa964e",
    "image": "docker.io/vllm/vllm-openai:v0.32.0",
    "plan": {
        "assumptions": [],
        "avoided_products": [],
        "context_reduced": False,
        "cpu": "5",
        "cpu_offload_gib": 0.0,
        "decision": 0,
        "device": "GPU",
        "ephemeral_storage": "18Gi",
        "gpu": "H100-80GB",
        "gpu_memory_utilization": 0.92,
        "gpus_per_replica": 2,
        "kv_cache_bytes": None,
        "max_model_len": 40960,
        "max_num_batched_tokens": 8192,
        "max_num_seqs": 1024,
        "memory": "19Gi",
        "node_selector": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"},
        "per_gpu": {
            "activation_gib": 2.22,
            "cuda_graphs_gib": 0.82,
            "headroom_gib": 57.28,
            "kv_cache_gib": 60.09,
            "kv_cache_tokens": 875104,
            "kv_token_bytes": 73728,
            "longest_requests": 21.4,
            "memory_gib": 79.18,
            "non_torch_gib": 2.08,
            "offered_gib": 72.85,
            "origins": {
                "CUDA graphs": "counted in the budget; vLLM 0.32.0",
                "KV cache": "what is left",
                "activation": "vLLM 0.32.0",
                "non-torch": "vLLM 0.32.0",
                "weights": "counted from config.json",
            },
            "typical_requests": 427.3,
            "weights_gib": 7.64,
        },
        "pipeline_parallel_size": 1,
        "resource": "nvidia.com/gpu",
        "shared_memory": "8Gi",
        "tensor_parallel_size": 2,
        "unchecked": "",
        "weight_bytes": 16381444096,
    },
    "rules": 2,
}
"""A plan annotation of a release whose plans had no list of uncounted memory."""


@pytest.mark.parametrize("name", SPECIFICATIONS)
def test_the_inputs_hash_of_an_unchanged_spec_equals_the_recorded_hash(name: str) -> None:
    raw, recorded = SPECIFICATIONS[name]
    assert planned(raw).plan.spec_hash == recorded


def test_a_new_plan_records_the_current_sizing_rules() -> None:
    assert planned(inference_deployment()).plan.rules == SIZING_RULES == 3


def test_a_plan_annotation_of_an_older_release_is_kept() -> None:
    raw = inference_deployment(parallelism={"tensor": 2})
    made = planned(raw).desired
    engines = dict(made[ENGINES])
    engines["metadata"] = {
        **engines["metadata"],
        "annotations": {**engines["metadata"]["annotations"], PLAN_ANNOTATION.key: json.dumps(STORED)},
    }
    result = outcome(inputs(raw, children=[*({**made, ENGINES: engines}).values()], nodes=[]))
    assert isinstance(result, Planned)
    written = json.loads(PLAN_ANNOTATION.write(result.plan))
    assert written.pop("hash")
    assert written["plan"].pop("step")["dense"] > 0, "the costs of a step are added, and nothing else changes"
    assert written == {**STORED, "engine": "VLLM", "plan": {**STORED["plan"], "uncounted": []}}
    pod = result.desired[ENGINES]["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == STORED["plan"]["node_selector"]
    args = pod["containers"][0]["args"]
    assert {f"--max-model-len={STORED['plan']['max_model_len']}", "--max-num-seqs=1024"} <= set(args)
