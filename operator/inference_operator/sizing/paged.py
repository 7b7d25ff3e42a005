"""The budget of engines that take a part of a GPU's memory, and give their paged KV cache what is left of it.

    KV cache = memory * utilization - weights - activation - context - graphs (where the engine counts them)

The formula is vLLM's own. It holds within 0.05 GiB for every published start-up that logs all of its terms.

How tensor parallelism divides an encoder of images whose layers cannot be divided as the language model's are:
the heads of an encoder, and the width of its MLP, are often no multiple of the tensor parallel size: the encoder of
GLM-4.5V has 12 heads, its language model 96. Then each rank gets the whole encoder, if the engine can do so; it takes
memory on each GPU. Otherwise the size is not allowed.
"""

import math
from collections.abc import Collection
from dataclasses import dataclass, replace

from inference_operator.hardware.offers import GpuOffer
from inference_operator.models.facts import Kernel, ModelFacts
from inference_operator.sizing.activation import (
    activation_gib,
    batched_tokens,
    default_batched_tokens,
    graphs_gib,
    sequences,
)
from inference_operator.sizing.budget import TYPICAL_TOKENS, Budget, Origin, Term, TermName
from inference_operator.sizing.engine_memory import EngineMemory
from inference_operator.sizing.gpu_support import GpuSupport
from inference_operator.sizing.kv_cache import CacheLayout, allocated_cache, cache_layout, cache_reads
from inference_operator.sizing.lora_and_speculative import adapters_gib, draft_gib
from inference_operator.sizing.rules import allowed_sizes, broken_rule
from inference_operator.sizing.shape import BATCHED_TOKENS, CONTEXT, SEQUENCES, Shape, SizingInputs, context_left
from inference_operator.sizing.step_costs import step_costs
from inference_operator.sizing.steptime import Overhead, StepCosts
from inference_operator.sizing.weights import rank_weights
from inference_operator.units import GIB


@dataclass(frozen=True, slots=True)
class EncoderDivision:
    whole: Collection[str] = ()
    """Architectures whose encoder each rank can have as a whole."""
    divided: tuple[str, ...] = ()
    """Beginnings of other architectures, whose encoder is always divided."""

    def needs_whole(self, facts: ModelFacts, shape: Shape) -> bool:
        tower = facts.tower
        return tower is not None and facts.architecture in self.whole and not tower.divisible(shape.parallel.tensor)

    def broken_rule(self, facts: ModelFacts, shape: Shape) -> str | None:
        tower, tensor = facts.tower, shape.parallel.tensor
        if facts.architecture in self.whole:
            divided = shape.whole_encoder is False
        else:
            divided = facts.architecture.startswith(self.divided or "-")
        if tower is None or not divided or tower.divisible(tensor):
            return None
        if tower.heads % tensor:
            return f"{tower.heads} attention heads of the encoder of images are not divisible by {tensor}."
        return f"MLPs of the encoder of images are {tower.width} wide, which is not divisible by {tensor}."


TOKEN_ID_BYTES, BLOCK_NUMBER_BYTES = 4, 4
"""VLLM 0.32.0, `v1/worker/gpu/states.py` (`all_token_ids`), `v1/worker/gpu/block_table.py`."""
NO_TABLES, NO_ENCODERS = GpuSupport(), EncoderDivision()


@dataclass(frozen=True, slots=True)
class PagedEngine:
    gpu: GpuOffer
    engine: EngineMemory
    overhead: Overhead
    support: GpuSupport = NO_TABLES
    encoders: EncoderDivision = NO_ENCODERS

    def unable(self, facts: ModelFacts, shape: Shape) -> str | None:
        return self.support.unable(facts, shape, self.gpu.capability)

    def broken_rule(self, facts: ModelFacts, shape: Shape) -> str | None:
        return broken_rule(facts, shape) or self.encoders.broken_rule(facts, shape)

    def allowed_sizes(self, facts: ModelFacts, shape: Shape, at_most: int) -> tuple[int, ...]:
        sizes = allowed_sizes(facts, shape, at_most)
        return tuple(size for size in sizes if self.encoders.broken_rule(facts, shape.with_tensor(size)) is None)

    def budget(self, facts: ModelFacts, shape: Shape) -> Budget:
        as_run = self._as_run(facts, shape)
        kept = as_run.kv_cache_dtype if as_run.kv_cache_dtype != shape.kv_cache_dtype else ""
        return replace(paged_budget(facts, self.gpu, self.engine, as_run), recipe_cache=kept)

    def step_costs(self, facts: ModelFacts, shape: Shape) -> StepCosts | None:
        as_run = self._as_run(facts, shape)
        return step_costs(facts, self.gpu, cache_reads(facts, self.engine, as_run), self.overhead, as_run)

    def _as_run(self, facts: ModelFacts, shape: Shape) -> Shape:
        as_run = self.support.as_run(facts, shape, self.gpu.capability)
        whole = self.encoders.needs_whole(facts, shape) if shape.whole_encoder is None else shape.whole_encoder
        return replace(as_run, whole_encoder=whole) if facts.tower else as_run

    def left_to_engine(self, facts: ModelFacts, shape: Shape, budget: Budget, inputs: SizingInputs) -> tuple[str, ...]:
        """The sizes that equal what the engine derives; it refuses some numbers above its own."""
        default = default_batched_tokens(facts, self.engine, shape, budget.context)
        unset = shape.max_num_batched_tokens is None
        derived = (
            (CONTEXT, context_left(facts, inputs.context, budget.context)),
            (SEQUENCES, shape.max_num_seqs is None),
            (BATCHED_TOKENS, unset and budget.max_num_batched_tokens == default),
        )
        return tuple(name for name, is_default in derived if is_default)


