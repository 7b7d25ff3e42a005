"""The costs of a step (`steptime.py`) of a model on a kind of GPU: its work, divided by speeds that engines reach.

Guesses of speculative decoding are part of it: what guesses tokens, and what verifies them.
"""

import math
from dataclasses import dataclass, replace

from inference_operator.hardware.offers import GpuOffer
from inference_operator.models.facts import OF_ALL_TOKENS, MatrixPart, ModelFacts, Split
from inference_operator.sizing import efficiency
from inference_operator.sizing.kv_cache import CacheReads, layer_token_bytes
from inference_operator.sizing.lora_and_speculative import draft_gib, draft_shape
from inference_operator.sizing.shape import KV_BYTES, ParallelSizes, Shape, Speculation
from inference_operator.sizing.steptime import GuessCosts, Overhead, StepCosts
from inference_operator.sizing.weights import rank_weights
from inference_operator.units import GIB

OPERATIONS = 2
"""A multiplication and an addition for each element of a matrix."""
SUMS_OF_LAYER = 2
"""A layer sums its activations over tensor ranks twice: after attention and after the feed-forward part."""
GUESS_SECONDS = 0.55e-3
"""To start the kernels of one guess of a head or layer, beside reading it. This and the next one are fitted to the
rows of Llama 3.1 8B (`python -m bench.speculation`)."""
DRAFT_LAYER_SECONDS = 30e-6
"""To start the kernels of one more layer of a draft model. Assumed: about ten kernels of 3 microseconds, in a graph."""
VERIFY_SECONDS = 0.8e-3
"""To compare the guesses of a step with what the model computed, and to prepare the next ones."""


def _used_elements(facts: ModelFacts, share: float) -> float:
    """Elements of the layers' matrices that one token is multiplied with."""
    layers = (matrix for matrix in facts.matrices if matrix.part not in (MatrixPart.EMBEDDING, MatrixPart.HEAD))
    return sum(layer.elements * (share if layer.part is MatrixPart.EXPERTS else 1.0) for layer in layers)


def _attended_elements(facts: ModelFacts) -> float:
    """Elements of queries and of attention's outputs for one token, in layers that attend to all tokens.

    The output projection of a layer has as many columns as its heads have values, and keys are as wide or wider.
    """
    layers = sum(group.layers for group in facts.groups if group.attention in OF_ALL_TOKENS)
    projections = [m for m in facts.matrices if m.part is MatrixPart.ATTENTION and m.split is Split.COLUMNS]
    wide = max((projection.columns for projection in projections), default=facts.hidden_size)
    return 2.0 * layers * wide


@dataclass(frozen=True, slots=True)
class _Exchange:
    """Exchanges of a rank over one kind of link."""

    sent: float = 0.0
    """Bytes for one token."""
    operations: float = 0.0
    """Exchanges of a step."""

    def __add__(self, other: "_Exchange") -> "_Exchange":
        return _Exchange(self.sent + other.sent, self.operations + other.operations)


def _exchange(facts: ModelFacts, shape: Shape, part: float) -> tuple[_Exchange, _Exchange]:
    """Exchanges of a rank in each step: inside its node, and with other nodes.

    A ring all-reduce sends every element nearly twice; between nodes, the adapters of all GPUs of a node share that.
    Experts of data parallel ranks get each token once, and send its result back; each node gets as many. Between
    nodes a token goes at most once to each other node, as in a ring of all. A stage sends its activations to the next
    one; ranks are numbered node by node, so as many stages as there are nodes have the next one on another node.
    """
    parallel, layers = shape.parallel, facts.layers * part
    tensor, data, activation = parallel.tensor, parallel.data, facts.hidden_size * facts.element_bytes
    groups, stages, crossing = _Exchange(), _Exchange(), _Exchange()
    if tensor > 1:
        sums = SUMS_OF_LAYER * layers
        groups += _Exchange(sums * activation * 2 * (tensor - 1) / tensor, sums)
    if data > 1 and facts.experts:
        copies = min(facts.experts.top_k, data - 1)
        away = 1 - 1 / parallel.nodes
        groups += _Exchange(2 * layers * activation * copies * (1 - away), 2 * layers)
        sent = min(copies * away, parallel.nodes - 1)
        crossing += _Exchange(2 * layers * activation * sent, 2 * layers if away else 0.0)
    if parallel.pipeline > 1:
        share = min(1.0, parallel.nodes / parallel.pipeline) if parallel.nodes > 1 else 0.0
        stages = _Exchange(activation * (1 - share), 1 - share)
        crossing += _Exchange(activation * share, share)
    if tensor > parallel.ranks_per_node:
        return stages, _Exchange(groups.sent / parallel.ranks_per_node, groups.operations) + crossing
    return groups + stages, crossing


