"""What an engine keeps beside its model: room for adapters, and what guesses tokens."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from inference_operator.models.facts import Attention, LayerGroup, Matrix, ModelFacts, Part, Split
from inference_operator.models.matrices import NORMS
from inference_operator.sizing.shape import Shape
from inference_operator.sizing.weights import layer_bytes, rank_weights

GIB = 2**30


def adapters_gib(facts: ModelFacts, shape: Shape) -> float:
    """Room for adapters on one GPU of one stage, in GiB.

    Beside each linear layer, embedding and head stand two matrices for each adapter that may be active: A of rank by
    inputs and B of outputs by rank, for each of the matrices that the layer joins. Tensor ranks divide the side of
    them that they divide in the layer itself, and keep the other one whole; experts have their own (vLLM 0.32.0,
    `lora/layers/base_linear.py`, `column_parallel_linear.py`, `fused_moe.py`, `create_lora_weights`). Adapters that
    are limited to some layers are counted as if they were not.

    Examples:
        >>> from inference_operator.models.catalogue import entry
        >>> from inference_operator.models.model import model_facts
        >>> from inference_operator.sizing.shape import Adapters
        >>> facts = model_facts(entry("Qwen/Qwen3-8B").config)
        >>> [round(adapters_gib(facts, Shape(tensor=size, adapters=Adapters(64, 4))), 2) for size in (1, 2)]
        [1.45, 1.05]
    """
    if shape.adapters is None:
        return 0.0
    sizes = (_per_rank(one, facts, shape) / (1 if one.part in ENDS else shape.pipeline) for one in facts.matrices)
    return sum(sizes) * shape.adapters.active * _adapter_unit(facts, shape) / GIB


def kept_adapters_gib(facts: ModelFacts, shape: Shape) -> float:
    """Adapters in the host's memory, of all ranks: each keeps all of them whole."""
    if shape.adapters is None:
        return 0.0
    whole = sum(_per_rank(one, facts, replace(shape, tensor=1)) for one in facts.matrices)
    ranks = shape.tensor * shape.pipeline
    return ranks * whole * shape.adapters.kept * _adapter_unit(facts, shape) / GIB


def guess_gib(facts: ModelFacts, shape: Shape) -> float:
    """Weights on one GPU of what guesses tokens, in GiB; it is of the last stage.

    A draft model is divided as the model is. A layer of the model's own is taken as its mean one with a projection of
    hidden state and embedding (vLLM 0.32.0, `model_executor/models/deepseek_mtp.py`, `eh_proj`); what the checkpoint
    has of it already is counted twice, which is one layer at most.
    """
    asked = shape.speculation
    if asked is None:
        return 0.0
    if asked.own_layer:
        element = shape.element_bytes or facts.element_bytes
        return (layer_bytes(facts, shape) + 2 * facts.hidden_size**2 * element) / GIB
    if asked.draft_facts:
        (held,) = rank_weights(asked.draft_facts, _drafting(shape))
        return held.bytes / GIB
    return 0.0


def draft_files_gib(shape: Shape) -> float:
    """Files of a draft model, which an engine gets onto its node's disk, in GiB."""
    asked = shape.speculation
    return asked.draft_facts.weight_bytes / GIB if asked and asked.draft_facts else 0.0


def guessing_layers(facts: ModelFacts, shape: Shape) -> Sequence[LayerGroup]:
    """Layers with a KV cache of their own beside the model's, in the last stage."""
    asked = shape.speculation
    if asked is None:
        return ()
    if asked.own_layer:
        keeping = [one for one in facts.groups if one.attention is not Attention.STATE]
        seeing = [one for one in keeping if one.attention in (Attention.FULL, Attention.LATENT)] or keeping[:1]
        return [replace(one, layers=1) for one in seeing]
    return asked.draft_facts.groups if asked.draft_facts else ()


def uncounted(facts: ModelFacts, shape: Shape) -> tuple[str, ...]:
    """What takes memory too, and nobody knows how much; each as a phrase.

    Examples:
        >>> from inference_operator.models.catalogue import entry
        >>> from inference_operator.models.model import model_facts
        >>> from inference_operator.sizing.shape import Speculation
        >>> uncounted(model_facts(entry("Qwen/Qwen3-8B").config), Shape(speculation=Speculation(4, draft="org/draft")))
        ('the draft model `org/draft`, which is not in the catalogue',)
    """
    return tuple(_uncounted(facts, shape))


def _uncounted(facts: ModelFacts, shape: Shape) -> Iterator[str]:
    asked = shape.speculation
    if asked and asked.draft and asked.draft_facts is None:
        yield f"the draft model `{asked.draft[:MOST_SHOWN]}`, which is not in the catalogue"
    if asked and asked.unknown:
        yield asked.unknown
    if facts.sees and shape.adapters and shape.adapters.tower:
        yield "room for adapters of the vision tower"


def _drafting(shape: Shape) -> Shape:
    """How a draft model is run: in the last stage alone."""
    return Shape(tensor=shape.tensor, element_bytes=shape.element_bytes)


MOST_SHOWN = 200
"""Characters of a draft model's name that are repeated; those of the hub have at most 96."""
ENDS = (Part.EMBEDDING, Part.HEAD)


def _adapter_unit(facts: ModelFacts, shape: Shape) -> float:
    """Bytes of one adapter for each row and column beside which it stands."""
    adapters = shape.adapters
    if adapters is None:
        return 0.0
    return adapters.rank * (adapters.element_bytes or shape.element_bytes or facts.element_bytes)


def _per_rank(matrix: Matrix, facts: ModelFacts, shape: Shape) -> float:
    """Rows of A's inputs and of B's outputs beside a matrix, for each unit of rank."""
    if matrix.part is Part.SMALL and matrix.rows == NORMS:
        return 0.0
    tensor, narrow = shape.tensor, shape.tensor if shape.adapters and shape.adapters.divided else 1
    inputs, outputs = matrix.joined * matrix.columns / narrow, float(matrix.rows)
    if matrix.part in ENDS or matrix.split is Split.WHOLE:
        inputs = float(matrix.columns)
    elif matrix.split is Split.COLUMNS:
        inputs, outputs = matrix.columns / tensor, outputs / narrow
    else:
        divided = min(tensor, max(1, facts.kv_heads)) if matrix.split is Split.KV_ROWS else tensor
        outputs /= divided
    return (inputs + outputs) * matrix.stacked * matrix.layers
