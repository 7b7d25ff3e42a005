"""GPU memory beside the base model: LoRA adapters and speculative decoding."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from inference_operator.models.facts import OF_ALL_TOKENS, Attention, LayerGroup, Matrix, MatrixPart, ModelFacts, Split
from inference_operator.models.matrices import NORMS
from inference_operator.sizing.shape import ParallelSizes, Shape
from inference_operator.sizing.weights import ENDS, layer_bytes, rank_weights
from inference_operator.units import GIB


def adapters_gib(facts: ModelFacts, shape: Shape) -> float:
    """Memory for LoRA adapters on one GPU of one pipeline stage, in GiB.

    Each linear layer, embedding and head has two matrices for each active adapter: A (rank x inputs) and B
    (outputs x rank). A layer that fuses several matrices has a pair for each. Tensor parallelism divides the same side
    as in the layer itself, and the other side is complete on each rank. Experts have their own pairs (vLLM 0.32.0,
    `lora/layers/base_linear.py`, `column_parallel_linear.py`, `fused_moe.py`, `create_lora_weights`). Adapters that
    are limited to some layers are counted for all layers.
    """
    if shape.adapters is None:
        return 0.0
    sizes = (
        _per_rank(matrix, facts, shape) / (1 if matrix.part in ENDS else shape.parallel.pipeline)
        for matrix in facts.matrices
    )
    return sum(sizes) * shape.adapters.active * _adapter_unit(facts, shape) / GIB


def kept_adapters_gib(facts: ModelFacts, shape: Shape) -> float:
    """Memory for adapters on the host, in GiB, for all ranks: each rank keeps complete copies of all adapters."""
    if shape.adapters is None:
        return 0.0
    whole = sum(_per_rank(matrix, facts, shape.with_tensor(1)) for matrix in facts.matrices)
    ranks = shape.parallel.ranks_per_node
    return ranks * whole * shape.adapters.kept * _adapter_unit(facts, shape) / GIB


def draft_gib(facts: ModelFacts, shape: Shape) -> float:
    """Weights for speculative decoding on one GPU of the last pipeline stage, in GiB.

    A draft model has the tensor parallel size of the model. A trained head is counted whole on each rank. A
    multi-token prediction layer is counted as a mean layer of the model with a projection of hidden state and
    embedding (vLLM 0.32.0, `model_executor/models/deepseek_mtp.py`, `eh_proj`). If the checkpoint contains it, one
    layer is counted twice.
    """
    speculation = shape.speculation
    if speculation is None:
        return 0.0
    if speculation.own_layer:
        element = shape.element_bytes or facts.element_bytes
        return (layer_bytes(facts, shape) + 2 * facts.hidden_size**2 * element) / GIB
    if speculation.head_bytes:
        return speculation.head_bytes / GIB
    if speculation.draft_facts:
        (weights,) = rank_weights(speculation.draft_facts, draft_shape(shape))
        return weights.bytes / GIB
    return 0.0


def draft_files_gib(shape: Shape) -> float:
    speculation = shape.speculation
    if speculation is None:
        return 0.0
    return (speculation.head_bytes or (speculation.draft_facts.weight_bytes if speculation.draft_facts else 0)) / GIB


def drafting_layers(facts: ModelFacts, shape: Shape) -> Sequence[LayerGroup]:
    """Layers of speculative decoding that have a KV cache, in the last pipeline stage."""
    speculation = shape.speculation
    if speculation is None:
        return ()
    if speculation.own_layer or speculation.head_bytes:
        cached = [group for group in facts.groups if group.attention is not Attention.STATE]
        full = [group for group in cached if group.attention in OF_ALL_TOKENS] or cached[:1]
        return [replace(group, layers=1) for group in full]
    return speculation.draft_facts.groups if speculation.draft_facts else ()


def unaccounted(facts: ModelFacts, shape: Shape) -> tuple[str, ...]:
    return tuple(_unaccounted(facts, shape))


def _unaccounted(facts: ModelFacts, shape: Shape) -> Iterator[str]:
    speculation = shape.speculation
    if speculation and speculation.draft and not (speculation.draft_facts or speculation.head_bytes):
        named = f"the draft model `{speculation.draft}`" if _MODEL.fullmatch(speculation.draft) else "the draft model"
        yield f"{named}, which is not in the catalogue"
    if speculation and speculation.unknown:
        yield speculation.unknown
    yield from (f"the memory that `{name}` changes" for name in shape.uncounted)
    if facts.has_unknown_states:
        yield "the states of its layers, whose sizes are not in its config"
    if facts.has_vision and shape.adapters and shape.adapters.tower:
        yield "memory for adapters of the vision tower"


def draft_shape(shape: Shape) -> Shape:
    return Shape(ParallelSizes(shape.parallel.tensor), element_bytes=shape.element_bytes)


_MODEL = re.compile(r"[\w./-]{1,200}", re.ASCII)
"""A draft model's name that a message repeats: a repository or a path. Names on the hub have at most 96 letters."""


def _adapter_unit(facts: ModelFacts, shape: Shape) -> float:
    """Bytes of one adapter for each input and output of its matrix."""
    adapters = shape.adapters
    if adapters is None:
        return 0.0
    return adapters.rank * (adapters.element_bytes or shape.element_bytes or facts.element_bytes)


def _per_rank(matrix: Matrix, facts: ModelFacts, shape: Shape) -> float:
    """Inputs of A and outputs of B for a matrix on one rank, in elements for each unit of the adapter's rank."""
    if matrix.part is MatrixPart.SMALL and matrix.rows == NORMS:
        return 0.0
    tensor, divisor = shape.parallel.tensor, shape.parallel.tensor if shape.adapters and shape.adapters.divided else 1
    inputs, outputs = matrix.joined * matrix.columns / divisor, float(matrix.rows)
    if matrix.part in ENDS or matrix.split is Split.WHOLE:
        inputs = float(matrix.columns)
    elif matrix.split is Split.COLUMNS:
        inputs, outputs = matrix.columns / tensor, outputs / divisor
    else:
        divided = min(tensor, max(1, facts.kv_heads)) if matrix.split is Split.KV_ROWS else tensor
        outputs /= divided
    return (inputs + outputs) * matrix.stacked * matrix.layers