GIGA, TERA = 1e9, 1e12
PAIR = 2
"""Largest group of GPUs on a bus of which measurements are public (`bench/data/throughput.csv`)."""


def step_costs(
    facts: ModelFacts, gpu: GpuOffer, reads: CacheReads, overhead: Overhead, shape: Shape
) -> StepCosts | None:
    """The costs of a step; None if the GPU's speed is unknown, or if weights in host memory pass a bus in each step.

    Args:
        reads: bytes of the engine's KV cache that a step reads.
    """
    if not (gpu.bandwidth_gb_per_s and gpu.tflops) or shape.cpu_offload_gib:
        return None
    kernel_cell = efficiency.cell(facts, shape, gpu=gpu.kind, capability=gpu.capability)
    share = efficiency.measured_share(kernel_cell)
    costs = costs_at_speed(
        facts,
        gpu,
        reads,
        overhead,
        shape,
        operations_per_second=gpu.tflops * TERA * efficiency.SPEEDUP[kernel_cell.arithmetic] * share.value,
        estimated=not share.measurements or _is_unmeasured(gpu, shape.parallel),
    )
    return replace(costs, decodes=not facts.is_pooling, guesses=guess_costs(facts, gpu, shape))


def _is_unmeasured(gpu: GpuOffer, parallel: ParallelSizes) -> bool:
    """Whether no measurement of a step is public in this form: over nodes, of data parallel ranks, of a shared bus."""
    return parallel.nodes > 1 or parallel.data > 1 or (parallel.tensor > PAIR and not gpu.linked)


def costs_at_speed(
    facts: ModelFacts,
    gpu: GpuOffer,
    reads: CacheReads,
    overhead: Overhead,
    shape: Shape,
    *,
    operations_per_second: float,
    estimated: bool,
) -> StepCosts:
    """The costs on each rank of the slowest pipeline stage, if tensor cores reach so many operations per second.

    Operations are those of one token with the weights that it uses, of its logits, and between two tokens of a prompt.
    """
    tensor, stages = shape.parallel.tensor, shape.parallel.pipeline
    stage = max(rank_weights(facts, shape), key=lambda each: each.always_read + each.experts)
    part = math.ceil(facts.layers / stages) / facts.layers
    experts_of_token = facts.experts.top_k / facts.experts.count if facts.experts else 0.0
    token_operations = OPERATIONS * part * _used_elements(facts, experts_of_token) / tensor
    head_operations = OPERATIONS * facts.vocabulary * facts.hidden_size / tensor
    attention_operations = OPERATIONS * part * _attended_elements(facts) / tensor
    memory = efficiency.MEMORY_SHARE * gpu.bandwidth_gb_per_s * GIGA
    plain = gpu.tflops * TERA
    inside, between = _exchange(facts, shape, part)
    link = (efficiency.LINK_SHARE if gpu.linked else efficiency.UNLINKED_SHARE) * gpu.link_gb_per_s * GIGA
    network = efficiency.NETWORK_SHARE * efficiency.NETWORK_GB_PER_S * GIGA
    return StepCosts(
        dense=stage.always_read / memory,
        experts=stage.experts / (efficiency.EXPERTS_MEMORY_SHARE * gpu.bandwidth_gb_per_s * GIGA),
        expert_share=1 - (1 - experts_of_token) ** shape.parallel.data,
        cached_token=reads.token / memory,
        windows={str(window): size / memory for window, size in reads.windows.items()},
        sequence=reads.state / memory + head_operations / (efficiency.HEAD_SHARE * plain) + overhead.sequence,
        token=token_operations / operations_per_second,
        attention=attention_operations / (efficiency.ATTENTION_SHARE * plain),
        exchange=(inside.sent / link if inside.sent and link else 0.0) + between.sent / network,
        fixed=overhead.step + inside.operations * _latency(gpu) + between.operations * efficiency.NETWORK_SECONDS,
        stages=stages,
        estimated=estimated,
    )


