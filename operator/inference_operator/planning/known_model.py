"""The facts of a model before an engine loads it: from the catalogue or an inspection."""

import re
from dataclasses import dataclass, replace
from functools import lru_cache

from inference_operator.models.catalogue import entry
from inference_operator.models.config import Config, NotUnderstood
from inference_operator.models.drafts import published_part
from inference_operator.models.entry import Entry, entry_facts
from inference_operator.models.facts import Kernel, ModelFacts
from inference_operator.models.source import HubModel, ModelSource
from inference_operator.sizing.shape import Shape

QUANTISED = re.compile(r"(?i)fp8|fp4|awq|gptq|int4|int8|w4a|w8a|Kimi-K2-Thinking")
"""Names of checkpoints with quantized weights. Some describe the quantization in `hf_quant_config.json`, which the
catalogue does not contain; counted without it, they would look two to four times as large."""
UNSTATED_CURE = "Use a checkpoint whose config.json says how."
MOST_KEPT = 64


@dataclass(frozen=True, slots=True)
class KnownModel:
    facts: ModelFacts | NotUnderstood
    origin: str
    """Where the facts come from, as users read it."""
    architecture: str = ""
    """The architecture in its config, also where that is not sufficient; empty if there is none."""


def known_model(source: ModelSource, revision: str | None = None) -> KnownModel | None:
    if isinstance(source, HubModel) and revision is None and not source.file:
        return _catalogued(source.repository)
    return None


def with_draft(shape: Shape, model: str = "") -> Shape:
    """The shape with the facts of its draft model, if the catalogue has it, and what is published of the guesses.

    Examples:
        >>> from inference_operator.sizing.shape import Speculation
        >>> with_draft(Shape(speculation=Speculation(4, draft="Qwen/Qwen3-0.6B"))).speculation.draft_facts.layers
        28
    """
    speculation = shape.speculation
    if speculation is None:
        return shape
    guesses = bool(speculation.draft) or speculation.own_layer
    accepted = published_part(model, speculation.draft, speculation.tokens) if guesses else None
    speculation = replace(speculation, accepted=accepted)
    if not speculation.draft:
        return replace(shape, speculation=speculation)
    known = known_model(HubModel(speculation.draft), speculation.draft_revision)
    facts = known.facts if known and isinstance(known.facts, ModelFacts) else None
    return replace(shape, speculation=replace(speculation, draft_facts=facts))


def inspected_model(own: Entry) -> KnownModel:
    facts = entry_facts(own)
    whole = replace(facts, is_whole=True) if isinstance(facts, ModelFacts) else facts
    return KnownModel(whole, f"its files ({own.source})", Config(own.config).architecture)


def fallback_model(source: ModelSource, revision: str | None, why: str) -> KnownModel | None:
    """The model in the catalogue, where the hub could not be asked; its plan keeps the reason as an assumption.

    Examples:
        >>> fallback_model(HubModel("Qwen/Qwen3-8B"), None, "the hub cannot be reached.").facts.assumptions
        ('the config in the catalogue, because the hub could not be asked (the hub cannot be reached)',)
    """
    known = known_model(source, revision)
    if known is None or not isinstance(known.facts, ModelFacts):
        return known
    reason = f"the config in the catalogue, because the hub could not be asked ({why.rstrip('.')})"
    return replace(known, facts=replace(known.facts, assumptions=(*known.facts.assumptions, reason)))


@lru_cache(maxsize=MOST_KEPT)
def _catalogued(repository: str) -> KnownModel | None:
    listed = entry(repository)
    if listed is None:
        return None
    facts = entry_facts(listed)
    silent = isinstance(facts, ModelFacts) and facts.quantization.kernel is Kernel.NONE and listed.weights is None
    if silent and QUANTISED.search(repository):
        problem = "is not in config.json, although the name says that weights are quantised."
        facts = NotUnderstood("quantization_config", problem, UNSTATED_CURE)
    origin = f"the catalogue ({listed.source}), since its own files were not read"
    return KnownModel(facts, origin, Config(listed.config).architecture)
