"""Speculative decoding of vLLM: what `Auto` finds, its argument, and what is refused."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from inference_operator.api.engine import EngineSpec, SpeculativeSpec
from inference_operator.api.engine_kind import EngineProfile
from inference_operator.api.model import ModelSpec
from inference_operator.api.refusal import Refusal
from inference_operator.engines.vllm.speculation import (
    drafting_of,
    refusal_of_draft,
    refusal_of_speculation,
    remark_of_speculation,
    resolved,
    speculation_arguments,
    speculation_of,
)
from inference_operator.manifest import Manifest
from inference_operator.models.catalogue import entry
from inference_operator.models.drafts import DRAFTS, Drafter
from inference_operator.models.entry import entry_facts
from inference_operator.models.facts import ModelFacts
from inference_operator.sizing.shape import Speculation
from tests.testing.for_each import for_each


def facts_of(model: str) -> ModelFacts:
    found = entry(model)
    facts = entry_facts(found) if found else None
    assert isinstance(facts, ModelFacts), model
    return facts


def asked(**fields: object) -> SpeculativeSpec:
    return SpeculativeSpec.model_validate(fields)


HEAD = "nebius/EAGLE3-gpt-oss-20b"
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "faster-answers.md"


@pytest.mark.parametrize(
    ("model", "fields", "expected"),
    [
        ("Qwen/Qwen3-8B", {}, None),
        ("Qwen/Qwen3-8B", {"method": "Ngram"}, {"method": "ngram", "num_speculative_tokens": 3}),
        ("Qwen/Qwen3-8B", {"method": "MTP", "tokens": 2}, {"method": "mtp", "num_speculative_tokens": 2}),
        ("deepseek-ai/DeepSeek-V3", {"method": "Auto"}, {"method": "mtp", "num_speculative_tokens": 1}),
        ("openai/gpt-oss-20b", {"method": "Auto"}, {"method": "eagle3", "num_speculative_tokens": 6, "model": HEAD}),
        (
            "Qwen/Qwen3-8B",
            {"method": "Auto", "tokens": 2},
            {"method": "draft_model", "num_speculative_tokens": 2, "model": "Qwen/Qwen3-0.6B"},
        ),
        ("google/gemma-3-1b-it", {"method": "Auto"}, None),
        (
            "google/gemma-3-1b-it",
            {"method": "EAGLE3", "model": "hf://org/head", "revision": "v1"},
            {"method": "eagle3", "num_speculative_tokens": 3, "model": "org/head", "revision": "v1"},
        ),
    ],
)
def test_the_argument_has_the_method_its_draft_and_its_tokens(
    model: str, fields: Manifest, expected: Manifest | None
) -> None:
    found = resolved(asked(**fields), facts_of(model), model, EngineProfile.LATENCY)
    assert isinstance(found, SpeculativeSpec)
    texts = list(speculation_arguments(drafting_of(found)))
    safe = {"draft_load_config": {"load_format": "safetensors"}} if expected and "model" in expected else {}
    given = [json.loads(text.removeprefix("--speculative-config=")) for text in texts]
    assert given == ([{**expected, **safe}] if expected else [])


def test_a_method_with_a_draft_is_refused_where_none_is_known_also_for_an_unknown_model() -> None:
    for method in ("EAGLE3", "DraftModel"):
        found = resolved(asked(method=method), None, "org/model", EngineProfile.BALANCED)
        assert isinstance(found, Refusal)
        assert "Name one in `spec.engine.speculative.model`." in found.message
    assert resolved(asked(method="Auto"), None, "org/model", EngineProfile.LATENCY) == SpeculativeSpec()


@pytest.mark.parametrize(
    ("model", "profile", "method", "said"),
    [
        ("openai/gpt-oss-20b", "Balanced", "eagle3", ""),
        ("deepseek-ai/DeepSeek-V3", "Balanced", "mtp", ""),
        ("Qwen/Qwen3-8B", "Latency", "draft_model", ""),
        ("Qwen/Qwen3-8B", "Balanced", "", "accepts is not published"),
        ("zai-org/GLM-4.5-Air", "Smallest", "", "accepts is not published"),
        ("openai/gpt-oss-20b", "Throughput", "", "with the profile `Throughput`"),
        ("google/gemma-3-1b-it", "Balanced", "", "No draft is known"),
    ],
)
def test_auto_guesses_by_the_profile_and_by_what_is_published(model: str, profile: str, method: str, said: str) -> None:
    spec = EngineSpec(profile=EngineProfile(profile), speculative=asked(method="Auto"))
    found = resolved(spec.speculative, facts_of(model), model, spec.profile)
    assert isinstance(found, SpeculativeSpec)
    drafting, remark = drafting_of(found), remark_of_speculation(spec, facts_of(model), model)
    assert (drafting.method if drafting else "") == method
    assert said in remark
    assert bool(said) == bool(remark)


def test_a_known_head_is_counted_with_its_weights_and_any_other_is_not() -> None:
    known = speculation_of(asked(method="EAGLE3", model=f"hf://{HEAD}", tokens=6))
    assert known == Speculation(6, head_bytes=800_000_000, draft=HEAD)
    assert speculation_of(asked(method="EAGLE3", model="hf://org/head")) == Speculation(3, draft="org/head")


@pytest.mark.parametrize(
    ("model", "fields", "draft", "said"),
    [
        ("Qwen/Qwen3-8B", {"method": "MTP"}, "", "no layers that predict several tokens"),
        ("Qwen/Qwen3-Embedding-8B", {"method": "Ngram"}, "", "generates no text"),
        ("Qwen/Qwen3-8B", {"method": "DraftModel"}, "google/gemma-3-1b-it", "vocabulary of 262,144 is not"),
        ("Qwen/Qwen3-8B", {"method": "DraftModel"}, "BAAI/bge-m3", "does not generate text"),
        ("Qwen/Qwen3-8B", {"method": "DraftModel"}, "Qwen/Qwen3-0.6B", ""),
        ("Qwen/Qwen3-8B", {"method": "Ngram"}, "", ""),
    ],
)
def test_what_vllm_would_refuse_is_refused(model: str, fields: Manifest, draft: str, said: str) -> None:
    facts = replace(facts_of(model), is_pooling="Embedding" in model)
    found = refusal_of_speculation(EngineSpec(speculative=asked(**fields)), facts, facts_of(draft) if draft else None)
    assert bool(found) is bool(said)
    assert found is None or said in found.message


@pytest.mark.parametrize(
    ("args", "revision", "source", "cached", "said"),
    [
        ((), None, "hf://org/name", True, ""),
        ((), None, "pvc://a/b", False, ""),
        ((), None, "pvc://a/b", True, "asks no hub"),
        (("--trust-remote-code",), None, "hf://org/name", False, "runs code of the draft too"),
        (("--trust-remote-code",), "main", "hf://org/name", False, "runs code of the draft too"),
        (("--trust-remote-code",), "0" * 40, "hf://org/name", False, ""),
    ],
)
def test_a_draft_brings_no_code_that_can_change_and_is_where_an_engine_looks(
    args: tuple[str, ...], revision: str | None, source: str, cached: object, said: str
) -> None:
    speculative = asked(method="DraftModel", model="hf://org/draft", revision=revision)
    found = refusal_of_draft(
        EngineSpec(args=args, speculative=speculative), ModelSpec(source=source), cached=bool(cached)
    )
    assert bool(found) is bool(said)
    assert found is None or said in found.message


@pytest.mark.parametrize(
    ("args", "model", "refused"),
    [
        (("--trust-remote-code",), "openai/gpt-oss-20b", True),
        (("--trust-remote-code",), "deepseek-ai/DeepSeek-V3", False),
        ((), "openai/gpt-oss-20b", False),
    ],
)
def test_a_draft_that_auto_finds_brings_no_code_either(args: tuple[str, ...], model: str, *, refused: bool) -> None:
    spec = EngineSpec(args=args, speculative=asked(method="Auto"))
    found = refusal_of_draft(spec, ModelSpec(source=f"hf://{model}"), cached=True)
    assert (found is not None) == refused


@for_each(DRAFTS)
def test_the_page_about_drafts_says_what_the_table_has(draft: Drafter) -> None:
    published = f"{draft.accepted:g}, {draft.accepted_of} guessed" if draft.accepted else "not published"
    ending = f" | {draft.repository} | {draft.licence} | {published} |"
    rows = [line for line in PAGE.read_text().splitlines() if line.endswith(ending)]
    assert len(rows) == 1
    assert draft.models[0].partition("/")[2] in rows[0]


@for_each([draft for draft in DRAFTS if not draft.is_head])
def test_a_known_draft_model_has_the_vocabulary_of_its_models(draft: Drafter) -> None:
    assert {facts_of(model).vocabulary for model in draft.models} == {facts_of(draft.repository).vocabulary}