def _latency(gpu: GpuOffer) -> float:
    """Seconds of an exchange between GPUs of a node."""
    return efficiency.EXCHANGE_SECONDS if gpu.linked else efficiency.UNLINKED_EXCHANGE_SECONDS


def guess_costs(facts: ModelFacts, gpu: GpuOffer, shape: Shape) -> GuessCosts | None:
    """The costs of a step's guesses; None without any, and where what guesses them is unknown or the text itself.

    It multiplies 16-bit weights, of which a step reads all; a layer of the model itself with experts reads fewer.
    """
    speculation = shape.speculation
    if speculation is None or speculation.unknown:
        return None
    draft = None if speculation.head_bytes else speculation.draft_facts
    # Where the text itself guesses, it does so only in steps where it repeats: nothing says how many those are.
    if not (draft or speculation.head_bytes or (speculation.own_layer and not speculation.draft)):
        return None
    memory = efficiency.MEMORY_SHARE * gpu.bandwidth_gb_per_s * GIGA
    operations = efficiency.HEAD_SHARE * gpu.tflops * TERA
    logits = facts.vocabulary * facts.hidden_size / shape.parallel.tensor
    read, elements = _read_bytes(facts, shape, speculation, draft, logits)
    layers = draft.layers if draft else 1
    started = GUESS_SECONDS + (layers - 1) * DRAFT_LAYER_SECONDS
    exchanges = 2 * layers * _latency(gpu) if shape.parallel.tensor > 1 else 0.0
    cached = _cached_bytes(draft, shape) if draft else 0.0
    tokens = speculation.tokens
    return GuessCosts(
        tokens,
        fixed=tokens * (read / memory + started + exchanges) + VERIFY_SECONDS,
        sequence=tokens * 2 * (elements + logits) / operations,
        cached_token=tokens * cached / memory,
        accepted=speculation.accepted,
    )


def _read_bytes(
    facts: ModelFacts, shape: Shape, speculation: Speculation, draft: ModelFacts | None, logits: float
) -> tuple[float, float]:
    """Bytes of a rank that one guess reads, and elements that it multiplies."""
    if draft:
        read = rank_weights(draft, draft_shape(shape))[0].always_read
        return read, read / (shape.element_bytes or draft.element_bytes)
    size, element = draft_gib(facts, shape) * GIB, shape.element_bytes or facts.element_bytes
    if speculation.own_layer:  # which has the model's own head
        return size + element * logits, size / element + logits
    return size / shape.parallel.tensor, size / shape.parallel.tensor / element


def _cached_bytes(draft: ModelFacts, shape: Shape) -> float:
    """Bytes of one token in the draft model's cache; windows count as if they kept all."""
    element = KV_BYTES.get(shape.kv_cache_dtype, shape.element_bytes or draft.element_bytes)
    tensor = shape.parallel.tensor
    return sum(group.layers * layer_token_bytes(group, tensor, element) for group in draft.groups)