def paged_budget(facts: ModelFacts, gpu: GpuOffer, engine: EngineMemory, shape: Shape) -> Budget:
    context = shape.context or facts.context
    weights, activation = _fullest_stage(facts, engine, shape, context)
    outside_torch = engine.context_gib(shape.parallel.group, shape.parallel.pipeline, linked=gpu.linked)
    graphs = graphs_gib(facts, engine, shape)
    counted = graphs if engine.graphs.in_budget else 0.0
    batched = batched_tokens(facts, engine, shape, context)
    unprofiled = engine.unprofiled_mxfp4_bytes if facts.quantization.kernel is Kernel.MXFP4 else 0.0
    kernels = unprofiled * batched * shape.parallel.data / GIB
    used = weights + activation + outside_torch + counted
    utilization = shape.utilization or engine.utilization
    if shape.kv_cache_bytes:  # the engine then ignores its utilization
        utilization = (used + shape.kv_cache_bytes / GIB) / gpu.memory_gib
    budget = Budget(
        memory=gpu.memory_gib,
        utilization=utilization,
        weights=weights,
        activation=activation,
        context_memory=outside_torch,
        graphs=graphs,
        kv_cache=gpu.memory_gib * utilization - used,
        context=context,
        max_num_seqs=sequences(engine, shape),
        max_num_batched_tokens=batched,
        outside=kernels + graphs - counted,
        whole_encoder=bool(shape.whole_encoder),
        spare=engine.spare,
        pinned=sequences(engine, shape) * context * TOKEN_ID_BYTES / GIB if engine.request_state else 0.0,
    )
    return _with_cache(budget, facts, engine, shape)


def _fullest_stage(facts: ModelFacts, engine: EngineMemory, shape: Shape, context: int) -> tuple[float, float]:
    """Weights and activations of the pipeline stage with the largest sum of both, in GiB."""
    stages, adapters, draft = rank_weights(facts, shape), adapters_gib(facts, shape), draft_gib(facts, shape)
    sums = []
    for index, stage in enumerate(stages):
        ends = index == len(stages) - 1
        weights = max(0.0, stage.bytes / GIB - shape.cpu_offload_gib) + adapters + (draft if ends else 0.0)
        sums.append((weights, activation_gib(facts, engine, shape, context, ends=ends)))
    weights, activation = max(sums, key=sum)
    return weights, activation


def _with_cache(budget: Budget, facts: ModelFacts, engine: EngineMemory, shape: Shape) -> Budget:
    budget = replace(budget, terms=_terms(budget, facts, engine, shape))
    if facts.is_encoder:  # no cache limits its sequences
        return replace(budget, concurrency=budget.max_num_seqs, typical_concurrency=budget.max_num_seqs)
    layout, batched = cache_layout(facts, engine, shape), budget.max_num_batched_tokens
    cache = allocated_cache(layout, engine, size=budget.kv_cache * GIB, context=budget.context, batched=batched)
    needs_states = engine.block_per_sequence and shape.whole_graphs and not shape.eager and layout.has_states
    return replace(
        budget,
        outside=budget.outside + (_block_tables(layout, budget) if engine.request_state else 0.0),
        state_block_gib=layout.unit_bytes / GIB if needs_states else 0.0,
        kv_needed=layout.blocks(budget.context, batched) * layout.unit_bytes / GIB,
        kv_token_bytes=layout.token_bytes,
        kv_tokens=cache.tokens,
        concurrency=cache.concurrency,
        typical_concurrency=cache.blocks / layout.blocks(min(TYPICAL_TOKENS, budget.context), batched),
    )


def _block_tables(layout: CacheLayout, budget: Budget) -> float:
    """GiB of the two tables of each group with the blocks of each sequence. They are allocated after the KV cache."""
    blocks = sum(group.groups * math.ceil(budget.context / group.block_tokens) for group in layout.kept)
    return 2 * BLOCK_NUMBER_BYTES * budget.max_num_seqs * blocks / GIB


def _terms(budget: Budget, facts: ModelFacts, engine: EngineMemory, shape: Shape) -> tuple[Term, ...]:
    other_parts = {"adapters": adapters_gib(facts, shape), "for speculative decoding": draft_gib(facts, shape)}
    parts = tuple((name, gib) for name, gib in other_parts.items() if gib)
    return (
        Term(TermName.WEIGHTS, budget.weights, Origin(facts.weights_from, parts=parts)),
        Term(TermName.ACTIVATION, budget.activation, Origin(engine.origin)),
        Term(TermName.NON_TORCH, budget.context_memory, Origin(engine.origin)),
        Term(
            TermName.CUDA_GRAPHS,
            budget.graphs,
            Origin(f"{engine.origin}{engine.graphs.fitted_to}", in_budget=engine.graphs.in_budget),
        ),
        Term(TermName.KV_CACHE, budget.kv_cache, Origin("what is left")),
    )
