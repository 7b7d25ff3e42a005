"""Requests that vLLM refuses at its start for a model, beside its precision: drafts, multi-token prediction, runners."""

from dataclasses import replace
from typing import Any

import pytest

from inference_operator.api.engine import EngineSpec, SpeculativeSpec
from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.engines.vllm.arguments import refusal_of_args
from inference_operator.engines.vllm.vllm import Vllm
from inference_operator.models.facts import ModelFacts
from inference_operator.models.model import model_facts
from inference_operator.models.side_files import SideFiles
from inference_operator.planning.known_model import with_draft
from tests.sizing.pools import model

ENGINE, IMAGE = Vllm(), "docker.io/vllm/vllm-openai:v0.32.0"
LARGE, SMALL, QWEN3 = "Qwen/Qwen2.5-72B-Instruct", "Qwen/Qwen2.5-0.5B-Instruct", "Qwen/Qwen3-8B"
CHATGLM: dict[str, Any] = {
    "architectures": ["ChatGLMModel"],
    "model_type": "chatglm",
    "num_layers": 40,
    "hidden_size": 4096,
    "ffn_hidden_size": 13696,
    "kv_channels": 128,
    "num_attention_heads": 32,
    "multi_query_group_num": 2,
    "padded_vocab_size": 151552,
    "seq_length": 131072,
}


def refusal(facts: ModelFacts, *args: str, name: str = QWEN3, **speculative: object) -> Refusal | None:
    """Of a request with these arguments and these fields of `spec.engine.speculative`, as planning resolves it."""
    asked = SpeculativeSpec.model_validate(speculative)
    spec = ENGINE.resolved(EngineSpec(args=args, speculative=asked), facts, name)
    if isinstance(spec, Refusal):
        return spec
    return ENGINE.check_request(spec, ENGINE.as_served(facts, spec), with_draft(ENGINE.shape(spec)), image=IMAGE)


def drafted(model_: str, tokens: int | None = None) -> dict[str, object]:
    return {"method": "DraftModel", "model": f"hf://{model_}", "tokens": tokens}


@pytest.mark.parametrize(
    ("name", "speculative", "words"),
    [
        (LARGE, drafted(SMALL, 5), "vocabulary of 151,936 is not the model's of 152,064"),
        (QWEN3, drafted("BAAI/bge-m3", 2), "The draft model does not generate text."),
        ("Qwen/Qwen3.5-27B", drafted("Qwen/Qwen3.5-35B-A3B", 2), "are 2,048 wide, not 5,120"),
        (QWEN3, {"method": "MTP", "tokens": 2}, "no layers that predict several tokens"),
        (LARGE, {"method": "DraftModel", "tokens": 5}, "No draft for the method `DraftModel` is known"),
    ],
)
def test_speculation_that_does_not_go_with_the_model_is_refused(
    name: str, speculative: dict[str, object], words: str
) -> None:
    found = refusal(model(name), name=name, **speculative)
    assert found
    assert found.field == "spec.engine.speculative"
    assert words in found.message


@pytest.mark.parametrize(
    ("name", "speculative"),
    [
        (QWEN3, drafted("Qwen/Qwen3-0.6B", 5)),
        (LARGE, {"method": "EAGLE3", "model": "hf://org/eagle-head", "tokens": 5}),
        (LARGE, drafted("org/unknown", 5)),
        (QWEN3, {"method": "Ngram", "tokens": 2}),
        ("deepseek-ai/DeepSeek-V3", {"method": "MTP", "tokens": 2}),
        ("Qwen/Qwen3.5-27B", {"method": "MTP"}),
    ],
)
def test_speculation_that_vllm_takes_is_not_refused(name: str, speculative: dict[str, object]) -> None:
    assert refusal(model(name), name=name, **speculative) is None


def test_a_draft_without_a_number_of_tokens_which_vllm_refuses_gets_one() -> None:
    asked = SpeculativeSpec.model_validate(drafted(LARGE))
    spec = ENGINE.resolved(EngineSpec(speculative=asked), model(LARGE), LARGE)
    assert isinstance(spec, EngineSpec)
    drafting = ENGINE.drafting(spec)
    assert drafting
    assert (drafting.draft, drafting.tokens) == (LARGE, 3)
    assert refusal(model(LARGE), name=LARGE, **drafted(LARGE)) is None


