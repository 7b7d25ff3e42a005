"""The longest context that fits on a group of GPUs of one kind.

- A shape fits if its budget fits (`Budget.fits`) and its spare memory stays free. A shape whose tensor parallel size
  and context are both requested needs no spare memory.
- The context is between a least and a longest number of tokens. If the longest fits, it is used; otherwise a binary
  search in steps of `CONTEXT_STEP` finds the longest that fits.
- A context above `USUAL_CONTEXT` that nobody requested must leave room for `TYPICAL_REQUESTS` beside one request of its
  length, and it is at most `LONGEST_UNREQUESTED`. It never decides which GPUs are chosen.
- If neither `max_num_seqs` nor `max_num_batched_tokens` is requested, small batches are tried too, where the engine's
  own leave too little memory for the target: they leave more of it for the KV cache.
- A plan must hold the requested number of typical requests at once; by default `TYPICAL_REQUESTS`.
- A batch has no more sequences than the engine starts with (`fitted_batch`). A requested number must fit.

Division of an engine over nodes: the divisions that sizing tries, the preferred first.

- The fewest nodes come first. A node is left only if no GPUs of one node hold the model, not even with a shorter
  context.
- Tensor parallelism stays inside a node, where GPUs have NVLink; the stages of a pipeline are on different nodes, as in
  vLLM's guide to several nodes (v0.32.0, `docs/serving/parallelism_scaling.md`). What a user requests is kept.
- Several stages on one node come after one: they help a model whose heads or groups limit the tensor parallel size.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from inference_operator.hardware.offers import GpuOffer
from inference_operator.models.facts import ModelFacts
from inference_operator.sizing.budget import Budget, EngineOnGpus
from inference_operator.sizing.rules import SIZES
from inference_operator.sizing.shape import ParallelSizes, Shape, SizingInputs


@dataclass(frozen=True, slots=True)
class Candidate:
    shape: Shape
    budget: Budget


SAFE_SEQUENCES = 32
"""Sequences of a batch where the size of states is unknown. Known models need less for one than for 8,192 tokens, and a
plan has room for many more tokens than 32 times these."""


def started_shape(engine: EngineOnGpus, facts: ModelFacts, shape: Shape) -> Candidate:
    """The shape with its budget; a number of sequences that nobody requests is at most what the engine starts with."""
    return Candidate(shape, engine.budget(facts, shape)) if shape.max_num_seqs else fitted_batch(engine, facts, shape)


def fitted_batch(
    engine: EngineOnGpus, facts: ModelFacts, shape: Shape, *, least: int = 1, most: int | None = None
) -> Candidate:
    """The shape with at most as many sequences as have blocks of states; unchanged if not even the least number has.

    vLLM captures CUDA graphs of whole steps, in which each sequence writes its own block of states. It does not start
    with fewer blocks than `max_num_seqs` (0.32.0, `config/compilation.py`, `resolve_cudagraph_mode_and_sizes`). Fewer
    sequences need less memory for the sampler and for graphs, which leaves more blocks. So the largest number is
    searched.
    """
    most = min(most or SAFE_SEQUENCES, SAFE_SEQUENCES) if facts.has_unknown_states else most
    whole = Candidate(shape, engine.budget(facts, shape))
    if most and most < whole.budget.max_num_seqs:
        return fitted_batch(engine, facts, replace(shape, max_num_seqs=most), least=min(least, most))
    spare = 0.0 if shape.kv_cache_bytes else whole.budget.spare_gib
    if not whole.budget.state_block_gib or whole.budget.states_headroom >= spare:
        return whole
    best, low, high = whole, least - 1, whole.budget.max_num_seqs
    middle = least
    while high - low > 1:
        fewer = replace(shape, max_num_seqs=middle)
        budget = engine.budget(facts, fewer)
        fits = budget.states_headroom >= spare
        low, high, best = (middle, high, Candidate(fewer, budget)) if fits else (low, middle, best)
        middle = (low + high) // 2
    return best


MOST_NODES = 8
"""Most nodes that sizing chooses by itself; no published service uses more for one model."""


@dataclass(frozen=True, slots=True)
class Division:
    nodes: int = 1
    deep: bool = False
    """Whether each node has several stages, although NVLink connects its GPUs."""


ONE_NODE = Division()


def divisions(inputs: SizingInputs) -> Iterator[tuple[Division, ...]]:
    """The divisions to try over each number of nodes, the preferred first.

    Examples:
        >>> [[(division.nodes, division.deep) for division in same] for same in divisions(SizingInputs(nodes=2))]
        [[(2, False), (2, True)]]
        >>> max(division.nodes for same in divisions(SizingInputs()) for division in same)
        8
    """
    for nodes in (inputs.nodes,) if inputs.nodes else range(1, MOST_NODES + 1):
        yield Division(nodes), Division(nodes, deep=True)


USUAL_CONTEXT = 32768
"""Target context in tokens, for models that support it, if the user requests none (docs/explanation/sizing.md)."""
LONGEST_UNREQUESTED = 262_144
"""Longest context in tokens that nobody requests. Recipes set the context of models of 1,048,576 tokens too
(vllm-project/recipes): each sequence of a batch costs memory for it (`Budget.pinned`)."""
LEAST_CONTEXT = 8192
"""A context is not reduced below this number of tokens (docs/explanation/sizing.md)."""
TYPICAL_REQUESTS = 8
"""Typical requests that fit at once in every plan (docs/explanation/sizing.md)."""
MOST_UNLINKED = 2
"""Largest tensor parallel size without NVLink, unless it is requested or needed for the latency: each further GPU
exchanges activations over the same bus. NVIDIA's table for the RTX PRO 6000 has a pipeline ahead of larger sizes
(NVIDIA/TensorRT-LLM, `docs/source/developer-guide/perf-overview.md`). A pipeline never shortens a token's time."""
SHARED_BATCH = 1024
"""`max_num_batched_tokens` of data parallel ranks, if larger ones do not fit: each rank has buffers for the batches of
all (`activation.py`)."""
CONTEXT_STEP = 1024
"""A context that sizing chooses is a multiple of it, unless it is the model's own."""
SMALL_SEQUENCES, SMALL_BATCH = 256, 2048
"""`max_num_seqs` and `max_num_batched_tokens` of small GPUs; used on large GPUs if the defaults do not fit."""
OnGpus: TypeAlias = Callable[[GpuOffer], EngineOnGpus]


