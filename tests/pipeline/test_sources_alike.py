"""What an engine would refuse at its start is known before, wherever the files come from, with and without a claim."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from inference_operator.manifest import Manifest
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.outcomes import Outcome, Planned, Refused
from inference_operator.views.node import node_view
from tests.testing.builders import inference_deployment, inputs, model_known
from tests.testing.nodes import node

H100, A100, B200 = "NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-80GB", "NVIDIA-B200"
CACHE: Manifest = {"cache": {"size": "3Ti"}}
STORE = {"region": "eu-1", "credentialsSecretRef": {"name": "store"}}
WAYS: Sequence[tuple[Manifest, Manifest]] = (
    ({"source": "hf://org/model"}, {}),
    ({"source": "hf://org/model"}, CACHE),
    ({"source": "pvc://models/model"}, {}),
    ({"source": "s3://models/model", "s3": STORE}, CACHE),
    ({"source": f"oci://registry.example/model@sha256:{'0' * 64}"}, {}),
)


@dataclass(frozen=True, slots=True)
class Case:
    """A model, what is asked of it, and the field of the refusal; empty if it is planned."""

    model: str
    gpu: str
    field: str = ""
    engine: Manifest | None = None
    adapter: bool = False
    ways: Sequence[tuple[Manifest, Manifest]] = WAYS


GUESSES = "spec.engine.speculative"
MTP: Manifest = {"speculative": {"method": "MTP"}}
OF_HUB = [way for way in WAYS if not way[1] or way[0]["source"].startswith("hf://")]
"""Where no claim keeps engines from the hub, or a Job brings the draft with its model."""


def drafted_by(draft: str, field: str = GUESSES) -> Case:
    asked = {"speculative": {"method": "DraftModel", "model": f"hf://{draft}"}}
    return Case("Qwen/Qwen3-8B", H100, field, asked, ways=OF_HUB)


CASES = {
    "a dense model": Case("Qwen/Qwen3-8B", H100),
    "with an adapter": Case("Qwen/Qwen3-8B", H100, adapter=True),
    "states of a hybrid": Case("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", H100),
    "sparse attention below 9.0": Case("deepseek-ai/DeepSeek-V3.2", A100, "spec.hardware"),
    "a cache of another 8 bits": Case(
        "Qwen/Qwen3-32B-FP8", H100, "spec.engine.kvCacheDtype", {"kvCacheDtype": "fp8_e5m2"}
    ),
    "a draft": drafted_by("Qwen/Qwen3-0.6B", ""),
    "a draft of another vocabulary": drafted_by("meta-llama/Llama-3.2-1B-Instruct"),
    "a draft that generates nothing": drafted_by("BAAI/bge-m3"),
    "layers for several tokens": Case("deepseek-ai/DeepSeek-V3.2", B200, "", MTP),
    "layers for several tokens that the files do not state": Case(
        "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", H100, GUESSES, MTP
    ),
    "a method that nothing can apply": Case(
        "Qwen/Qwen3-8B", H100, "spec.engine.quantization", {"quantization": "int4"}
    ),
    "a type that the model lacks": Case("google/gemma-3-4b-it", H100, "spec.engine.dtype", {"dtype": "float16"}),
    "a context above the model's": Case("Qwen/Qwen3-8B", H100, "spec.engine.maxModelLen", {"maxModelLen": 131072}),
}


def decided(case: Case, model: Manifest, cache: Manifest) -> Outcome:
    adapters = {"adapters": [{"name": "sql", "source": "pvc://loras/sql"}]} if case.adapter else {}
    spec = {**cache, **({"engine": case.engine} if case.engine else {})}
    raw = inference_deployment(model={**model, **adapters, "servedName": "model"}, **spec)
    nodes = [node_view(node("gpus", gpus=8, labels={"nvidia.com/gpu.product": case.gpu}))]
    return outcome(inputs(raw, children=[model_known(raw, case.model)], nodes=nodes))


def verdict(found: Outcome) -> object:
    """The refusal, or what is planned: GPUs and sizes."""
    if isinstance(found, Refused):
        return (found.refusal.field, found.refusal.problem)
    assert isinstance(found, Planned), found
    return replace(found.plan.plan, ephemeral_storage="")  # files beside a claim need none


@pytest.mark.parametrize("name", CASES)
def test_every_source_gets_the_same_verdict(name: str) -> None:
    case = CASES[name]
    verdicts = [verdict(decided(case, model, cache)) for model, cache in case.ways if cache or not case.adapter]
    assert len({repr(found) for found in verdicts}) == 1, verdicts
    refused = verdicts[0][0] if isinstance(verdicts[0], tuple) else ""
    assert refused == case.field, verdicts