@pytest.mark.parametrize(
    "argument", ["--spec-method=mtp", "--spec-model=org/draft", "--spec-tokens=2", "--speculative-config={}"]
)
def test_raw_arguments_of_speculation_name_the_field(argument: str) -> None:
    found = refusal_of_args((argument,), image=IMAGE)
    assert found
    assert found.reason is Reason.MANAGED_ARGUMENT
    assert "spec.engine.speculative" in found.message


def test_layers_that_are_not_in_the_checkpoint_predict_nothing() -> None:
    facts = model("deepseek-ai/DeepSeek-V3")
    assert refusal(replace(facts, predicting_layers=0), method="MTP")
    assert refusal(replace(facts, predicting_layers=2), method="MTP", tokens=3)
    assert refusal(replace(facts, predicting_layers=2), method="MTP", tokens=4) is None
    assert refusal(replace(facts, predicting_layers=3), method="MTP", tokens=2) is None


def test_a_type_that_states_its_layers_has_none_without_them() -> None:
    facts = model("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16")
    assert refusal(replace(facts, is_whole=True), method="MTP")
    assert refusal(replace(facts, is_whole=True, predicting_layers=1), method="MTP") is None
    assert refusal(facts, method="MTP") is None, "the catalogue does not tell"


def served(config: dict[str, Any], *args: str, side: SideFiles | None = None) -> ModelFacts:
    found = model_facts(config, side=side or SideFiles())
    assert isinstance(found, ModelFacts), found
    return ENGINE.as_served(found, EngineSpec(args=args))


def test_the_registry_says_which_models_generate_text() -> None:
    assert not served(CHATGLM).is_pooling
    assert served(CHATGLM, "--runner=pooling").is_pooling
    assert not served({**CHATGLM, "architectures": ["UltravoxModel"]}).is_pooling
    assert served({**CHATGLM, "architectures": ["BertModel"]}).is_encoder
    assert served({**CHATGLM, "architectures": ["Unheard0fModel"]}).is_pooling
    assert served(
        {**CHATGLM, "architectures": ["Qwen3ForCausalLM"]}, side=SideFiles(has_pooling_module=True)
    ).is_pooling


@pytest.mark.parametrize("args", [("--runner=pooling",), ("--convert=embed",), ("--runner", "pooling")])
def test_arguments_make_a_model_that_generates_pool(args: tuple[str, ...]) -> None:
    facts = model(QWEN3)
    pooled = ENGINE.as_served(facts, EngineSpec(args=args))
    assert (facts.is_pooling, pooled.is_pooling, pooled.is_encoder) == (False, True, False)


def test_a_model_that_pools_is_not_asked_to_generate() -> None:
    found = refusal(served({**CHATGLM, "architectures": ["BertModel"]}), "--runner=generate")
    assert found
    assert "do not generate text" in found.message


@pytest.mark.parametrize(
    ("name", "architecture", "args", "said"),
    [
        ("Qwen/Qwen3-Reranker-8B", "Qwen3ForCausalLM", (), "generates text"),
        ("/models/bge-reranker-v2-gemma", "GemmaForCausalLM", (), "generates text"),
        ("Qwen/Qwen3-Reranker-8B", "Qwen3ForCausalLM", ("--runner=pooling",), "embeds text"),
        ("Qwen/Qwen3-Reranker-8B", "Qwen3ForCausalLM", ("--runner=pooling", "--hf-overrides={}"), ""),
        ("tomaarsen/Qwen3-Reranker-0.6B-seq-cls", "Qwen3ForSequenceClassification", (), ""),
        ("BAAI/bge-reranker-v2-m3", "XLMRobertaForSequenceClassification", (), ""),
        (QWEN3, "Qwen3ForCausalLM", (), ""),
    ],
)
def test_a_model_that_ranks_by_its_answers_says_that_it_gives_no_scores(
    name: str, architecture: str, args: tuple[str, ...], said: str
) -> None:
    spec = EngineSpec(args=args)
    facts = ENGINE.as_served(replace(model(QWEN3), architecture=architecture), spec)
    remark = ENGINE.remark(facts, spec, name)
    assert bool(remark) is bool(said)
    assert said in remark
