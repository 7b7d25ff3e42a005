"""Layers with a state of fixed size for each sequence: which a `config.json` says has one, and its elements.

Sources: vLLM 0.32.0, `model_executor/layers/mamba/mamba_utils.py` (shapes and types) and the models that ask for them,
`get_mamba_state_shape_from_config`; transformers 5.19.0, `models/*/configuration_*.py` (which layers).
"""

from inference_operator.models.config import Config
from inference_operator.models.facts import Attention, LayerGroup, State

LINEAR_EVERY = 4
"""Qwen 3.5, 3-Next and OLMo Hybrid: one layer in four is full attention (`full_attention_interval`)."""
LINEAR_DEFAULTS = {
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
}
"""Sizes of the gated delta rule where a config leaves them out (`Qwen3NextConfig`)."""
FLOAT32_BYTES = 4
HEADS = ("mamba_num_heads", "mamba_n_heads", "n_mamba_heads")
"""Fields with the number of Mamba 2 heads: of Nemotron H, of Granite 4, Bamba and Falcon H1, and of Zamba2."""
HEAD_SIZES = ("mamba_head_dim", "mamba_d_head", "mamba_headdim")
BLOCKS = {"mamba": "M", "attention": "*", "mlp": "-", "moe": "E"}
"""Letters of Nemotron H's blocks (`models/nemotron_h/configuration_nemotron_h.py`)."""
STATE_NAMES = ("linear_attention", "mamba", "mamba2", "kda", "conv")
BOTH = "hybrid"
KERNEL = 4
"""Inputs of a convolution where a config does not state it."""
USUAL_STATE, USUAL_EXPANSION = 16, 2
"""`mamba_d_state` and `mamba_expand` of Jamba."""


def states(config: Config, layers: int) -> tuple[tuple[LayerGroup, ...], int]:
    """The layers with a state, and the number of layers with keys and values; a layer may have both.

    Examples:
        >>> jamba = Config({"attn_layer_period": 8, "attn_layer_offset": 4, "hidden_size": 64, "mamba_d_state": 16})
        >>> (group,), cached = states(jamba, 32)
        >>> group.layers, cached, group.state.recurrent
        (28, 4, 2048)
    """
    pattern = block_pattern(config)
    if pattern:
        return _of(config, pattern.get("M", 0)), pattern.get("*", 0)
    if config.fields.keys() & {"mamba_d_ssm"} or config.text("model_type") == "falcon_h1":
        return _of(config, layers), layers
    named = config.tally("layer_types") or config.tally("layers_block_type")
    if both := named.get(BOTH, 0):
        return _of(config, min(layers, both + _named(named))), min(layers, both + named.get("full_attention", 0))
    if isinstance(ids := config.fields.get("hybrid_layer_ids"), list) and config.fields.keys() & {"n_mamba_heads"}:
        return _of(config, layers), min(layers, len(ids))
    with_state = min(layers, _named(named) if named else _unnamed(config, layers))
    return _of(config, with_state), layers - with_state


def names_attention(config: Config) -> bool:
    """Whether the config names the kind of each layer, and none has a state."""
    named = config.tally("layer_types") or config.tally("layers_block_type")
    return bool(named) and set(named) <= {"attention", "full_attention"}


def _named(named: dict[str, int]) -> int:
    return sum(named.get(name, 0) for name in STATE_NAMES)


def _unnamed(config: Config, layers: int) -> int:
    """The layers with a state in a config without a list of their kinds."""
    for name in ("attn_layer_indices", "full_attn_idxs"):
        if isinstance(attention := config.fields.get(name), list):
            return max(0, layers - len(attention))
    if period := config.positive("attn_layer_period"):
        return layers - len(range(config.count("attn_layer_offset") or 0, layers, period))
    if isinstance(kda := config.section("linear_attn_config").fields.get("kda_layers"), list):
        return len(kda)
    if (size := config.count("layer_group_size")) and size > 1:  # Ling and Ring; the last one of a group attends
        tail = layers % size if "V3" in config.architecture else 0
        return layers - layers // size - tail
    if _alternates(config):
        return layers - layers // (config.positive("full_attention_interval") or LINEAR_EVERY)
    return layers if config.fields.keys() & set(HEADS) else 0


def _alternates(config: Config) -> bool:
    named = config.architecture.startswith(("Qwen3_5", "Qwen3Next", "OlmoHybrid"))
    named = named or config.text("model_type").startswith("qwen3_5")
    return named or config.positive("full_attention_interval") is not None or "layer_pattern" in config.fields


def block_pattern(config: Config) -> dict[str, int]:
    """How many blocks of each kind Nemotron H has, by the letter of its pattern; empty for other models.

    Examples:
        >>> block_pattern(Config({"hybrid_override_pattern": "M*-M"})) == {"M": 2, "*": 1, "-": 1}
        True
        >>> block_pattern(Config({"model_type": "nemotron_h", "layers_block_type": ["mamba", "moe", "mamba"]}))
        {'M': 2, 'E': 1}
    """
    value = config.fields.get("hybrid_override_pattern")
    if value or isinstance(value, str):
        return config.tally("hybrid_override_pattern")
    named = config.tally("layers_block_type") if config.text("model_type") == "nemotron_h" else {}
    return {BLOCKS.get(name, name): number for name, number in named.items()}


