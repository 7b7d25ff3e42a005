"""The longest sequence of a model, derived as vLLM derives it (0.32.0, `vllm/config/model.py`)."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from inference_operator.models.config import LARGEST, Config
from inference_operator.models.side_files import SideFiles

CONTEXT_FIELDS = (
    *("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "model_max_length"),
    *("max_target_positions", "max_sequence_length", "max_seq_length", "seq_len"),
)
"""Fields with the longest sequence; the smallest counts (vLLM 0.32.0, `transformers_utils/
model_arch_config_convertor.py`, `derive_max_model_len_and_key`)."""
UNSCALED_ROPE = ("su", "longrope", "llama3", "yarn", "deepseek_yarn", "deepseek_llama_scaling")
"""RoPE types whose factor is already part of `max_position_embeddings` (vLLM 0.32.0, `_get_and_verify_max_len`)."""
POOLING_ENDINGS = (
    *("ForTextEncoding", "EmbeddingModel", "ForSequenceClassification", "ForTokenClassification"),
    *("ForAudioClassification", "ForImageClassification", "ForVideoClassification", "ClassificationModel"),
    *("ForRewardModeling", "RewardModel", "ForMaskedLM", "ForRetrieval", "ForRanking"),
)
"""Endings of architectures that pool (vLLM 0.32.0, `config/model.py`, `_SUFFIX_TO_DEFAULTS`; the last three are in
`model_executor/models/registry.py`, `_EMBEDDING_MODELS` and `_LATE_INTERACTION_MODELS`)."""
GENERATING = (
    *("ChatModel", "LMHeadModel", "ChatGLMModel", "UltravoxModel"),
    *("MiDashengLMModel", "MossAudioModel", "Qwen2_5OmniModel"),
)
"""Endings in `Model` that generate text (vLLM 0.32.0, `_SUFFIX_TO_DEFAULTS`, and names of its registry)."""

PER_LAYER = "per layer"
"""Stands for the type of rotary positions of a model whose kinds of layers have several."""
_NAME, _MOST_PARAMETERS, _LARGEST_PARAMETER = re.compile(r"[a-z]\w{0,63}", re.ASCII), 32, 1e15
"""Bounds of the parameters of rotary positions, which a plan and an argument repeat."""


@dataclass(frozen=True, slots=True)
class Context:
    """The context of a model in tokens; None where its files do not tell it."""

    derived: int | None
    """The length that vLLM uses without `--max-model-len`."""
    longest: int | None
    """The largest `--max-model-len` that vLLM accepts. Larger than `derived` with LongRoPE."""


def is_pooling(architecture: str, side: SideFiles) -> bool:
    """Whether vLLM serves the model for embeddings, classes or scores, and not for text.

    Examples:
        >>> is_pooling("XLMRobertaForSequenceClassification", SideFiles()), is_pooling("BertModel", SideFiles())
        (True, True)
        >>> is_pooling("Qwen3ForCausalLM", SideFiles()), is_pooling("Qwen3ForCausalLM", SideFiles(None, None, True))
        (False, True)
    """
    whole = architecture.endswith("Model") and not architecture.endswith(GENERATING)
    return side.has_pooling_module or whole or architecture.endswith(POOLING_ENDINGS)


def model_context(config: Config, side: SideFiles) -> Context:
    """The context that vLLM derives from these files.

    Examples:
        >>> yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
        >>> model_context(Config({"max_position_embeddings": 131072, "rope_scaling": yarn}), SideFiles()).derived
        131072
        >>> linear = {"type": "linear", "factor": 4.0}
        >>> model_context(Config({"max_position_embeddings": 4096, "rope_scaling": linear}), SideFiles()).derived
        16384
        >>> phi = {"max_position_embeddings": 131072, "original_max_position_embeddings": 4096}
        >>> model_context(Config({**phi, "rope_scaling": {"type": "longrope"}}), SideFiles())
        Context(derived=4096, longest=131072)
        >>> reranker = Config({"architectures": ["XLMRobertaForSequenceClassification"],
        ...     "max_position_embeddings": 8194, "position_embedding_type": "absolute"})
        >>> model_context(reranker, SideFiles(tokenizer_max_length=8192)).derived
        8192
        >>> model_context(Config({}), SideFiles()).derived is None
        True
    """
    stated = [name for name in CONTEXT_FIELDS if name in config.fields] or CONTEXT_FIELDS
    limits = [limit for name in stated if (limit := config.positive(name))]
    own = config.positive("model_max_length") or min(limits, default=None)
    absolute = is_pooling(config.architecture, side) and config.text("position_embedding_type") == "absolute"
    if own and absolute and side.tokenizer_max_length:
        own = min(own, side.tokenizer_max_length)
    ropes = list(_ropes(config))
    longest = side.sentence_max_length or (_scaled(own, config, ropes) if own else None)
    if any(_rope_type(rope) == "longrope" for rope in ropes):
        return Context(config.positive("original_max_position_embeddings") or longest, longest)
    return Context(longest, longest)


def _scaled(tokens: int, config: Config, ropes: list[Config]) -> int:
    """The context with the RoPE factor. Gemma 3 states it with the factor already."""
    if "gemma3" in config.text("model_type"):
        return tokens
    factors = [rope.fields.get("factor") for rope in ropes if _rope_type(rope) not in UNSCALED_ROPE]
    stated = [factor for factor in factors if isinstance(factor, int | float) and 0 < factor <= LARGEST]
    return min(LARGEST, int(tokens * stated[-1])) if stated else tokens


def _ropes(config: Config) -> Iterator[Config]:
    """The RoPE parameters: one object, or one for each type of layer (transformers 5.19.0, `rope_parameters`)."""
    for name in ("rope_parameters", "rope_scaling"):
        section = config.section(name)
        nested = [value for value in section.fields.values() if isinstance(value, dict)]
        if nested and not _rope_type(section):
            yield from map(Config, nested)
        elif section.fields:
            yield section


def _rope_type(rope: Config) -> str:
    return rope.text("rope_type") or rope.text("type")


def rope_parameters(config: Config) -> tuple[tuple[str, float | str], ...]:
    """The parameters of rotary positions that all layers share; only a type where layers have several kinds of them.

    Examples:
        >>> rope_parameters(Config({"rope_theta": 1000000, "partial_rotary_factor": 0.5}))
        (('partial_rotary_factor', 0.5), ('rope_theta', 1000000))
        >>> rope_parameters(Config({"rope_parameters": {"full_attention": {"rope_theta": 1e6}}}))
        (('rope_type', 'per layer'),)
        >>> rope_parameters(Config({"rope_theta": 5000, "rope_scaling": {"type": "yarn", "beta_fast": 32}}))
        (('beta_fast', 32), ('rope_theta', 5000), ('rope_type', 'yarn'))
    """
    section, scaling = config.section("rope_parameters"), config.section("rope_scaling")
    if any(isinstance(value, dict) for value in section.fields.values()):
        return (("rope_type", PER_LAYER),)
    outer = {name: config.fields.get(name) for name in ("rope_theta", "partial_rotary_factor")}
    kind = _rope_type(scaling)
    stated = {**outer, **scaling.fields, **({"rope_type": kind} if kind else {}), **section.fields}
    kept = {name: value for name, value in stated.items() if name != "type" and _NAME.fullmatch(name) and _plain(value)}
    return tuple(sorted(kept.items())[:_MOST_PARAMETERS]) if "rope_theta" in kept else ()


def _plain(value: object) -> bool:
    """Whether an argument can repeat the value: a number or a name."""
    if isinstance(value, int | float):
        return abs(value) <= _LARGEST_PARAMETER
    return isinstance(value, str) and bool(_NAME.fullmatch(value))
