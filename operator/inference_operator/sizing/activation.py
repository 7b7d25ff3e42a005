"""Peak memory of activations, and memory of CUDA graphs, on one GPU.

The engine runs a forward pass over the largest batch, and then the sampler over all sequences. The larger of both is
the peak. Mixture-of-experts models hold the workspace of their kernels during both. From a vocabulary of about 50,000
tokens the sampler is larger; the peak then does not depend on the tensor parallel size.
"""

import math
from dataclasses import replace

from inference_operator.models.facts import Kernel, ModelFacts
from inference_operator.sizing.engine_memory import LARGEST_GRAPH, EngineMemory, GraphMemory
from inference_operator.sizing.lora_and_speculative import drafting_layers
from inference_operator.sizing.shape import Shape
from inference_operator.units import GIB

VOCABULARY_PADDING = 64
POOLER_BYTES = 8
"""Bytes that a pooler needs for each hidden element of a batch: its input and its result in float32 (vLLM 0.32.0,
`config/model.py`, `_get_head_dtype`)."""
GATED = 3
"""Tensors of the MLP's width that exist at the same time: gate, up, and their product."""


def batched_tokens(facts: ModelFacts, engine: EngineMemory, shape: Shape, context: int) -> int:
    """Maximum tokens of a scheduler iteration (`max_num_batched_tokens`); at least as many as sequences."""
    return max(default_batched_tokens(facts, engine, shape, context), shape.max_num_seqs or 0)


def default_batched_tokens(facts: ModelFacts, engine: EngineMemory, shape: Shape, context: int) -> int:
    """The requested number of tokens, or the one that the engine chooses itself.

    A prompt that is not divided into chunks must fit into one iteration.
    """
    if shape.max_num_batched_tokens:
        return shape.max_num_batched_tokens
    if engine.max_num_batched_tokens is None:
        return context if context <= engine.longest_unchunked else engine.chunk_tokens
    least = context if facts.is_encoder else 0
    default = engine.max_num_batched_tokens * _batch_factor(shape)
    return min(max(least, default), sequences(engine, replace(shape, max_num_batched_tokens=None)) * context)


def sequences(engine: EngineMemory, shape: Shape) -> int:
    """Maximum sequences of a scheduler iteration (`max_num_seqs`); by default not more than requested tokens."""
    default = engine.max_num_seqs * _batch_factor(shape)
    if shape.max_num_seqs or shape.max_num_batched_tokens is None:
        return shape.max_num_seqs or default
    return min(default, shape.max_num_batched_tokens)


def _batch_factor(shape: Shape) -> int:
    return 2 if shape.doubled_batches else 1


def activation_gib(facts: ModelFacts, engine: EngineMemory, shape: Shape, context: int, *, ends: bool) -> float:
    """Peak memory of activations on one GPU, in GiB.

    Args:
        ends: whether this GPU has the last pipeline stage, which runs the sampler.
    """
    element = shape.element_bytes or facts.element_bytes
    tokens = batched_tokens(facts, engine, shape, context)
    hidden = tokens * facts.hidden_size * element
    width = facts.experts.intermediate_size if facts.experts else facts.intermediate_size or facts.hidden_size
    forward = engine.hidden_tensors * hidden + tokens * GATED * width / shape.parallel.tensor * element
    vocabulary = math.ceil(facts.vocabulary / VOCABULARY_PADDING) * VOCABULARY_PADDING
    sampler = hidden + sequences(engine, shape) * vocabulary * (engine.logit_bytes + element) if ends else 0.0
    kept = _penalties(facts, engine, shape) if ends else 0.0
    if facts.is_pooling:
        sampler = tokens * facts.hidden_size * POOLER_BYTES if ends else 0.0
    workspace = _workspace(facts, shape, tokens, element) + _gathered(facts, shape, tokens, element)
    encoder, cached = _encoder(facts, shape, tokens, context)
    vision = cached * facts.hidden_size * element / GIB + engine.vision_gib if facts.has_vision else 0.0
    return engine.activation_gib + (kept + max(encoder * element, workspace + max(forward, sampler))) / GIB + vision


