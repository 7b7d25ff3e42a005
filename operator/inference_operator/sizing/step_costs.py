"""The costs of a step (`steptime.py`) of a model on a kind of GPU: its work, divided by speeds that engines reach.

Guesses of speculative decoding are part of it: what guesses tokens, and what verifies them.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from inference_operator.hardware.offers import GpuOffer
from inference_operator.models.facts import Attention, MatrixPart, ModelFacts, Split
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


@dataclass(frozen=True, slots=True)
class StepWork:
    """The work of a step on each rank of the slowest pipeline stage."""

    dense_bytes: float
    """Weights that every step reads."""
    expert_bytes: float
    """All routed experts of the rank."""
    expert_share: float
    """The part of the experts that one token uses; 0 without experts."""
    token_bytes: float
    """KV cache of one token, in layers that keep all tokens."""
    windows: Mapping[int, float]
    """KV cache of one token within a window, by the window's tokens."""
    state_bytes: float
    token_operations: float
    """To multiply one token with the weights that it uses."""
    head_operations: float
    attention_operations: float
    """Between two tokens of a prompt."""
    exchanged_bytes: float
    """Activations of one token that a rank sends to others of its node."""
    exchanges: float
    """Collective operations of a step in a node."""
    network_bytes: float = 0.0
    """Activations of one token that a rank sends to other nodes."""
    network_exchanges: float = 0.0
    """Exchanges of a step between nodes."""


def step_work(facts: ModelFacts, reads: CacheReads, shape: Shape) -> StepWork:
    parallel = shape.parallel
    stages = rank_weights(facts, shape)
    stage = max(stages, key=lambda each: each.always_read + each.experts)
    part = math.ceil(facts.layers / parallel.pipeline) / facts.layers
    share = facts.experts.top_k / facts.experts.count if facts.experts else 0.0
    inside, between = _exchange(facts, shape, part)
    return StepWork(
        dense_bytes=stage.always_read,
        expert_bytes=stage.experts,
        expert_share=1 - (1 - share) ** parallel.data,
        token_bytes=reads.token,
        windows=reads.windows,
        state_bytes=reads.state,
        token_operations=OPERATIONS * part * _used_elements(facts, share) / parallel.tensor,
        head_operations=OPERATIONS * facts.vocabulary * facts.hidden_size / parallel.tensor,
        attention_operations=OPERATIONS * part * _attended_elements(facts) / parallel.tensor,
        exchanged_bytes=inside.sent,
        exchanges=inside.operations,
        network_bytes=between.sent,
        network_exchanges=between.operations,
    )


def _used_elements(facts: ModelFacts, share: float) -> float:
    """Elements of the layers' matrices that one token is multiplied with."""
    layers = (matrix for matrix in facts.matrices if matrix.part not in (MatrixPart.EMBEDDING, MatrixPart.HEAD))
    return sum(layer.elements * (share if layer.part is MatrixPart.EXPERTS else 1.0) for layer in layers)


def _attended_elements(facts: ModelFacts) -> float:
    """Elements of queries and of attention's outputs for one token, in layers that attend to all tokens.

    The output projection of a layer has as many columns as its heads have values, and keys are as wide or wider.
    """
    full = (Attention.FULL, Attention.LATENT)
    layers = sum(group.layers for group in facts.groups if group.attention in full)
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
    costs = costs_of_work(
        step_work(facts, reads, shape),
        gpu,
        overhead,
        operations_per_second=gpu.tflops * TERA * efficiency.SPEEDUP[kernel_cell.arithmetic] * share.value,
        stages=shape.parallel.pipeline,
        estimated=not share.measurements or _is_unmeasured(gpu, shape.parallel),
    )
    latency = efficiency.EXCHANGE_SECONDS if gpu.linked else efficiency.UNLINKED_EXCHANGE_SECONDS
    guesses = guess_costs(facts, gpu, shape, exchange_seconds=latency)
    return replace(costs, decodes=not facts.is_pooling, guesses=guesses)


def _is_unmeasured(gpu: GpuOffer, parallel: ParallelSizes) -> bool:
    """Whether no measurement of a step is public in this form: over nodes, of data parallel ranks, of a shared bus."""
    return parallel.nodes > 1 or parallel.data > 1 or (parallel.tensor > PAIR and not gpu.linked)


def costs_of_work(
    work: StepWork, gpu: GpuOffer, overhead: Overhead, *, operations_per_second: float, stages: int, estimated: bool
) -> StepCosts:
    memory = efficiency.MEMORY_SHARE * gpu.bandwidth_gb_per_s * GIGA
    link = (efficiency.LINK_SHARE if gpu.linked else efficiency.UNLINKED_SHARE) * gpu.link_gb_per_s * GIGA
    latency = efficiency.EXCHANGE_SECONDS if gpu.linked else efficiency.UNLINKED_EXCHANGE_SECONDS
    network = efficiency.NETWORK_SHARE * efficiency.NETWORK_GB_PER_S * GIGA
    plain = gpu.tflops * TERA
    return StepCosts(
        dense=work.dense_bytes / memory,
        experts=work.expert_bytes / (efficiency.EXPERTS_MEMORY_SHARE * gpu.bandwidth_gb_per_s * GIGA),
        expert_share=work.expert_share,
        cached_token=work.token_bytes / memory,
        windows={str(window): size / memory for window, size in work.windows.items()},
        sequence=work.state_bytes / memory + work.head_operations / (efficiency.HEAD_SHARE * plain) + overhead.sequence,
        token=work.token_operations / operations_per_second,
        attention=work.attention_operations / (efficiency.ATTENTION_SHARE * plain),
        exchange=(work.exchanged_bytes / link if work.exchanged_bytes and link else 0.0) + work.network_bytes / network,
        fixed=overhead.step + work.exchanges * latency + work.network_exchanges * efficiency.NETWORK_SECONDS,
        stages=stages,
        estimated=estimated,
    )


def guess_costs(facts: ModelFacts, gpu: GpuOffer, shape: Shape, *, exchange_seconds: float) -> GuessCosts | None:
    """The costs of a step's guesses; None without any, and where what guesses them is unknown or the text itself.

    It multiplies 16-bit weights, of which a step reads all; a layer of the model itself with experts reads fewer.

    Args:
        exchange_seconds: latency of an exchange between the tensor ranks.
    """
    speculation = shape.speculation
    if speculation is None or speculation.unknown:
        return None
    draft = None if speculation.head_bytes else speculation.draft_facts
    # Where the text itself guesses, it does so only in steps where it repeats: nothing says how many those are.
    if not (draft or speculation.head_bytes or (speculation.own_layer and not speculation.draft)):
        return None
    memory, operations = (
        efficiency.MEMORY_SHARE * gpu.bandwidth_gb_per_s * 1e9,
        efficiency.HEAD_SHARE * gpu.tflops * 1e12,
    )
    logits = facts.vocabulary * facts.hidden_size / shape.parallel.tensor
    read, elements = _read_bytes(facts, shape, speculation, draft, logits)
    layers = draft.layers if draft else 1
    started = GUESS_SECONDS + (layers - 1) * DRAFT_LAYER_SECONDS
    exchanges = 2 * layers * exchange_seconds if shape.parallel.tensor > 1 else 0.0
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
