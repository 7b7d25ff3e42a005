import pytest

from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.models.source import (
    MAX_CLAIM_PATH,
    BucketModel,
    ClaimModel,
    HubModel,
    ImageModel,
    ModelSource,
    model_source,
)

DIGEST = "sha256:" + "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("hf://Qwen/Qwen3-8B", HubModel("Qwen/Qwen3-8B")),
        ("hf://meta-llama/Llama-3.3-70B-Instruct", HubModel("meta-llama/Llama-3.3-70B-Instruct")),
        ("hf://a/b_c.d", HubModel("a/b_c.d")),
        ("pvc://models", ClaimModel("models", "")),
        ("pvc://models/", ClaimModel("models", "")),
        ("pvc://models/qwen3-8b", ClaimModel("models", "qwen3-8b")),
        ("pvc://models/qwen/8b/", ClaimModel("models", "qwen/8b")),
        ("pvc://models.v2/Qwen_8B+x.y-z", ClaimModel("models.v2", "Qwen_8B+x.y-z")),
        (f"pvc://models/{'a' * MAX_CLAIM_PATH}", ClaimModel("models", "a" * MAX_CLAIM_PATH)),
        ("hf://org/qwen-GGUF/qwen-q4_k_m.gguf", HubModel("org/qwen-GGUF", "qwen-q4_k_m.gguf")),
        ("hf://org/big/Q4/a-00001-of-00002.gguf", HubModel("org/big", "Q4/a-00001-of-00002.gguf")),
        ("pvc://models/q4.gguf", ClaimModel("models", "", "q4.gguf")),
        ("pvc://models/qwen/q4.gguf", ClaimModel("models", "qwen", "q4.gguf")),
        ("s3://models/qwen/q4.gguf", BucketModel("models", "qwen", "q4.gguf")),
        ("oci://qwen", ImageModel("qwen")),
        ("oci://ghcr.io/org/qwen3-8b:1", ImageModel("ghcr.io/org/qwen3-8b:1")),
        ("oci://registry.example:5000/qwen", ImageModel("registry.example:5000/qwen")),
        ("oci://localhost/a/b:1.0-rc_2", ImageModel("localhost/a/b:1.0-rc_2")),
        (f"oci://ghcr.io/org/qwen@{DIGEST}", ImageModel(f"ghcr.io/org/qwen@{DIGEST}")),
        (f"oci://ghcr.io/org/qwen:1@{DIGEST}", ImageModel(f"ghcr.io/org/qwen:1@{DIGEST}")),
    ],
)
def test_a_valid_model_source_is_parsed(text: str, source: ModelSource) -> None:
    assert model_source(text) == source


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "has no scheme"),
        ("Qwen/Qwen3-8B", "has no scheme"),
        ("gs://bucket/qwen", "has no scheme"),
        ("HF://Qwen/Qwen3-8B", "has no scheme"),
        (" hf://Qwen/Qwen3-8B", "has no scheme"),
        ("hf:/Qwen/Qwen3-8B", "has no scheme"),
        ("hf://", "names no repository"),
        ("hf://Qwen", "names no repository"),
        ("hf://Qwen/Qwen3/8B", "names no repository"),
        ("hf://Qwen/Qwen3/8B/../q4.gguf", "has a path"),
        ("hf://Qwen/Qwen3/q4.gguf/", "names no repository"),
        ("hf://Qwen/Qwen3-8B/", "names no repository"),
        ("hf://Qwen/Qwen3 8B", "names no repository"),
        ("hf://-flag/model", "names no repository"),
        ("hf://../model", "names no repository"),
        ("hf://Çelik/modèle", "names no repository"),
        ("pvc://", "names no PersistentVolumeClaim"),
        ("pvc:///path", "names no PersistentVolumeClaim"),
        ("pvc://Models/path", "names no PersistentVolumeClaim"),
        ("pvc://-models/path", "names no PersistentVolumeClaim"),
        ("pvc://models//path", "has a path"),
        ("pvc://models/../secrets", "has a path"),
        ("pvc://models/./path", "has a path"),
        ("pvc://models//", "has a path"),
        ("pvc://models/$(HF_TOKEN)", "has a path"),
        ("pvc://models/Qwen 8B", "has a path"),
        ("pvc://models/modèle", "has a path"),
        ("s3://models/$(HF_TOKEN)", "has a path"),
        ("oci://", "names no image"),
        ("oci://GHCR.io/Org/Model", "names no image"),
        ("oci://ghcr.io//model", "names no image"),
        ("oci://ghcr.io/model@sha256:short", "names no image"),
        ("oci://ghcr.io/model:tag with space", "names no image"),
        ("oci://--privileged", "names no image"),
    ],
)
def test_an_invalid_model_source_is_refused_with_a_cure(text: str, problem: str) -> None:
    refusal = model_source(text)
    assert isinstance(refusal, Refusal)
    assert (refusal.reason, refusal.field) == (Reason.INVALID_MODEL_SOURCE, "spec.model.source")
    assert refusal.problem.startswith(f"`{text}` {problem}")
    assert "hf://Qwen/Qwen3-8B" in refusal.cure


@pytest.mark.parametrize(
    "text",
    [
        "hf://Qwen/Qwen3-8B\n",
        "pvc://models/a\n",
        "pvc://models/a\x00b",
        "pvc://models/a\u2028b",
        f"pvc://models/{'a' * (MAX_CLAIM_PATH + 1)}",
        f"s3://models/{'a' * (MAX_CLAIM_PATH + 1)}",
        f"hf://{'a' * 1000}",
    ],
)
def test_a_source_that_would_spoil_the_message_is_not_repeated_in_it(text: str) -> None:
    refusal = model_source(text)
    assert isinstance(refusal, Refusal)
    assert refusal.problem.startswith("It ")
    assert refusal.message.isprintable()


def test_the_examples_in_cures_are_valid_model_sources() -> None:
    refusal = model_source("nonsense")
    assert isinstance(refusal, Refusal)
    for example in refusal.cure.split("`")[1::2]:
        assert not isinstance(model_source(example), Refusal)
