"""What vLLM's registry says of an architecture: whether it pools, has states or stages, or predicts several tokens.

`python -m e2e.engines.vllm_options` writes the table inside the engine's image (0.32.0,
`model_executor/models/registry.py`, `config/model.py`, `config/speculative.py`).
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.engines.vllm.options import VERSION, value_of
from inference_operator.models.facts import ModelFacts
from inference_operator.text_tables import rows

RUNNER, CONVERT = "--runner", "--convert"
HF_OVERRIDES = "--hf-overrides"
POOLING, GENERATE = "pooling", "generate"
_RANKING = re.compile(r"(?i)rerank")
_SCORING = ("ForSequenceClassification", "ForRanking", "ForRetrieval", "RewardModel", "ColBERT")
_ROWS = rows(__package__, f"traits-{VERSION}.txt")


def _named(trait: str) -> frozenset[str]:
    return frozenset(name for kind, name in _ROWS if kind == trait)


_POOLS, _GENERATES, _HYBRIDS, _PREDICTS = (_named(trait) for trait in ("pooling", "generate", "hybrid", "mtp"))
_ONE_STAGE = _named("one-stage")
_POOLING_SUFFIXES = tuple(_named("pooling-suffix"))
_GENERATING_SUFFIXES = ("ChatModel", "LMHeadModel")
"""Exceptions of the suffix `Model`."""


def served_facts(facts: ModelFacts, args: Sequence[str]) -> ModelFacts:
    """The facts as vLLM serves the model with these arguments.

    Examples:
        >>> from inference_operator.models.catalogue import entry
        >>> from inference_operator.models.entry import entry_facts
        >>> facts = entry_facts(entry("Qwen/Qwen3-8B"))
        >>> [served_facts(facts, args).is_pooling for args in ([], ["--runner=pooling"], ["--convert", "embed"])]
        [False, True, True]
    """
    pools = _pools(facts, args)
    unknown = facts.architecture in _HYBRIDS and not facts.has_states and not facts.names_attention
    return replace(
        facts,
        is_pooling=pools,
        is_encoder=pools and facts.is_encoder,
        has_unknown_states=unknown,
        has_stages=facts.architecture not in _ONE_STAGE,
    )


def _pools(facts: ModelFacts, args: Sequence[str]) -> bool:
    runner, convert = value_of(args, RUNNER), value_of(args, CONVERT)
    if runner in (POOLING, GENERATE):
        return runner == POOLING
    return pools_by_default(facts) or (convert is not None and convert not in ("auto", "none"))


def pools_by_default(facts: ModelFacts) -> bool:
    name = facts.architecture
    if facts.side.has_pooling_module or name in _POOLS:
        return True
    return name not in _GENERATES and name.endswith(_POOLING_SUFFIXES) and not name.endswith(_GENERATING_SUFFIXES)


def remark_of_ranking(facts: ModelFacts, args: Sequence[str], model: str) -> str:
    """What a model that ranks documents by its answers cannot do as it is; empty for every other model.

    Such models say yes or no to a query and a document. vLLM scores with them only as a classifier (0.32.0, docs,
    `models/pooling_models/scoring.md`).

    Examples:
        >>> from inference_operator.models.catalogue import entry
        >>> from inference_operator.models.entry import entry_facts
        >>> facts = entry_facts(entry("Qwen/Qwen3-8B"))
        >>> remark_of_ranking(facts, [], "Qwen/Qwen3-Reranker-8B").partition(". ")[0]
        'The model ranks documents, and vLLM serves it as one that generates text: `/rerank` and `/score` cannot work'
        >>> remark_of_ranking(facts, [], "Qwen/Qwen3-8B")
        ''
    """
    name = model.rstrip("/").rpartition("/")[2]
    scores = facts.architecture.endswith(_SCORING) or value_of(args, CONVERT) == "classify"
    if not _RANKING.search(name) or scores or not facts.architecture or value_of(args, HF_OVERRIDES) is not None:
        return ""
    served = "embeds text" if facts.is_pooling else "generates text"
    return (
        f"The model ranks documents, and vLLM serves it as one that {served}: `/rerank` and `/score` cannot work."
        " Use a checkpoint that was converted for sequence classification (`…-seq-cls`), or ask the administrator to"
        f" allow `{HF_OVERRIDES}`, and add it with the value of the model's card and `{RUNNER}={POOLING}`."
    )


def predicts(facts: ModelFacts) -> bool:
    return not _PREDICTS.isdisjoint((facts.architecture, facts.model_type))


def only_pools(facts: ModelFacts) -> bool:
    """Whether vLLM's class of the model generates no text (0.32.0, `config/model.py`, `__post_init__`)."""
    return facts.architecture in _POOLS


def refusal_of_runner(facts: ModelFacts, args: Sequence[str]) -> Refusal | None:
    if value_of(args, RUNNER) != GENERATE or not only_pools(facts):
        return None
    problem = f"`{RUNNER}={GENERATE}` is not possible: models of `{facts.architecture}` do not generate text."
    return Refusal(Reason.INVALID_SPEC, "spec.engine.args", problem, "Remove it.")
