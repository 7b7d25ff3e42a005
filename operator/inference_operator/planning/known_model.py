"""What is known of a model before an engine has loaded it."""

import re
from dataclasses import dataclass, replace
from functools import lru_cache

from inference_operator.models.catalogue import entry
from inference_operator.models.entry import Entry
from inference_operator.models.facts import Kernel, ModelFacts
from inference_operator.models.model import model_facts
from inference_operator.models.not_understood import NotUnderstood
from inference_operator.models.source import HubModel, ModelSource
from inference_operator.sizing.shape import Shape

QUANTISED = re.compile(r"(?i)fp8|fp4|awq|gptq|int4|int8|w4a|w8a|Kimi-K2-Thinking")
"""Names of checkpoints with quantised weights. Some keep how in `hf_quant_config.json`, which the catalogue has not:
counted as they are, they would be taken for two to four times as large."""
UNTOLD_CURE = "Use a checkpoint whose config.json says how."

MOST_KEPT = 64
"""Models whose facts are not counted anew in each round."""


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A model whose config and size are known."""

    facts: ModelFacts | NotUnderstood
    """What sizing needs, or why its config says too little."""
    origin: str
    """Where they come from, for people."""


def known_model(source: ModelSource, revision: str | None = None) -> KnownModel | None:
    """What the catalogue knows of the model; None if it is not in it. It knows of no revision but the default.

    Examples:
        >>> known_model(HubModel("Qwen/Qwen3-8B")).facts.layers
        36
        >>> known_model(HubModel("nobody/nothing")) is None
        True
    """
    return _catalogued(source.repository) if isinstance(source, HubModel) and revision is None else None


def with_draft(shape: Shape) -> Shape:
    """The same, with the facts of its draft model where the catalogue has it.

    Examples:
        >>> from inference_operator.sizing.shape import Speculation
        >>> with_draft(Shape(speculation=Speculation(4, draft="Qwen/Qwen3-0.6B"))).speculation.draft_facts.layers
        28
    """
    asked = shape.speculation
    if asked is None or not asked.draft:
        return shape
    known = known_model(HubModel(asked.draft), asked.draft_revision)
    facts = known.facts if known and isinstance(known.facts, ModelFacts) else None
    return replace(shape, speculation=replace(asked, draft_facts=facts))


def inspected_model(found: Entry) -> KnownModel:
    """What the model's own files say."""
    return KnownModel(model_facts(found.config, found.weights), f"its files ({found.source})")


@lru_cache(maxsize=MOST_KEPT)
def _catalogued(repository: str) -> KnownModel | None:
    found = entry(repository)
    if found is None:
        return None
    facts = model_facts(found.config, found.weights)
    silent = isinstance(facts, ModelFacts) and facts.quantization.kernel is Kernel.NONE and found.weights is None
    if silent and QUANTISED.search(repository):
        problem = "is not in config.json, although the name says that weights are quantised."
        facts = NotUnderstood("quantization_config", problem, UNTOLD_CURE)
    return KnownModel(facts, f"the catalogue ({found.source})")