@dataclass(frozen=True, slots=True)
class Pool:
    facts: ModelFacts
    offer: GpuOffer
    engine: EngineOnGpus

    def candidate(self, shape: Shape, inputs: SizingInputs) -> Candidate:
        """The shape with its budget, and with fewer sequences where nobody requests them and too few would start."""
        if inputs.shape.max_num_seqs is not None:
            return Candidate(shape, self.engine.budget(self.facts, shape))
        least = inputs.least_sequences
        return fitted_batch(self.engine, self.facts, shape, least=least, most=inputs.most_sequences)

    def fits(self, candidate: Candidate, inputs: SizingInputs) -> bool:
        """Whether it fits, with spare memory unless both tensor parallel size and context are requested."""
        budget = candidate.budget
        spare = 0.0 if inputs.tensor and inputs.context else budget.spare_gib
        # A KV cache of a requested size does not grow, so the spare memory is outside of the budget.
        inside = min(budget.headroom, budget.states_headroom)
        left = budget.outside_headroom if candidate.shape.kv_cache_bytes else inside
        beside = math.ceil(min(TYPICAL_REQUESTS, budget.max_num_seqs - 1) / candidate.shape.parallel.data)
        roomy = bool(inputs.context) or budget.context <= USUAL_CONTEXT or budget.typical_beside_longest >= beside
        return budget.fits and left >= spare and roomy

    def starts(self, shape: Shape, inputs: SizingInputs) -> bool:
        return self.engine.broken_rule(self.facts, shape) is None and self.fits(self.candidate(shape, inputs), inputs)

    def sizes(self, inputs: SizingInputs, stages: int = 1, nodes: int = 1) -> tuple[int, ...]:
        most = self.offer.most_in_a_group * nodes // (stages * inputs.data)
        shape = replace(inputs.shape, parallel=ParallelSizes(1, stages, inputs.data, nodes))
        if inputs.tensor is None:
            return self.engine.allowed_sizes(self.facts, shape, most)
        allowed = self.engine.broken_rule(self.facts, shape.with_tensor(inputs.tensor)) is None
        return (inputs.tensor,) if allowed and inputs.tensor <= most else ()

    def parallels(
        self, inputs: SizingInputs, division: Division = ONE_NODE, *, shares_bus: bool = False
    ) -> tuple[ParallelSizes, ...]:
        """Parallel sizes to try in a division over nodes, by their number of ranks.

        Without NVLink, a pipeline exchanges less than tensor parallelism: from `MOST_UNLINKED` ranks on, the layers are
        divided, unless the user requests a size or speculative decoding needs all layers on each rank.

        Args:
            shares_bus: gives the larger tensor parallel sizes of one node, and only these.
        """
        nodes = division.nodes
        if not self.offer.can_span(nodes, by_choice=inputs.nodes is None):
            return ()
        stages = self._stages(inputs, division)
        limited = len(stages) > 1 and not self.offer.linked
        if shares_bus and not (limited and division == ONE_NODE):
            return ()
        least, most = (MOST_UNLINKED, math.inf) if shares_bus else (0, MOST_UNLINKED if limited else math.inf)
        possible = [
            ParallelSizes(tensor, pipeline, inputs.data, nodes)
            for pipeline in stages
            for tensor in self.sizes(inputs, pipeline, nodes)
            if least < tensor <= most and tensor * pipeline * inputs.data % nodes == 0
        ]
        ordered = sorted(possible, key=lambda parallel: (parallel.world_size, parallel.pipeline))
        return tuple(parallel for parallel in ordered if division == ONE_NODE or self._may_hold(inputs, parallel))

    def _may_hold(self, inputs: SizingInputs, parallel: ParallelSizes) -> bool:
        """Whether the least context fits with the smallest batches. It saves the search where many nodes are tried."""
        smallest = smallest_batches(self.facts, inputs, parallel)
        return self.candidate(replace(smallest, context=least_context(self.facts, inputs)), inputs).budget.fits

    def _stages(self, inputs: SizingInputs, division: Division) -> tuple[int, ...]:
        """Pipeline parallel sizes to try: the requested one, or one stage on each node, or several."""
        nodes, stages = division.nodes, inputs.pipeline
        if inputs.data > 1:  # only on as many nodes as are requested
            return (1,) if division == Division(inputs.nodes or 1) else ()
        if stages is not None:
            whole = inputs.nodes is not None or stages % nodes == 0  # else tensor parallelism would leave its node
            return (stages,) if whole and not division.deep else ()
        by_itself = self.divides_layers(inputs) and not self.facts.is_pooling and not inputs.shape.speculation
        free = by_itself and inputs.tensor is None
        if division.deep:
            return tuple(nodes * size for size in SIZES[1:]) if free and self.offer.linked else ()
        if nodes > 1 and inputs.nodes is None and not (by_itself and self._fills_a_node(inputs)):
            return ()
        return tuple(nodes * size for size in SIZES) if free and not self.offer.linked else (nodes,)

    def _fills_a_node(self, inputs: SizingInputs) -> bool:
        """Whether no larger tensor parallel size than the requested one is possible on a node; it would come first."""
        sizes = self.engine.allowed_sizes(self.facts, inputs.shape, self.offer.most_in_a_group)
        return inputs.tensor is None or not any(size > inputs.tensor for size in sizes)

    def divides_layers(self, inputs: SizingInputs) -> bool:
        return divides_layers(self.engine, self.facts, inputs)

    def at_target(self, inputs: SizingInputs, parallel: ParallelSizes) -> Candidate | None:
        """The candidate of these sizes that holds the target, with the engine's batches if they fit; None if none does.

        A longer context than the target, which nobody requested, is not worth smaller batches.
        """
        least = aimed_context(self.facts, inputs)
        for shape in _shapes(self.facts, inputs, parallel):
            candidate = self._longest(shape, inputs, least)
            if candidate is not None and enough(candidate, inputs):
                return candidate
        return None

    def longest(self, inputs: SizingInputs, parallel: ParallelSizes, least: int) -> Candidate | None:
        candidates = [self._longest(shape, inputs, least) for shape in _shapes(self.facts, inputs, parallel)]
        fitting = [candidate for candidate in candidates if candidate is not None]
        return max(fitting, key=lambda each: (each.budget.context, each.budget.max_num_seqs), default=None)

    def _longest(self, shape: Shape, inputs: SizingInputs, least: int) -> Candidate | None:
        most = inputs.context or max(least, min(self.facts.context, LONGEST_UNREQUESTED))
        best = self.candidate(replace(shape, context=least), inputs)
        if not self.fits(best, inputs):
            return None
        if self.fits(longest := self.candidate(replace(shape, context=most), inputs), inputs):
            return longest
        low, high = least // CONTEXT_STEP, most // CONTEXT_STEP
        while high - low > 1:
            middle = (low + high) // 2
            candidate = self.candidate(replace(shape, context=middle * CONTEXT_STEP), inputs)
            low, high, best = (middle, high, candidate) if self.fits(candidate, inputs) else (low, middle, best)
        return best


