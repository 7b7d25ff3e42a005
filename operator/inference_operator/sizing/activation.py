"""Peak of activations, and the memory of CUDA graphs, on one GPU.

The peak is one pass over the largest batch and then the sampler over all sequences; the larger of both counts, and
mixtures keep their kernels' workspace meanwhile. It does not depend on tensor parallelism as long as the sampler
decides, which it does for vocabularies from about 50,000 words.
"""

import math

from inference_operator.models.facts import Kernel, ModelFacts
from inference_operator.sizing.beside import guessing_layers
from inference_operator.sizing.engine_memory import EngineMemory
from inference_operator.sizing.shape import Shape

GIB = 2**30
VOCABULARY_PADDING = 64
RESIDUALS = 4
"""Tensors as wide as the hidden size that live through a layer: residual, input, output, and attention's."""
GATED = 3
"""Widths of an MLP that live at once: gate and up, and their product."""


def batched_tokens(engine: EngineMemory, shape: Shape, context: int) -> int:
    """Tokens of the largest batch."""
    if shape.max_num_batched_tokens:
        return shape.max_num_batched_tokens
    if engine.max_num_batched_tokens:
        return min(engine.max_num_batched_tokens, sequences(engine, shape) * context)
    return context if context <= engine.longest_unchunked else engine.chunk_tokens


def sequences(engine: EngineMemory, shape: Shape) -> int:
    """Sequences that are computed at once, at most."""
    return shape.max_num_seqs or engine.max_num_seqs


def activation_gib(facts: ModelFacts, engine: EngineMemory, shape: Shape, context: int, *, ends: bool) -> float:
    """Peak of activations of one GPU in GiB.

    Args:
        facts: the model.
        engine: its engine.
        shape: how it is run.
        context: the longest sequence in tokens.
        ends: whether this GPU has the last stage of the pipeline, and so samples.
    """
    element = shape.element_bytes or facts.element_bytes
    tokens = batched_tokens(engine, shape, context)
    hidden = tokens * facts.hidden_size * element
    width = facts.experts.intermediate_size if facts.experts else facts.intermediate_size or facts.hidden_size
    forward = RESIDUALS * hidden + tokens * GATED * width / shape.tensor * element
    words = math.ceil(facts.vocabulary / VOCABULARY_PADDING) * VOCABULARY_PADDING
    sampler = hidden + sequences(engine, shape) * words * (engine.logit_bytes + element) if ends else 0.0
    workspace = _workspace(facts, shape, tokens, element) if engine.expert_workspace else 0.0
    pictures = hidden / GIB + engine.vision_gib if facts.sees else 0.0
    return engine.activation_gib + (workspace + max(forward, sampler)) / GIB + pictures


def _workspace(facts: ModelFacts, shape: Shape, tokens: int, element: int) -> float:
    """Two buffers of a fused mixture (vLLM 0.19.0, `fused_moe.py`, `TritonExperts.workspace_shapes`)."""
    experts = facts.experts
    if experts is None or facts.quantization.kernel is Kernel.MXFP4:
        return 0.0
    width = experts.intermediate_size / shape.tensor
    return tokens * experts.used * (max(2 * width, facts.hidden_size) + max(width, facts.hidden_size)) * element


def graphs_gib(facts: ModelFacts, engine: EngineMemory, shape: Shape) -> float:
    """Memory of the CUDA graphs of one GPU in GiB."""
    if shape.eager:
        return 0.0
    graphs = engine.graphs
    layers = math.ceil(facts.layers / shape.pipeline) + sum(one.layers for one in guessing_layers(facts, shape))
    base = graphs.base_gib if shape.tensor == 1 else graphs.group_base_gib
    each = graphs.layer_gib + (graphs.expert_layer_gib if facts.experts else 0.0)
    checked = sequences(engine, shape) * (1 + shape.speculative_tokens)
    part = _captured(min(graphs.largest, 2 * checked)) / _captured(graphs.largest)
    return (base + each * layers) * part * (shape.adapters.graph_sets if shape.adapters else 1)


def _captured(largest: int) -> int:
    """How many batch sizes are captured: 1, 2, 4, then steps of 8 to 256 and of 16 beyond.

    Examples:
        >>> _captured(8), _captured(512)
        (4, 51)
    """
    small = sum(size <= largest for size in (1, 2, 4))
    return max(1, small + min(largest, 256) // 8 + max(0, largest - 256) // 16)
