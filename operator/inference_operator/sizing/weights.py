"""Bytes of weights on one GPU.

Each matrix is divided as the engine divides it, and counted as PyTorch's allocator holds it. That explains why
Qwen2.5-7B takes 14.25 GiB on one GPU, 7.12 on each of two and 3.55 on each of four, from 14.19 GiB of files.
"""

import math
from dataclasses import dataclass

from inference_operator.models.facts import Attention, Kernel, Matrix, ModelFacts, Part, Split
from inference_operator.models.model import element_size
from inference_operator.sizing.shape import Shape

GIB = 2**30
MIB = 2**20
ROUND, SMALL, OWN_SEGMENT = 2 * MIB, 1 * MIB, 10 * MIB
"""A tensor from 10 MiB has a segment of its own, of a multiple of 2 MiB; a rest up to 1 MiB is not given to others
(pytorch 2.10, `c10/cuda/CUDACachingAllocator.h`: kRoundLarge, kSmallSize, kMinLargeAlloc)."""
VOCABULARY_PADDING = 64
"""Rows of embedding and head are padded to a multiple of it, and then divided (vLLM 0.32.0,
`layers/vocab_parallel_embedding.py`); other engines pad to a like number."""
MXFP4_PADDING = 256
"""Kernels for MXFP4 want widths that are multiples of it: 13.6 GiB loaded of 12.8 in files (gpt-oss-20b)."""
TOWER_AT_MOST = 0.12
"""A part of the checkpoint that the language model does not explain is the vision tower, if it is no larger."""


@dataclass(frozen=True, slots=True)
class RankWeights:
    """Weights of the GPU that holds most of them, and of the one that ends the pipeline."""

    bytes: float
    origin: str


def rank_weights(facts: ModelFacts, shape: Shape) -> tuple[RankWeights, ...]:
    """The weights of one GPU of the only stage, or of the first and the last stage of a pipeline.

    Examples:
        >>> from inference_operator.models.catalogue import entry
        >>> from inference_operator.models.model import model_facts
        >>> known = entry("Qwen/Qwen2.5-7B-Instruct")
        >>> facts = model_facts(known.config, known.weights)
        >>> [round(rank_weights(facts, Shape(tensor=tensor))[0].bytes / GIB, 2) for tensor in (1, 2, 4)]
        [14.23, 7.11, 3.55]
    """
    if shape.pipeline == 1:
        return (_stage(facts, shape, 1.0, (Part.EMBEDDING, Part.HEAD)),)
    part = math.ceil(facts.layers / shape.pipeline) / facts.layers
    tied = not any(one.part is Part.HEAD for one in facts.matrices)
    last = Part.EMBEDDING if tied else Part.HEAD
    return tuple(_stage(facts, shape, part, (end,)) for end in (Part.EMBEDDING, last))


def layer_bytes(facts: ModelFacts, shape: Shape) -> float:
    """Bytes of the mean layer of a model on one GPU; the table of rotary embeddings is there already."""
    element = shape.element_bytes or facts.element_bytes
    return _stage(facts, shape, 1 / facts.layers, ()).bytes - _rotary_bytes(facts, element)


def _stage(facts: ModelFacts, shape: Shape, part: float, ends: tuple[Part, ...]) -> RankWeights:
    stored = _stored(facts, shape)
    tower = stored.tower / (1 if facts.tower_whole else shape.tensor)
    total = tower if Part.EMBEDDING in ends else 0.0
    total += _absorbed(facts, stored.element) * part
    total += _rotary_bytes(facts, stored.element)
    for matrix in facts.matrices:
        share = float(matrix.part in ends) if matrix.part in ENDS else part
        elements = _rows(matrix, facts, shape.tensor) * _columns(matrix, shape.tensor) * matrix.stacked
        padded = elements * _padding(matrix, facts, stored.kernel, shape.tensor)
        total += _held(padded * stored.size(matrix)) * matrix.layers * share
    return RankWeights(total, facts.weights_from)


ENDS = (Part.EMBEDDING, Part.HEAD)
ALREADY_STORED = 0.75
"""A checkpoint below this part of its matrices in their type is quantised, whatever its config says."""


