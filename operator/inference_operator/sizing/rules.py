"""Parallel sizes that a model allows, independent of memory.

Sources: vLLM 0.32.0, `config/model.py` (heads, stages), `layers/linear.py` (heads of keys and values),
`layers/quantization/` (blocks and groups), `layers/vocab_parallel_embedding.py` (vocabulary); the messages are its own.
"""

import math
from collections.abc import Iterator

from inference_operator.models.facts import Kernel, MatrixPart, ModelFacts, Split
from inference_operator.sizing.shape import ParallelSizes, Shape
from inference_operator.sizing.weights import VOCABULARY_PADDING, expert_ranks

SIZES = (1, 2, 4, 8, 16)
"""Tensor parallel sizes that sizing tries; a user may request others."""
GROUPED = (Kernel.FP8_BLOCK, Kernel.AWQ, Kernel.GPTQ)


def broken_rule(facts: ModelFacts, shape: Shape) -> str | None:
    return next(_broken(facts, shape), None)


def allowed_sizes(facts: ModelFacts, shape: Shape, at_most: int) -> tuple[int, ...]:
    sizes = (size for size in SIZES if size <= at_most)
    return tuple(size for size in sizes if broken_rule(facts, shape.with_tensor(size)) is None)


def _broken(facts: ModelFacts, shape: Shape) -> Iterator[str]:
    tensor = shape.parallel.tensor
    if facts.heads and facts.heads % tensor:
        yield f"{facts.heads} attention heads are not divisible by {tensor}."
    heads = facts.kv_heads
    if heads and not facts.uses_mla and heads % tensor and tensor % heads:
        yield f"{heads} heads of keys and values are neither divisible by {tensor} nor a divisor of it."
    vocabulary = math.ceil(facts.vocabulary / VOCABULARY_PADDING) * VOCABULARY_PADDING
    if vocabulary % tensor:
        yield f"A vocabulary of {vocabulary} is not divisible by {tensor}."
    positions = math.ceil(facts.context / VOCABULARY_PADDING) * VOCABULARY_PADDING
    if facts.is_encoder and positions % tensor:  # which encoders embed as a vocabulary
        yield f"{positions} positions are not divisible by {tensor}."
    if shape.parallel.pipeline > facts.most_stages:
        layers = f"{facts.layers} layers" if facts.has_stages else "The layers of this architecture"
        yield f"{layers} cannot be divided over {shape.parallel.pipeline} stages."
    yield from _context_ranks(facts, shape)
    copies = shape.redundant_experts
    if copies and facts.experts and (facts.experts.count + copies) % shape.parallel.group:
        count = facts.experts.count + copies
        yield f"{count} experts, of which {copies} are copies, are not divisible by {shape.parallel.group}."
    yield from _groups(facts, shape)
    if shape.speculation and shape.speculation.draft_facts:
        draft = Shape(ParallelSizes(tensor))
        yield from (f"Of the draft model: {rule}" for rule in _broken(shape.speculation.draft_facts, draft))


def _context_ranks(facts: ModelFacts, shape: Shape) -> Iterator[str]:
    """Broken rules of decode context parallelism (vLLM 0.32.0, `config/model.py`, `config/parallel.py`)."""
    tensor, ranks, heads = shape.parallel.tensor, shape.cache.ranks, facts.kv_heads
    if ranks == 1:
        return
    if tensor % ranks:
        yield f"{tensor} ranks are not divisible by {ranks} of decode context parallelism."
    elif heads and not facts.uses_mla and ranks > tensor // heads:
        yield f"Decode context parallelism of {ranks} needs {ranks} ranks for each of {heads} KV heads."
    elif heads and not facts.uses_mla and facts.heads // heads % ranks:
        yield f"{facts.heads // heads} attention heads for each KV head are not divisible by {ranks}."


def _groups(facts: ModelFacts, shape: Shape) -> Iterator[str]:
    """Broken rules of quantization: each rank's part of a matrix must consist of whole groups."""
    stored = facts.quantization if facts.quantization.kernel is not Kernel.NONE else shape.quantization
    if stored is None or stored.kernel not in GROUPED or not stored.group:
        return
    for matrix in facts.matrices:
        if matrix.part not in (MatrixPart.MLP, MatrixPart.EXPERTS):
            continue
        ranks, _ = expert_ranks(matrix, shape)
        wide = matrix.columns if matrix.split is Split.COLUMNS else matrix.rows // 2
        if matrix.split is not Split.COLUMNS and stored.kernel is not Kernel.FP8_BLOCK:
            continue
        if wide % (ranks * stored.group):
            part = "Experts" if matrix.part is MatrixPart.EXPERTS else "MLPs"
            yield (
                f"{part} {wide} wide make {wide / ranks:g} for each of {ranks},"
                f" no multiple of the {stored.group} that share a scale ({stored.kernel.value})."
            )
            return