def divides_layers(engine: EngineOnGpus, facts: ModelFacts, inputs: SizingInputs) -> bool:
    """Whether the engine divides layers as a pipeline. Otherwise its one size is no exchange of activations."""
    return engine.broken_rule(facts, replace(inputs.shape, parallel=ParallelSizes(1, 2))) is None


def aimed_context(facts: ModelFacts, inputs: SizingInputs) -> int:
    return inputs.context or min(facts.context, USUAL_CONTEXT)


def least_context(facts: ModelFacts, inputs: SizingInputs) -> int:
    return inputs.context or min(facts.context, LEAST_CONTEXT)


def enough(candidate: Candidate, inputs: SizingInputs) -> bool:
    """Whether the typical requests fit at once, or as many as are requested at most. A requested KV cache is enough."""
    given = candidate.shape.kv_cache_bytes is not None and inputs.concurrency is None
    most = inputs.shape.max_num_seqs or TYPICAL_REQUESTS
    requests = inputs.concurrency or min(TYPICAL_REQUESTS, most)
    return given or candidate.budget.typical(math.ceil(requests / candidate.shape.parallel.data))


def _shapes(facts: ModelFacts, inputs: SizingInputs, parallel: ParallelSizes) -> Iterator[Shape]:
    """The requested shape; if it does not set the batch sizes, also the shape with small batches.

    Batches of pooling models are always the engine's: a prompt that is not divided must fit into one.
    """
    shape = replace(inputs.shape, parallel=parallel)
    yield shape
    if shape.max_num_seqs is None and shape.max_num_batched_tokens is None and not facts.is_pooling:
        small = replace(shape, max_num_seqs=SMALL_SEQUENCES, max_num_batched_tokens=SMALL_BATCH)
        yield small
        if parallel.data > 1:
            yield replace(small, max_num_batched_tokens=SHARED_BATCH)


def smallest_batches(facts: ModelFacts, inputs: SizingInputs, parallel: ParallelSizes) -> Shape:
    *_, smallest = _shapes(facts, inputs, parallel)
    return smallest
