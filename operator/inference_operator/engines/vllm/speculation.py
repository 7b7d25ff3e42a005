"""Speculative decoding of `vllm serve` (0.32.0, `config/speculative.py`): from field to sizing and to its argument."""

import json
from collections.abc import Iterator, Mapping

from inference_operator.api.engine import EngineSpec, SpeculativeSpec
from inference_operator.api.engine_kind import WITH_DRAFT, EngineProfile, SpeculativeMethod
from inference_operator.api.model import ModelSpec
from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.engines.vllm.flags import REMOTE_CODE
from inference_operator.engines.vllm.options import is_on
from inference_operator.engines.vllm.traits import only_pools, predicts
from inference_operator.models.drafts import PREDICTING, Drafter, known_draft, named_draft
from inference_operator.models.facts import ModelFacts
from inference_operator.models.source import COMMIT, HUB_SCHEME
from inference_operator.sizing.plan import Drafting
from inference_operator.sizing.shape import Speculation

CONFIG = "--speculative-config"
NAMES: Mapping[SpeculativeMethod, str] = {
    SpeculativeMethod.MTP: "mtp",
    SpeculativeMethod.EAGLE3: "eagle3",
    SpeculativeMethod.DRAFT_MODEL: "draft_model",
    SpeculativeMethod.NGRAM: "ngram",
}
FIELD = "spec.engine.speculative"
USUAL_TOKENS = 3
"""Of a head that is not in the table, and of texts: vLLM's own examples (`docs/features/speculative_decoding`)."""
_STATING = ("nemotron_h",)
"""Types of models that predict several tokens only if their config says so."""


def resolved(
    spec: SpeculativeSpec, facts: ModelFacts | None, model: str, profile: EngineProfile
) -> SpeculativeSpec | Refusal:
    """The method with its draft and number of tokens, `Off` where `Auto` knows none; or that a named method needs one.

    `Auto` never guesses for the profile `Throughput`: full batches have no time to spare. Only for `Latency` it guesses
    where nothing is published of how many tokens are accepted.
    """
    layers = facts.predicting_layers if facts and predicts(facts) else None
    draft, method = _draft(spec, model), spec.method
    if method is SpeculativeMethod.AUTO:
        if (not layers and draft is None) or not _may_guess(profile, bool(layers), draft, model):
            return SpeculativeSpec()
        guessing = SpeculativeMethod.EAGLE3 if draft and draft.is_head else SpeculativeMethod.DRAFT_MODEL
        method = SpeculativeMethod.MTP if layers or draft is None else guessing
    if method in WITH_DRAFT and not (spec.model or draft):
        return _refusal(f"No draft for the method `{method}` is known for this model.", f"Name one in `{FIELD}.model`.")
    usual = (layers or 1) if method is SpeculativeMethod.MTP else draft.tokens if draft else USUAL_TOKENS
    source = spec.model or (f"hf://{draft.repository}" if draft and method in WITH_DRAFT else None)
    return spec.model_copy(update={"method": method, "tokens": spec.tokens or usual, "model": source})


def _may_guess(profile: EngineProfile, layers: bool, draft: Drafter | None, model: str) -> bool:  # noqa: FBT001
    published = model in PREDICTING if layers else draft is not None and draft.accepted > 0
    return profile is EngineProfile.LATENCY or (published and profile is not EngineProfile.THROUGHPUT)


def speculation_of(spec: SpeculativeSpec) -> Speculation | None:
    """The request in the types of sizing; None without one, and while `Auto` is not resolved."""
    drafting = drafting_of(spec)
    if drafting is None:
        return None
    known = named_draft(drafting.draft)
    return Speculation(
        drafting.tokens,
        own_layer=spec.method is SpeculativeMethod.MTP,
        head_bytes=known.head_bytes if known and spec.method is SpeculativeMethod.EAGLE3 else 0,
        draft=drafting.draft,
        draft_revision=drafting.draft_revision or None,
    )


def drafting_of(spec: SpeculativeSpec) -> Drafting | None:
    name = NAMES.get(spec.method)
    return Drafting(name, spec.tokens or USUAL_TOKENS, spec.repository, spec.revision or "") if name else None


def speculation_arguments(drafting: Drafting | None) -> Iterator[str]:
    """The argument. A draft is read from safetensors only: nobody has looked for pickle files in it."""
    if drafting is None:
        return
    config: dict[str, object] = {"method": drafting.method, "num_speculative_tokens": drafting.tokens}
    if drafting.draft:
        config |= {"model": drafting.draft, "draft_load_config": {"load_format": "safetensors"}}
    if drafting.draft_revision:
        config["revision"] = drafting.draft_revision
    yield f"{CONFIG}={json.dumps(config, separators=(',', ':'))}"


