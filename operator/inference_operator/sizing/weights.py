"""Memory of weights on one GPU.

Each matrix is divided as the engine divides it, and its size is rounded as PyTorch's allocator rounds it. This is why
Qwen2.5-7B takes 14.25 GiB on one GPU, 7.12 on each of two and 3.55 on each of four, from 14.19 GiB of files.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

from inference_operator.models.facts import Attention, Kernel, Matrix, MatrixPart, ModelFacts, Quantization, Split
from inference_operator.models.model import element_size
from inference_operator.sizing.shape import Shape
from inference_operator.units import GIB, MIB

ROUND, SMALL, OWN_SEGMENT = 2 * MIB, 1 * MIB, 10 * MIB
"""A tensor from 10 MiB has its own segment of a multiple of 2 MiB; up to 1 MiB at its end stays unused
(pytorch 2.10, `c10/cuda/CUDACachingAllocator.h`: kRoundLarge, kSmallSize, kMinLargeAlloc)."""
VOCABULARY_PADDING = 64
"""Rows of embedding and head are padded to a multiple of this, and then divided (vLLM 0.32.0,
`layers/vocab_parallel_embedding.py`); other engines use a similar number."""
MXFP4_PADDING = 256
"""MXFP4 kernels pad widths to multiples of this: gpt-oss-20b takes 13.6 GiB from 12.8 GiB of files."""
FLOAT32_BYTES = 4
MLA_BYTES = 0.11 * GIB
"""Fitted, not explained: what vLLM logs for the weights of DeepSeek-V2-Lite beyond all matrices and tables, on one GPU
and on each of four (0.19, H100). No tensor of this size is known, and no other model was measured."""
TOWER_AT_MOST = 0.12
"""The part of a checkpoint beyond the language model's matrices is the vision tower, up to this fraction."""
_KEPT = 100
"""Results that are kept: more than the divisions that are compared for one model."""


@dataclass(frozen=True, slots=True)
class RankWeights:
    bytes: float
    experts: float = 0.0
    always_read: float = 0.0
    """The part of them that every step reads: neither routed experts, nor an embedding that is only looked up."""


def rank_weights(facts: ModelFacts, shape: Shape) -> tuple[RankWeights, ...]:
    """Weights of one GPU of the only pipeline stage, or of the first and the last stage."""
    return _rank_weights(
        facts,
        Shape(
            shape.parallel,
            quantization=shape.quantization,
            element_bytes=shape.element_bytes,
            whole_encoder=shape.whole_encoder,
            expert_parallel=shape.expert_parallel,
            redundant_experts=shape.redundant_experts,
        ),
    )


@lru_cache(_KEPT)
def _rank_weights(facts: ModelFacts, shape: Shape) -> tuple[RankWeights, ...]:
    """The same of a shape that has nothing else: no context and no batch, among which sizing searches, changes it."""
    if shape.parallel.pipeline == 1:
        return (_stage(facts, shape, 1.0, (MatrixPart.EMBEDDING, MatrixPart.HEAD)),)
    part = math.ceil(facts.layers / shape.parallel.pipeline) / facts.layers
    tied = not any(matrix.part is MatrixPart.HEAD for matrix in facts.matrices)
    last = MatrixPart.EMBEDDING if tied else MatrixPart.HEAD
    return tuple(_stage(facts, shape, part, (end,)) for end in (MatrixPart.EMBEDDING, last))


def layer_bytes(facts: ModelFacts, shape: Shape) -> float:
    """Bytes of the mean layer of a model on one GPU, without the table of rotary embeddings."""
    element = shape.element_bytes or facts.element_bytes
    return _stage(facts, shape, 1 / facts.layers, ()).bytes - _rotary_bytes(facts, element)


def _stage(facts: ModelFacts, shape: Shape, part: float, ends: tuple[MatrixPart, ...]) -> RankWeights:
    stored = _stored(facts, shape)
    tower = stored.tower / (1 if facts.tower_whole or shape.whole_encoder else shape.parallel.tensor)
    total = tower if MatrixPart.EMBEDDING in ends else 0.0
    total += _extra_of_mla(facts, stored, shape.parallel.tensor) * part
    total += _rotary_bytes(facts, stored.element)
    tied = not any(matrix.part is MatrixPart.HEAD for matrix in facts.matrices)
    experts = always_read = 0.0
    for matrix in facts.matrices:
        share = float(matrix.part in ends) if matrix.part in ENDS else part
        tensor, stacked = expert_ranks(matrix, shape)
        columns = matrix.columns / tensor if matrix.split is Split.COLUMNS else matrix.columns
        elements = _rows(matrix, facts, tensor) * columns * stacked
        padded = elements * _padding(matrix, facts, stored.kernel, tensor)
        size = _allocated(padded * stored.size(matrix)) * matrix.layers * share
        total += size
        experts += size if matrix.part is MatrixPart.EXPERTS else 0.0
        always_read += (
            size if matrix.part is not MatrixPart.EXPERTS and (matrix.part is not MatrixPart.EMBEDDING or tied) else 0.0
        )
    return RankWeights(total, experts, always_read)


