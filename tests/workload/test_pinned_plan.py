"""Pinned plans stay valid from one release of the operator to the next.

A plan is decided once. An annotation of the engine Deployment stores it with the hash of the specification
(ADR 5). If the hash of an unchanged specification changes, the next release decides every such plan again
and may replace serving engines.

If a test here fails, first find the cause:

- Only specifications that use a new field or argument have a new hash: keep the recorded values, keep the new value out
  of `requested_of_sizes` where it is not used, and add a line to `SPECIFICATIONS` for the new field.
- An existing field has a new meaning, so plans must be decided again: record the new hashes, raise `SIZING_RULES`, and
  say in CHANGELOG.md whose engines restart.

`tests/objects/test_annotation.py` has the plans as they were written.
"""

import pytest

from inference_operator.manifest import Manifest
from inference_operator.sizing.plan import SIZING_RULES
from tests.testing.builders import inference_deployment, planned

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
        inference_deployment(engine={"speculative": {"method": "DraftModel", "model": "hf://org/draft", "tokens": 4}}),
        "7a7a25c14cfd4bd6",
    ),
    "adapters": (
        inference_deployment(engine={"args": ["--enable-lora", "--max-loras=4", "--max-lora-rank=64"]}),
        "d6d5fe38ffa58598",
    ),
    "cache in the host's memory": (
        inference_deployment(engine={"kvOffload": {"memory": "64Gi"}}),
        "5211db7aa2e65614",
    ),
}
"""Specifications, and the hash of the fields that their plans depend on."""


@pytest.mark.parametrize("name", SPECIFICATIONS)
def test_the_inputs_hash_of_an_unchanged_spec_equals_the_recorded_hash(name: str) -> None:
    raw, recorded = SPECIFICATIONS[name]
    assert planned(raw).plan.spec_hash == recorded


def test_a_new_plan_records_the_current_sizing_rules() -> None:
    assert planned(inference_deployment()).plan.rules == SIZING_RULES == 3
