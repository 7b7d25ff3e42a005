"""Groups of layers by their attention and KV cache, from a `config.json`."""

import re

from inference_operator.models.config import Config, UnreadableError
from inference_operator.models.facts import Attention, LayerGroup
from inference_operator.models.states import states

SLIDING_EVERY = {"gemma2": 2, "gemma3": 6, "gemma3_text": 6, "gpt_oss": 2, "cohere2": 4, "gemma4": 6, "gemma4_text": 6}
"""One layer in this many has full attention, the others a window (transformers 5.0, `models/*/configuration_*.py`)."""
CHUNKED_EVERY = 4
"""Llama 4: one layer in four has no chunks (transformers 5.0, `Llama4TextConfig.no_rope_layer_interval`)."""
INDEX_SCALE_BYTES = 4
"""The sparse attention of DeepSeek V3.2 keeps 8-bit keys and a float32 scale for its index."""
_RATIO = re.compile(r"\d{1,9}", re.ASCII)


def head_dimension(config: Config) -> int:
    """Elements of a head's key: not hidden / heads in every model (Zamba2 attends to the embedding too)."""
    if given := config.positive("head_dim", "head_dim_derived", "attention_head_dim", "kv_channels"):
        return given
    hidden, heads = config.positive("hidden_size", "n_embd", "d_model"), _heads(config)
    if not hidden or not heads:
        raise UnreadableError("head_dim", "is missing, and so is `hidden_size` or `num_attention_heads`")
    wide = 2 if config.text("model_type") == "zamba2" else 1
    return max(1, wide * hidden // heads)


def layer_groups(config: Config, layers: int) -> tuple[LayerGroup, ...]:
    """The layers of a model grouped by attention, each kind once.

    Examples:
        >>> config = Config({"num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128})
        >>> (group,) = layer_groups(config, 36)
        >>> group.attention.value, group.layers, group.kv_heads, group.elements
        ('full', 36, 8, 256)
    """
    if config.positive("kv_lora_rank"):
        return _latent(config, layers)
    if config.fields.get("compress_ratios"):
        return _compressed(config)
    state, cached = states(config, layers)
    shared = min(config.count("num_kv_shared_layers") or 0, cached - 1 if cached else 0)
    return (*_windows(config, cached, shared), *state)


def _heads(config: Config) -> int | None:
    return config.positive("num_attention_heads", "n_head", "num_heads", "n_heads")


def kv_heads(config: Config) -> int:
    """KV heads; the number of attention heads if the config does not state it."""
    heads = config.positive("num_key_value_heads", "num_kv_heads", "multi_query_group_num", "n_head_kv")
    heads = heads or _heads(config)
    if heads is None:
        raise UnreadableError("num_key_value_heads", "is missing, and so is `num_attention_heads`")
    return heads


def _windows(config: Config, layers: int, shared: int) -> tuple[LayerGroup, ...]:
    if not layers:
        return ()
    heads, size = kv_heads(config), head_dimension(config)
    elements = size + (config.positive("v_head_dim") or size)
    windowed, kind, window = _windowed(config, layers)
    kept = max(1, layers - shared)
    windowed = round(windowed * kept / layers)
    full_heads = config.positive("num_global_key_value_heads") or heads
    full_size = config.positive("global_head_dim")
    full = LayerGroup(Attention.FULL, kept - windowed, full_heads, 2 * full_size if full_size else elements)
    return tuple(group for group in (full, LayerGroup(kind, windowed, heads, elements, window)) if group.layers)


def _windowed(config: Config, layers: int) -> tuple[int, Attention, int]:
    """The number of layers without full attention, their kind, and their window."""
    model = config.text("model_type")
    chunk = config.positive("attention_chunk_size") or 0
    named = config.tally("layer_types")
    if chunk and "Llama4" in config.architecture:
        return (named.get("chunked_attention") or layers - layers // CHUNKED_EVERY), Attention.CHUNKED, chunk
    window = config.count("sliding_window") or 0
    if not window:
        return 0, Attention.SLIDING, 0
    if "sliding_attention" in named:
        return min(layers, named["sliding_attention"]), Attention.SLIDING, window
    every = config.positive("sliding_window_pattern") or SLIDING_EVERY.get(model)
    if every is None and config.positive("global_head_dim"):
        every = SLIDING_EVERY["gemma4"]
    if every:
        return layers - layers // every, Attention.SLIDING, window
    everywhere = config.flag("use_sliding_window", default=model in ("mistral", "starcoder2")) and not named
    return (layers if everywhere else 0), Attention.SLIDING, window


def _latent(config: Config, layers: int) -> tuple[LayerGroup, ...]:
    rank, rope = config.required("kv_lora_rank"), config.count("qk_rope_head_dim") or 0
    state, cached = states(config, layers)
    groups = [LayerGroup(Attention.LATENT, cached, 1, rank + rope)]
    if index := config.positive("index_head_dim"):
        groups.append(LayerGroup(Attention.LATENT, cached, 1, index, token_bytes=float(index + INDEX_SCALE_BYTES)))
    return (*groups, *state)


def _compressed(config: Config) -> tuple[LayerGroup, ...]:
    """DeepSeek V4: each layer keeps one vector for as many tokens as `compress_ratios` says; 0 keeps a window only."""
    size, window = head_dimension(config), config.count("sliding_window") or 0
    groups = []
    for ratio, layers in config.tally("compress_ratios").items():
        if not _RATIO.fullmatch(ratio):
            raise UnreadableError("compress_ratios", "has a key that is not a whole number")
        each = int(ratio)
        kind = LayerGroup(Attention.LATENT, layers, 1, size, token_bytes=2.0 * size / each) if each else None
        groups.append(kind or LayerGroup(Attention.SLIDING, layers, 1, size, max(1, window)))
    return tuple(group for group in groups if group.layers)