def _penalties(facts: ModelFacts, engine: EngineMemory, shape: Shape) -> float:
    """Bytes of what the sampler keeps of each sequence: a count of each token, and a bit for each one of the prompt.

    (vLLM 0.32.0, `v1/worker/gpu/sample/penalties.py`, `PenaltiesState`.)
    """
    if not engine.request_state or facts.is_pooling:
        return 0.0
    return sequences(engine, shape) * 4.0 * (facts.vocabulary + math.ceil(facts.vocabulary / 32))


def _encoder(facts: ModelFacts, shape: Shape, tokens: int, context: int) -> tuple[int, int]:
    """Elements at the peak of the encoder, and tokens that its cache holds.

    vLLM profiles a batch of the largest items. It keeps their result while it profiles the language model (0.32.0,
    `v1/worker/gpu_model_runner.py`, `profile_run`; `multimodal/encoder_budget.py`).
    """
    tower = facts.tower
    if tower is None:
        return 0, tokens
    item = max(tower.image_tokens, min(tower.video_tokens, context) if shape.video else 0)
    budget = max(tokens, item)
    return budget // item * item * tower.patches_per_token * tower.patch_elements, budget


def _workspace(facts: ModelFacts, shape: Shape, tokens: int, element: int) -> float:
    """Bytes of the two buffers of fused experts (vLLM 0.19.0, `fused_moe.py`, `TritonExperts.workspace_shapes`).

    They stay during the sampler's peak. They hold the tokens of all data parallel ranks, since the router may send all
    of them to the experts of one.
    """
    experts = facts.experts
    if experts is None or facts.quantization.kernel is Kernel.MXFP4:
        return 0.0
    width = experts.intermediate_size / (1 if shape.has_whole_experts else shape.parallel.tensor)
    tokens *= shape.parallel.data
    return tokens * experts.top_k * (max(2 * width, facts.hidden_size) + max(width, facts.hidden_size)) * element


def _gathered(facts: ModelFacts, shape: Shape, tokens: int, element: int) -> float:
    """Bytes of the batches of all data parallel ranks, before and after the experts; 0 for one rank.

    vLLM's default exchange gathers them on each rank (0.32.0, `config/parallel.py`, `all2all_backend`).
    """
    ranks = shape.parallel.data
    return 2.0 * ranks * tokens * facts.hidden_size * element if ranks > 1 else 0.0


def graphs_gib(facts: ModelFacts, engine: EngineMemory, shape: Shape) -> float:
    if shape.eager:
        return 0.0
    graphs = engine.graphs
    drafting = sum(group.layers for group in drafting_layers(facts, shape))
    layers = math.ceil(facts.layers / shape.parallel.pipeline) + drafting
    base = graphs.base_gib if shape.parallel.group == 1 else graphs.group_base_gib
    each = graphs.layer_gib + (graphs.expert_layer_gib if facts.experts else 0.0)
    captured = _captured_part(graphs, shape, sequences(engine, shape) * (1 + shape.speculative_tokens))
    return (base + each * layers) * captured * (shape.adapters.graph_sets if shape.adapters else 1)


def _captured_part(graphs: GraphMemory, shape: Shape, tokens: int) -> float:
    """Number of captured graphs in relation to those of a batch of 512 tokens.

    Batches up to twice the tokens of a step without prompts are captured. Graphs of whole steps are captured up to
    these tokens (vLLM 0.32.0, `config/vllm.py`, `v1/worker/gpu/cudagraph_utils.py`).
    """
    if not graphs.whole_steps:
        return _captured(min(graphs.largest, 2 * tokens)) / _captured(graphs.largest)
    largest = min(graphs.largest, shape.max_num_batched_tokens or graphs.largest)
    return (_captured(min(largest, 2 * tokens)) + _captured(min(largest, tokens))) / (2 * _captured(LARGEST_GRAPH))


def _captured(largest: int) -> int:
    """Number of captured batch sizes: 1, 2, 4, then every 8th up to 256, and every 16th above.

    Examples:
        >>> _captured(8), _captured(512)
        (4, 51)
    """
    small = sum(size <= largest for size in (1, 2, 4))
    return max(1, small + min(largest, 256) // 8 + max(0, largest - 256) // 16)