def remark_of_speculation(engine: EngineSpec, facts: ModelFacts, model: str) -> str:
    spec = engine.speculative
    if spec.method is not SpeculativeMethod.AUTO or resolved(spec, facts, model, engine.profile) != SpeculativeSpec():
        return ""
    if engine.profile is EngineProfile.THROUGHPUT:
        return f"`{FIELD}` guesses no tokens with the profile `Throughput`; name a `method` to have it guess."
    if resolved(spec, facts, model, EngineProfile.LATENCY) != SpeculativeSpec():
        return (
            f"How many guesses this model accepts is not published, so `{FIELD}` guesses no tokens; name a `method`, or"
            " set `spec.engine.profile: Latency`."
        )
    return f"No draft is known for this model, so `{FIELD}` guesses no tokens; name a `method`, and a `model` for it."


def refusal_of_speculation(engine: EngineSpec, facts: ModelFacts, draft: ModelFacts | None) -> Refusal | None:
    spec = engine.speculative
    if spec.method is SpeculativeMethod.OFF:
        return None
    if facts.is_pooling:
        return _refusal("The model generates no text, so there is nothing to guess.", "Remove it.")
    if spec.method is SpeculativeMethod.MTP:
        return _without_layers(spec, facts)
    return _of_draft(facts, draft) if draft and spec.method is SpeculativeMethod.DRAFT_MODEL else None


def refusal_of_draft(engine: EngineSpec, model: ModelSpec, *, cached: bool) -> Refusal | None:
    """The refusal of a draft that brings code which can change, or that no Job downloads to the claim; or None."""
    spec = engine.speculative
    name = model.source.removeprefix(HUB_SCHEME)
    draft = _draft(spec, name) if spec.method is SpeculativeMethod.AUTO else None
    if spec.method not in WITH_DRAFT and not (draft and _may_guess(engine.profile, False, draft, name)):  # noqa: FBT003
        return None
    if is_on(engine.args, REMOTE_CODE) and not COMMIT.fullmatch(spec.revision or ""):
        problem = f"`{REMOTE_CODE}` runs code of the draft too, and without a commit it can change."
        cure = f"Set `{FIELD}.model` with its `method`, and `revision` to a commit with 40 hexadecimal digits."
        return _refusal(problem, cure)
    if cached and not model.source.startswith(HUB_SCHEME):
        problem = "An engine with `spec.cache` asks no hub, and a draft is downloaded with a model of the hub only."
        return _refusal(problem, "Remove `spec.cache`, or use the method `MTP` or `Ngram`.")
    return None


def _of_draft(facts: ModelFacts, draft: ModelFacts) -> Refusal | None:
    if only_pools(draft):
        return _refusal("The draft model does not generate text.", "Use one that does, or the method `Ngram`.")
    if predicts(draft) and draft.hidden_size != facts.hidden_size:
        problem = (
            "vLLM takes layers that predict several tokens from this draft model, and they are"
            f" {draft.hidden_size:,} wide, not {facts.hidden_size:,} as the model."
        )
        return _refusal(problem, "Use a draft model without such layers, or the method `MTP`.")
    if draft.vocabulary == facts.vocabulary or _is_assumed(draft) or _is_assumed(facts):
        return None
    problem = f"The draft model's vocabulary of {draft.vocabulary:,} is not the model's of {facts.vocabulary:,}."
    return _refusal(problem, "Use a draft model with the same one, or the method `Ngram`.")


def _without_layers(spec: SpeculativeSpec, facts: ModelFacts) -> Refusal | None:
    """The refusal of multi-token prediction by a model that has no layers for it, or of a number of tokens."""
    layers, tokens = facts.predicting_layers, spec.tokens or 1
    absent = layers == 0 or (layers is None and facts.is_whole and facts.model_type in _STATING)
    if (facts.architecture and not predicts(facts)) or absent:
        problem = "The model has no layers that predict several tokens."
        return _refusal(problem, "Use the method `DraftModel` or `Ngram`.")
    if layers and tokens > layers and tokens % layers:
        problem = f"{tokens} speculative tokens are not divisible by the {layers} layers that predict them."
        return _refusal(problem, f"Use a multiple of {layers}.")
    return None


def _draft(spec: SpeculativeSpec, model: str) -> Drafter | None:
    """The row of the draft that is named, or the first one that the method takes."""
    if spec.model:
        return named_draft(spec.repository)
    kinds = {
        SpeculativeMethod.AUTO: (True, False),
        SpeculativeMethod.EAGLE3: (True,),
        SpeculativeMethod.DRAFT_MODEL: (False,),
    }
    found = (known_draft(model, head=head) for head in kinds.get(spec.method, ()))
    return next((draft for draft in found if draft), None)


def _is_assumed(facts: ModelFacts) -> bool:
    return any(text.startswith("a vocabulary") for text in facts.assumptions)


def _refusal(problem: str, cure: str) -> Refusal:
    return Refusal(Reason.INVALID_SPEC, FIELD, problem, cure)
