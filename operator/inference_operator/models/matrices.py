"""The weight matrices that a `config.json` implies: the tensors that an engine allocates for each layer."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from inference_operator.models.config import Config
from inference_operator.models.facts import Attention, Experts, LayerGroup, Matrix, MatrixPart, Split
from inference_operator.models.states import block_pattern

UNGATED = (
    *("phi", "starcoder2", "gpt_neox", "gpt2", "opt", "bloom", "falcon", "mpt", "nemotron", "nemotron_h", "gptj"),
    *("bert", "roberta", "xlm-roberta"),
)
"""Model types whose MLP has two matrices, not three."""
NORMS = 2
"""Normalization vectors of a layer; they count as one matrix with this many rows."""
NAMES_OF_LATENT = ("moe_latent_size", "routed_expert_hidden_size")
"""Fields with the width of what routed experts read and write, where it is not the model's: of Nemotron, and of Kimi K3
(vLLM 0.32.0, `transformers_utils/configs/kimi_linear.py`)."""
NAMES_OF_INTERMEDIATE = ("intermediate_size", "ffn_hidden_size", "n_inner", "ffn_dim", "d_ff")


@dataclass(frozen=True, slots=True)
class Dimensions:
    """The numbers that all matrices depend on. Numbers that the config does not state are assumed and listed."""

    layers: int
    hidden: int
    vocabulary: int
    context: int
    heads: int
    """0 if the config does not state them."""
    head_size: int
    assumed: tuple[str, ...]


def matrices(
    config: Config,
    model: Dimensions,
    groups: tuple[LayerGroup, ...],
    experts: Experts | None,
    intermediate: int,
    *,
    tied: bool,
) -> tuple[Matrix, ...]:
    hidden, heads = model.hidden, model.heads or model.hidden // model.head_size
    matrices = [Matrix(MatrixPart.EMBEDDING, model.vocabulary, hidden, 1, Split.ROWS)]
    if not tied:
        matrices.append(Matrix(MatrixPart.HEAD, model.vocabulary, hidden, 1, Split.ROWS))
    for group in groups:
        matrices.extend(_attention(config, group, hidden, heads, model.head_size))
    matrices.extend(_feed_forward(config, hidden, intermediate, _feed_forward_layers(config, model.layers), experts))
    matrices.append(Matrix(MatrixPart.SMALL, NORMS, hidden, model.layers, Split.WHOLE))
    return tuple(matrix for matrix in matrices if matrix.elements)


def intermediate_size(config: Config) -> int:
    """Width of a dense MLP; 0 if the config does not state it.

    LFM2 states what it takes two thirds of, rounded up (vLLM 0.32.0, `model_executor/models/lfm2.py`).

    Examples:
        >>> intermediate_size(Config({"intermediate_size": 12288, "block_auto_adjust_ff_dim": True}))
        8192
    """
    stated = config.count(*NAMES_OF_INTERMEDIATE) or 0
    if not config.flag("block_auto_adjust_ff_dim", default=False):
        return stated
    step = config.positive("block_multiple_of") or 256
    return math.ceil(2 * stated // 3 / step) * step


def _feed_forward_layers(config: Config, layers: int) -> int:
    """Layers with a feed-forward part: all, or in a hybrid model those that its pattern marks `-` or `E`."""
    counts = block_pattern(config)
    return counts.get("-", 0) + counts.get("E", 0) if counts else layers


def _attention(config: Config, group: LayerGroup, hidden: int, heads: int, size: int) -> Iterator[Matrix]:
    match group.attention:
        case Attention.LATENT if group.token_bytes is None:
            yield from _latent(config, group.layers, hidden, heads)
        case Attention.LATENT:
            return
        case Attention.STATE:
            yield from _state(group, hidden)
        case _:
            wide = group.elements // 2 if group.elements != 2 * size else size
            yield Matrix(MatrixPart.ATTENTION, heads * wide, hidden, group.layers, Split.ROWS)
            kv_rows = group.kv_heads * group.elements
            yield Matrix(MatrixPart.ATTENTION, kv_rows, hidden, group.layers, Split.KV_ROWS, joined=2)
            yield Matrix(MatrixPart.ATTENTION, hidden, heads * wide, group.layers, Split.COLUMNS)


def _latent(config: Config, layers: int, hidden: int, heads: int) -> Iterator[Matrix]:
    rank, rope = config.required("kv_lora_rank"), config.count("qk_rope_head_dim") or 0
    nope, value = config.count("qk_nope_head_dim") or 128, config.positive("v_head_dim") or 128
    query_rank = config.count("q_lora_rank") or 0
    if query_rank:
        yield Matrix(MatrixPart.ATTENTION, query_rank, hidden, layers, Split.WHOLE)
    yield Matrix(MatrixPart.ATTENTION, heads * (nope + rope), query_rank or hidden, layers, Split.ROWS)
    yield Matrix(MatrixPart.ATTENTION, rank + rope, hidden, layers, Split.WHOLE)
    yield Matrix(MatrixPart.ATTENTION, heads * (nope + value), rank, layers, Split.ROWS)
    yield Matrix(MatrixPart.ATTENTION, hidden, heads * value, layers, Split.COLUMNS)


def _state(group: LayerGroup, hidden: int) -> Iterator[Matrix]:
    """The input projection (convolved channels, and a gate as wide as the output), and the output projection."""
    if group.state is None:
        return
    wide = group.state.convolution_width
    inner = group.state.outputs or wide // 2
    rows = group.state.inputs or wide + inner  # with the gate's rows
    yield Matrix(MatrixPart.ATTENTION, rows, hidden, group.layers, Split.ROWS, joined=4)
    yield Matrix(MatrixPart.ATTENTION, hidden, inner, group.layers, Split.COLUMNS)


def _feed_forward(config: Config, hidden: int, dense: int, layers: int, experts: Experts | None) -> Iterator[Matrix]:
    gated = 1 if config.text("model_type") in UNGATED else 2
    if experts is None:
        yield from _mlp(hidden, dense, layers, gated)
        return
    expert_layers = _expert_layers(config, layers)
    width, latent = experts.intermediate_size, config.positive(*NAMES_OF_LATENT)
    inner = latent or hidden
    yield Matrix(
        MatrixPart.EXPERTS, gated * width, inner, expert_layers, Split.ROWS, stacked=experts.count, joined=gated
    )
    yield Matrix(MatrixPart.EXPERTS, inner, width, expert_layers, Split.COLUMNS, stacked=experts.count)
    if latent:  # projections to the experts' width and back, unquantised (vLLM 0.32.0, `models/nemotron_h.py`)
        yield Matrix(MatrixPart.SMALL, latent, hidden, expert_layers, Split.WHOLE)
        yield Matrix(MatrixPart.SMALL, hidden, latent, expert_layers, Split.WHOLE)
    yield Matrix(MatrixPart.SMALL, experts.count, hidden, expert_layers, Split.WHOLE)
    yield from _mlp(hidden, _shared(config, width), expert_layers, gated)
    yield from _mlp(hidden, config.count("intermediate_size_mlp") or dense, layers - expert_layers, gated)


def _expert_layers(config: Config, layers: int) -> int:
    """The layers with experts; the others have a dense MLP.

    Examples:
        >>> _expert_layers(Config({"expert_layer_period": 2, "expert_layer_offset": 1}), 32)
        16
        >>> _expert_layers(Config({"moe_layer_freq": [0, 1, 1]}), 3)
        2
    """
    if period := config.positive("expert_layer_period"):  # Jamba
        return len(range(config.count("expert_layer_offset") or 0, layers, period))
    if isinstance(config.fields.get("moe_layer_freq"), list | dict):  # MiMo: 0 or 1 for each layer
        return min(layers, config.tally("moe_layer_freq").get("1", 0))
    dense = config.fields.get("mlp_only_layers")
    left_out = len(dense) if isinstance(dense, list) else 0
    first = min(layers, config.count("first_k_dense_replace", "num_dense_layers") or left_out)
    names = ("interleave_moe_layer_step", "decoder_sparse_step", "moe_layer_freq")
    return (layers - first) // (config.positive(*names) or 1)


def _shared(config: Config, width: int) -> int:
    if given := config.count("shared_expert_intermediate_size", "moe_shared_expert_intermediate_size"):
        return given
    shared = config.count("n_shared_experts", "num_shared_experts") or 0
    return shared * width if shared else width * ("Llama4" in config.architecture)


def _mlp(hidden: int, width: int, layers: int, gated: int) -> Iterator[Matrix]:
    yield Matrix(MatrixPart.MLP, gated * width, hidden, layers, Split.ROWS, joined=gated)
    yield Matrix(MatrixPart.MLP, hidden, width, layers, Split.COLUMNS)