def expert_ranks(matrix: Matrix, shape: Shape) -> tuple[int, int]:
    """Ranks that divide a matrix, and how many of its stacked copies each rank has.

    With expert parallelism a rank has whole experts of its own, rounded up (vLLM 0.32.0,
    `layers/fused_moe/layer.py`, `determine_expert_map`).

    Examples:
        >>> experts = Matrix(MatrixPart.EXPERTS, 3072, 4096, 94, Split.ROWS, stacked=128)
        >>> from inference_operator.sizing.shape import ParallelSizes
        >>> expert_ranks(experts, Shape(ParallelSizes(8))), expert_ranks(
        ...     experts, Shape(ParallelSizes(8), expert_parallel=True)
        ... )
        ((8, 128), (1, 16))
        >>> expert_ranks(experts, Shape(ParallelSizes(1, data=16, nodes=2)))
        (1, 8)
    """
    parallel = shape.parallel
    if matrix.part is not MatrixPart.EXPERTS or not shape.has_whole_experts:
        return parallel.tensor, matrix.stacked
    return 1, math.ceil((matrix.stacked + shape.redundant_experts) / parallel.group)


ENDS = (MatrixPart.EMBEDDING, MatrixPart.HEAD)
ALREADY_STORED = 0.75
"""A checkpoint smaller than this fraction of its matrices is quantized, even if its config does not state it."""


@dataclass(frozen=True, slots=True)
class _Stored:
    element: int
    quantization: Quantization
    kernel: Kernel
    correction: float
    """The size of the files in relation to the count of the quantized parts."""
    tower: float
    """In bytes."""

    def size(self, matrix: Matrix) -> float:
        if matrix.part not in self.quantization.parts:
            return self.element
        plain = self.quantization.kernel is Kernel.NONE
        return (self.element if plain else self.quantization.bits_of(matrix.part) / 8) * self.correction


def _stored(facts: ModelFacts, shape: Shape) -> _Stored:
    own, checkpoint = facts.quantization, facts.element_bytes
    sizes = [(matrix, matrix.elements * element_size(matrix, checkpoint, own)) for matrix in facts.matrices]
    rest = sum(size for matrix, size in sizes if matrix.part in own.parts)
    plain = sum(size for _, size in sizes) - rest
    left = facts.weight_bytes - plain - rest
    tower = left if facts.has_vision and 0 < left <= TOWER_AT_MOST * facts.weight_bytes else 0.0
    correction = max(LEAST, (facts.weight_bytes - plain - tower) / rest) if rest else 1.0
    element = shape.element_bytes or checkpoint
    if own.kernel is not Kernel.NONE:
        return _Stored(element, own, own.kernel, correction, tower)
    requested = shape.quantization
    if requested and requested.kernel is not Kernel.NONE and correction > ALREADY_STORED:
        return _Stored(element, requested, requested.kernel, correction, tower)
    return _Stored(element, own, requested.kernel if requested else Kernel.NONE, correction, tower)


LEAST = 0.05
"""Smallest correction: a wrong size of the checkpoint must not reduce weights to nothing."""


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


def _padding(matrix: Matrix, facts: ModelFacts, kernel: Kernel, tensor: int) -> float:
    if kernel is not Kernel.MXFP4 or matrix.part is not MatrixPart.EXPERTS or facts.experts is None:
        return 1.0
    width = facts.experts.intermediate_size / tensor
    return math.ceil(width / MXFP4_PADDING) * MXFP4_PADDING / width if width else 1.0


def _allocated(size: float) -> float:
    """Bytes that PyTorch's allocator holds for a tensor.

    Examples:
        >>> _allocated(115.5 * MIB) / MIB, _allocated(12.25 * MIB) / MIB, _allocated(3 * MIB) / MIB
        (116.0, 12.25, 3.0)
    """
    if size < OWN_SEGMENT:
        return size
    left = math.ceil(size / ROUND) * ROUND - size
    return size + left if left <= SMALL else size


def _rotary_bytes(facts: ModelFacts, element: int) -> int:
    """Bytes of the table of rotary embeddings, one row for each position; of MLA in float32.

    vLLM 0.32.0, `layers/rotary_embedding/deepseek_scaling_rope.py`.
    """
    return facts.context * facts.rotary_dimension * (FLOAT32_BYTES if facts.uses_mla else element)


def _extra_of_mla(facts: ModelFacts, stored: _Stored, tensor: int) -> float:
    """Bytes that MLA keeps beside its matrices.

    Decoding uses the up-projection of a rank's heads in 16 bits. Of an unquantized one it is a view, of a quantized one
    a copy (vLLM 0.32.0, `layers/attention/mla_attention.py`, `process_weights_after_loading`).
    """
    if not facts.uses_mla:
        return 0.0
    if stored.kernel is Kernel.NONE or MatrixPart.ATTENTION not in stored.quantization.parts:
        return MLA_BYTES
    rank = max((group.elements for group in facts.groups if group.attention is Attention.LATENT), default=0)
    up = [m for m in facts.matrices if m.part is MatrixPart.ATTENTION and m.split is Split.ROWS and m.columns < rank]
    return MLA_BYTES + sum(m.elements for m in up) * stored.element / tensor