def _of(config: Config, layers: int) -> tuple[LayerGroup, ...]:
    return (LayerGroup(Attention.STATE, layers, state=_state(config)),) if layers else ()


def _state(config: Config) -> State:
    if config.fields.keys() & set(HEADS):
        return _mamba2(config)
    if config.fields.keys() & {"mamba_d_state", "attn_layer_period"}:
        return _mamba1(config)
    if config.fields.keys() & {"conv_L_cache"}:
        width = config.positive("conv_dim") or config.required("hidden_size")
        length = config.required("conv_L_cache") - 1
        return State(width, length, 0, None, inputs=3 * width, outputs=width)
    delta = config.section("linear_attn_config")
    if delta.positive("num_heads") or config.positive("linear_num_heads"):
        size = delta.positive("head_dim") or config.required("linear_head_dim")
        kernel = delta.positive("short_conv_kernel_size") or config.positive("linear_conv_kernel_dim") or KERNEL
        return _kda(delta.positive("num_heads") or config.required("linear_num_heads"), size, kernel)
    if config.count("layer_group_size"):
        return _lightning(config)
    return _gated_delta(config)


def _kda(heads: int, size: int, kernel: int) -> State:
    """Kimi's delta attention: queries, keys and values of all heads are convolved, and the state is in float32."""
    return State(3 * heads * size, kernel - 1, heads * size * size, FLOAT32_BYTES)


def _lightning(config: Config) -> State:
    """Ling and Ring: a matrix for each head. In version 3 it is that of Kimi."""
    heads = config.required("num_attention_heads")
    size = config.positive("head_dim") or config.required("hidden_size") // heads
    if "V3" in config.architecture:
        return _kda(heads, size, config.positive("short_conv_kernel_size") or KERNEL)
    return State(0, 0, heads * size * size, None, inputs=4 * heads * size, outputs=heads * size)


def _gated_delta(config: Config) -> State:
    sizes = {name: config.positive(name) or usual for name, usual in _linear_defaults(config).items()}
    keys = sizes["linear_num_key_heads"] * sizes["linear_key_head_dim"]
    values = sizes["linear_num_value_heads"] * sizes["linear_value_head_dim"]
    in_float32 = config.architecture.startswith("Qwen3_5") or config.text("mamba_ssm_dtype") == "float32"
    return State(
        convolution_width=2 * keys + values,
        convolution_length=sizes["linear_conv_kernel_dim"] - 1,
        recurrent=values * sizes["linear_key_head_dim"],
        recurrent_bytes=FLOAT32_BYTES if in_float32 or config.positive("linear_num_value_heads") is None else None,
    )


def _linear_defaults(config: Config) -> dict[str, int]:
    """The sizes of a config without them. OLMo Hybrid has heads like its attention, with keys of 3/4 of their width."""
    if not config.architecture.startswith("OlmoHybrid"):
        return LINEAR_DEFAULTS
    heads = config.required("num_attention_heads")
    size = 3 * config.required("hidden_size") // (4 * heads)
    names = ("linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim", "linear_value_head_dim")
    return {**LINEAR_DEFAULTS, **dict(zip(names, (heads, heads, size, 2 * size), strict=True))}


def _mamba_type(config: Config) -> str:
    """The type of states that a config states; without one float32 for Nemotron-H.

    vLLM 0.32.0, `model_executor/models/config.py`, `NemotronHForCausalLMConfig`.
    """
    usual = "float32" if config.architecture.startswith("NemotronH") else ""
    return config.text("mamba_ssm_cache_dtype") or usual


def _mamba2(config: Config) -> State:
    heads = config.required(*HEADS)
    sizes = [name for name in HEAD_SIZES if isinstance(config.fields.get(name), int)]  # others say "auto"
    size = config.positive(*sizes) if sizes else None
    expanded = (config.positive("mamba_expand") or USUAL_EXPANSION) * (config.positive("hidden_size") or 0)
    inner = config.positive("mamba_d_ssm") or (heads * size if size else 0) or expanded
    width = config.required("ssm_state_size", "mamba_d_state")
    groups = config.positive("n_groups", "mamba_n_groups", "mamba_ngroups") or 1
    return State(
        convolution_width=inner + 2 * groups * width,
        convolution_length=(config.positive("conv_kernel", "mamba_d_conv") or KERNEL) - 1,
        recurrent=inner * width,
        recurrent_bytes=FLOAT32_BYTES if _mamba_type(config) == "float32" else None,
        scanned=True,
    )


def _mamba1(config: Config) -> State:
    inner = (config.positive("mamba_expand") or USUAL_EXPANSION) * config.required("hidden_size")
    return State(
        convolution_width=inner,
        convolution_length=(config.positive("mamba_d_conv") or KERNEL) - 1,
        recurrent=inner * (config.positive("mamba_d_state") or USUAL_STATE),
        recurrent_bytes=None,
        inputs=2 * inner,
        outputs=inner,
    )