@dataclass(frozen=True, slots=True)
class _Stored:
    """How weights lie on the GPU."""

    element: int
    quantised: float
    """Bytes of an element of a matrix that may be quantised."""
    parts: tuple[Part, ...]
    kernel: Kernel
    tower: float
    """Bytes of a vision tower."""

    def size(self, matrix: Matrix) -> float:
        """Bytes of one element of this matrix."""
        return self.quantised if matrix.part in self.parts else self.element


def _stored(facts: ModelFacts, shape: Shape) -> _Stored:
    """What the config says, corrected by the size of the checkpoint."""
    own, checkpoint = facts.quantization, facts.element_bytes
    sizes = [(one, one.elements * element_size(one, checkpoint, own)) for one in facts.matrices]
    rest = sum(size for one, size in sizes if one.part in own.parts)
    plain = sum(size for _, size in sizes) - rest
    left = facts.weight_bytes - plain - rest
    tower = left if facts.sees and 0 < left <= TOWER_AT_MOST * facts.weight_bytes else 0.0
    correction = max(LEAST, (facts.weight_bytes - plain - tower) / rest) if rest else 1.0
    element = shape.element_bytes or checkpoint
    if own.kernel is not Kernel.NONE:
        return _Stored(element, own.bits / 8 * correction, own.parts, own.kernel, tower)
    asked = shape.quantization
    if asked and asked.kernel is not Kernel.NONE and correction > ALREADY_STORED:
        return _Stored(element, asked.bits / 8 * correction, asked.parts, asked.kernel, tower)
    kernel = asked.kernel if asked else Kernel.NONE
    return _Stored(element, element * correction, own.parts, kernel, tower)


LEAST = 0.05
"""No storage is smaller than this part of what the config says: a wrong size must not make weights vanish."""


def _rows(matrix: Matrix, facts: ModelFacts, tensor: int) -> float:
    match matrix.split:
        case Split.ROWS if matrix.part in ENDS:
            return math.ceil(matrix.rows / VOCABULARY_PADDING) * VOCABULARY_PADDING / tensor
        case Split.ROWS:
            return matrix.rows / tensor
        case Split.KV_ROWS:
            heads = max(1, facts.kv_heads)
            return matrix.rows / min(tensor, heads)
        case _:
            return matrix.rows


def _columns(matrix: Matrix, tensor: int) -> float:
    return matrix.columns / tensor if matrix.split is Split.COLUMNS else matrix.columns


def _padding(matrix: Matrix, facts: ModelFacts, kernel: Kernel, tensor: int) -> float:
    """How much larger a kernel makes the experts."""
    if kernel is not Kernel.MXFP4 or matrix.part is not Part.EXPERTS or facts.experts is None:
        return 1.0
    width = facts.experts.intermediate_size / tensor
    return math.ceil(width / MXFP4_PADDING) * MXFP4_PADDING / width if width else 1.0


def _held(size: float) -> float:
    """Bytes that PyTorch's allocator holds for a tensor.

    Examples:
        >>> _held(115.5 * MIB) / MIB, _held(12.25 * MIB) / MIB, _held(3 * MIB) / MIB
        (116.0, 12.25, 3.0)
    """
    if size < OWN_SEGMENT:
        return size
    left = math.ceil(size / ROUND) * ROUND - size
    return size + left if left <= SMALL else size


def _rotary_bytes(facts: ModelFacts, element: int) -> int:
    """The table of rotary embeddings, a row a position."""
    return facts.context * facts.rotary_dimension * element


def _absorbed(facts: ModelFacts, element: int) -> float:
    """Latent attention multiplies by copies of its up-projection, kept beside it (vLLM 0.32.0, `mla_attention.py`).

    They take as much on each of four GPUs as on one (DeepSeek-V2-Lite: 0.10 GiB).
    """
    if not facts.is_latent:
        return 0.0
    rank = max((one.elements for one in facts.groups if one.attention is Attention.LATENT), default=0)
    up = [m for m in facts.matrices if m.part is Part.ATTENTION and m.split is Split.ROWS and m.columns < rank]
    return float(sum(m.elements for m in up) * element)
