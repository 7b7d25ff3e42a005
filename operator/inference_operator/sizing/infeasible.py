"""Explains why no plan exists: memory needed and offered for each GPU, shortfall, and cure."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from difflib import get_close_matches
from math import floor

from inference_operator.api.reasons import Reason
from inference_operator.hardware.kinds import GPU_KINDS
from inference_operator.hardware.offers import GpuOffer, offer_named
from inference_operator.models.checkpoint import WeightFormat, format_of
from inference_operator.models.facts import Kernel, ModelFacts, Quantization
from inference_operator.sizing.budget import TYPICAL_TOKENS, Budget, EngineOnGpus
from inference_operator.sizing.fitting import (
    MOST_NODES,
    TYPICAL_REQUESTS,
    Pool,
    divides_layers,
    least_context,
    smallest_batches,
)
from inference_operator.sizing.gpu_plan import Infeasible
from inference_operator.sizing.impossible_division import (
    NODES,
    PER_NODE,
    TENSOR,
    impossible,
    listed,
    unequal,
    without_experts,
)
from inference_operator.sizing.rules import SIZES
from inference_operator.sizing.shape import ParallelSizes, Shape, SizingInputs

PIPELINE, HARDWARE, CONTEXT = "spec.parallelism.pipeline", "spec.hardware", "spec.engine.maxModelLen"
SEQUENCES = "spec.engine.maxNumSeqs"
LARGER = "Use larger GPUs or a smaller checkpoint."
TIMES = " \N{MULTIPLICATION SIGN} "
ADA = (8, 9)
"""Compute capability from which GPUs have FP8 arithmetic."""


def wrong_size(pools: Sequence[Pool], inputs: SizingInputs) -> Infeasible | None:
    most = max(pool.offer.most_in_a_group for pool in pools)
    return wrong_on_any_device(pools[0].facts, pools[0].engine, inputs, most) or impossible(pools, inputs)


def wrong_on_any_device(
    facts: ModelFacts, engine: EngineOnGpus, inputs: SizingInputs, most: int = 0
) -> Infeasible | None:
    """Why a request is impossible for the model, whatever memory there is; `most` GPUs are in a group."""
    longest = facts.longest_context or facts.context
    if inputs.context and facts.context_stated and inputs.context > longest:
        problem = f"{inputs.context:,} tokens are more than the {longest:,} that the model supports."
        plain = dict(facts.rope).get("rope_type", "default") == "default" and not (facts.has_vision or facts.uses_mla)
        scaled = " If the model's card describes YaRN, set `spec.engine.ropeScaling`." if plain else ""
        cure = f"Use at most {longest}, or leave it out.{scaled}"
        return Infeasible(Reason.CONTEXT_TOO_LONG, CONTEXT, problem, cure)
    if refused := _undivided(facts, inputs) or without_experts(facts, inputs):
        return refused
    if rule := engine.broken_rule(facts, inputs.requested_shape):
        return _not_allowed(facts, engine, inputs, rule, most)
    return unequal(inputs)


def _not_allowed(facts: ModelFacts, engine: EngineOnGpus, inputs: SizingInputs, rule: str, most: int) -> Infeasible:
    shape = inputs.requested_shape
    stages = facts.most_stages if divides_layers(engine, facts, inputs) else 1
    if shape.parallel.pipeline > stages:
        field = PIPELINE if inputs.pipeline else NODES
        return Infeasible(Reason.INVALID_PARALLEL_SIZE, field, rule, f"Use at most {stages}.")
    fit = engine.allowed_sizes(facts, shape, max(most, *SIZES))
    allowed = f"Use {listed([str(size) for size in fit])}." if fit else "Use another checkpoint of the model."
    return Infeasible(Reason.INVALID_PARALLEL_SIZE, TENSOR, rule, allowed)


def _undivided(facts: ModelFacts, inputs: SizingInputs) -> Infeasible | None:
    tokens, context = inputs.shape.max_num_batched_tokens, inputs.context or facts.context
    if not facts.is_encoder or tokens is None or tokens >= context:
        return None
    problem = f"{tokens:,} tokens of an iteration hold no prompt of {context:,}; this model's prompts are not divided."
    cure = f"Set `{CONTEXT}` to at most {tokens}, or leave out `spec.engine.maxNumBatchedTokens`."
    return Infeasible(Reason.CONTEXT_TOO_LONG, CONTEXT, problem, cure)


def no_gpu(offered: Sequence[Pool], inputs: SizingInputs) -> Infeasible:
    for pool in offered:
        if reason := pool.engine.unable(pool.facts, inputs.shape):
            problem = f"{pool.offer.kind}: {reason}"
            return Infeasible(Reason.NO_SUITABLE_GPU, HARDWARE, problem, "Use another kind of GPU.")
    if any(pool.offer.shared for pool in offered):
        problem = "all GPUs are shared with other pods, so the amount of free memory is unknown."
        cure = (
            "Set `spec.engine.gpuMemoryUtilization` to the part of a GPU's memory that each engine may use, or use"
            " whole GPUs or MIG slices."
        )
        return Infeasible(Reason.NO_SUITABLE_GPU, HARDWARE, problem, cure)
    offers = {pool.offer.kind: pool.offer for pool in offered}
    kinds = ", ".join(f"{kind} ({_why_excluded(offers[kind], inputs)})" for kind in sorted(offers))
    if not (problem := unknown_kinds(inputs.kinds)):
        problem = f"`hardware.gpu` excludes all GPUs of the cluster: {kinds}." if kinds else "there are no GPUs."
    cure = "Change `spec.hardware.gpu`, add a node, or have `gpuOffers` set for the operator."
    return Infeasible(Reason.NO_SUITABLE_GPU, HARDWARE, problem, cure)


def _why_excluded(offer: GpuOffer, inputs: SizingInputs) -> str:
    if offer.memory_gib < inputs.least_memory_gib:
        size = floor(offer.memory_gib * 10) / 10
        return f"{size:g} GiB, `memory` asks for {inputs.least_memory_gib:g}Gi"
    return "`products` does not name it"


def unknown_kinds(names: Sequence[str]) -> str:
    """The kinds that are not known, each with the one that is meant; empty if all are."""
    known = {kind.name.lower(): kind.name for kind in GPU_KINDS}
    problems = []
    for name in names:
        if offer_named(name) is None:
            near = get_close_matches(name.lower(), known, n=1)
            meant = f": did you mean `{known[near[0]]}`?" if near else "."
            problems.append(f"`{name}` is no known kind of GPU, and no node has such a product{meant}")
    return " ".join(problems)


def does_not_fit(pools: Sequence[Pool], inputs: SizingInputs) -> Infeasible:
    pool = max((pool for pool in pools if pool.offer.can_span(inputs.nodes or 1)), key=_total_memory)
    parallel = _tried(pool, inputs)
    wished = smallest_batches(pool.facts, inputs, parallel) if inputs.data > 1 else inputs.shape
    shape = replace(wished, parallel=parallel, context=least_context(pool.facts, inputs))
    tried, offer = pool.candidate(shape, inputs).budget, pool.offer
    if too_many := _too_many_sequences(pool, shape, tried, inputs):
        return too_many
    problem = _too_little_left(offer, shape, tried, inputs) if tried.fits else shortfall(offer.kind, shape, tried)
    changes, reason = list(_changes(pool, shape, inputs)), Reason.INSUFFICIENT_GPU_MEMORY
    field = NODES if inputs.nodes else TENSOR if inputs.tensor else HARDWARE
    if changes:
        return Infeasible(reason, field, problem, f"Fits with {listed(changes)}.", budget=tried)
    larger = f"{LARGER} {PER_NODE}" if inputs.kinds and not offer.slice else LARGER
    if group := _larger_group(pool, shape, inputs):
        cure = f"{_group_cure(group, pool, inputs)} {larger}"
        return Infeasible(Reason.NEEDS_MULTI_NODE, NODES if inputs.nodes else HARDWARE, problem, cure, budget=tried)
    return Infeasible(reason, field, problem, f"{larger}{_other_engine(pool, inputs)}", budget=tried)


def _too_many_sequences(pool: Pool, shape: Shape, tried: Budget, inputs: SizingInputs) -> Infeasible | None:
    fewer = replace(inputs, shape=replace(inputs.shape, max_num_seqs=None))
    fitting = pool.candidate(replace(shape, max_num_seqs=None), fewer)
    requested, most = inputs.shape.max_num_seqs, fitting.budget.max_num_seqs
    if requested is None or most >= requested or not tried.state_block_gib or not pool.fits(fitting, fewer):
        return None
    problem, cure = lacking_states(shape.parallel.on(pool.offer.kind), tried), f"Use at most {most}, or leave it out."
    return Infeasible(Reason.INSUFFICIENT_GPU_MEMORY, SEQUENCES, problem, cure, budget=tried)


def lacking_states(group: str, budget: Budget) -> str:
    blocks = max(0, int(budget.kv_cache / budget.state_block_gib))
    return (
        f"{group} has {blocks:,} blocks in its KV cache, and each of {budget.max_num_seqs:,} sequences needs one for"
        " the states of its layers."
    )


def _tried(pool: Pool, inputs: SizingInputs) -> ParallelSizes:
    asked = inputs.requested_shape.parallel
    sizes = pool.sizes(inputs, asked.pipeline, asked.nodes)
    whole = [size for size in sizes if size * asked.pipeline * asked.data % asked.nodes == 0]
    return replace(asked, tensor=inputs.tensor or (whole or [1])[-1])


def _total_memory(pool: Pool) -> tuple[float, float, str, str]:
    offer = pool.offer
    return offer.memory_gib * offer.most_in_a_group, offer.memory_gib, offer.kind, offer.product


def _too_little_left(offer: GpuOffer, shape: Shape, budget: Budget, inputs: SizingInputs) -> str:
    group = shape.parallel.on(offer.kind)
    if budget.headroom < budget.spare_gib:
        return (
            f"{group} leaves {budget.headroom:.1f} GiB of {budget.memory:.1f} beside one sequence of {budget.context:,}"
            f" tokens; {budget.spare_gib:.1f} stay free for memory that profiling does not measure."
        )
    tokens = min(TYPICAL_TOKENS, budget.context)
    return (
        f"{group} holds {budget.typical_concurrency * shape.parallel.data:.1f} requests of"
        f" {tokens:,} tokens at once; {inputs.concurrency or TYPICAL_REQUESTS} are requested."
    )


def shortfall(kind: str, shape: Shape, budget: Budget) -> str:
    parallel = shape.parallel
    group = f"tensor parallel {parallel.tensor}" + (f", pipeline {parallel.pipeline}," if parallel.pipeline > 1 else "")
    group += f", data {parallel.data}," if parallel.data > 1 else ""
    head = f"{group} on {kind} offers {budget.offered:.1f} GiB each ({budget.memory:.1f}{TIMES}{budget.utilization:g})"
    if budget.headroom >= 0 > budget.outside_headroom:
        return (
            f"{head} and leaves {budget.memory - budget.offered:.1f}; CUDA graphs and warm-up need {budget.outside:.1f}"
            f" outside: short by {-budget.outside_headroom:.1f}."
        )
    if min(budget.headroom, budget.outside_headroom) >= 0 > budget.states_headroom:
        return lacking_states(f"{group} on {kind}", budget)
    terms = [
        f"weights {budget.weights:.1f}",
        f"activation {budget.activation:.1f}",
        f"non-torch {budget.context_memory:.1f}",
        *([f"CUDA graphs {budget.graphs_in_budget:.1f}"] if budget.graphs_in_budget else []),
        f"KV {budget.kv_needed:.1f} for {budget.context:,} tokens",
    ]
    return f"{head}; needs {budget.needed:.1f} ({', '.join(terms)}): short by {-budget.headroom:.1f}."


def _changes(pool: Pool, shape: Shape, inputs: SizingInputs) -> Iterator[str]:
    most = pool.offer.most_in_a_group * shape.parallel.nodes // (shape.parallel.pipeline * shape.parallel.data)
    sizes = pool.engine.allowed_sizes(pool.facts, shape, most)
    larger = (size for size in sizes if size > shape.parallel.tensor and pool.starts(shape.with_tensor(size), inputs))
    if size := next(larger, None):
        yield f"tensor parallel {size}"
    has_fp8, is_unquantized = pool.offer.capability >= ADA, pool.facts.quantization.kernel is Kernel.NONE
    if is_unquantized and has_fp8 and pool.starts(replace(shape, quantization=Quantization(Kernel.FP8, 8.0)), inputs):
        yield f"an FP8 checkpoint at {shape.parallel.tensor}"
    if has_fp8 and shape.kv_cache_dtype == "auto" and pool.starts(replace(shape, kv_cache_dtype="fp8"), inputs):
        yield "an FP8 KV cache"
    least = least_context(pool.facts, replace(inputs, shape=replace(inputs.shape, context=None)))
    if inputs.context and inputs.context > least and pool.starts(replace(shape, context=least), inputs):
        yield f"a context of {least:,}"


def _larger_group(pool: Pool, shape: Shape, inputs: SizingInputs) -> ParallelSizes | None:
    """A group of more nodes that would hold the model; None if none is found, or if it would not be taken."""
    parallel, offer = shape.parallel, pool.offer
    if offer.slice or offer.shared or pool.facts.is_pooling or inputs.shape.speculation or inputs.data > 1:
        return None
    spread = (
        replace(parallel, pipeline=parallel.pipeline * nodes // parallel.nodes, nodes=nodes)
        for nodes in range(parallel.nodes + 1, MOST_NODES + 1)
        if parallel.pipeline * nodes % parallel.nodes == 0
    )
    return next((group for group in spread if pool.starts(replace(shape, parallel=group), inputs)), None)


def _group_cure(group: ParallelSizes, pool: Pool, inputs: SizingInputs) -> str:
    words = replace(group, nodes=1).words
    cure = f"A group of {group.nodes} nodes would hold it ({words})."
    if not pool.offer.can_span(group.nodes):
        exist = _existing(pool.offer.fixed_nodes or 1)
        return f"{cure} {exist}, and the operator's setting `capacity` rules out new ones: add nodes."
    if pool.offer.chosen_nodes is not None and group.nodes > pool.offer.chosen_nodes:
        cure = f"{cure} {_existing(pool.offer.chosen_nodes)}: if more can be added, name the number."
    less = f", and leave out `{PIPELINE}`" if inputs.pipeline else ""
    return f"{cure} Set `{NODES}` to {group.nodes}{less}."


def _existing(nodes: int) -> str:
    return "1 node exists" if nodes == 1 else f"{nodes} nodes exist"


def _other_engine(pool: Pool, inputs: SizingInputs) -> str:
    is_gguf = format_of(pool.facts.weights_from) is WeightFormat.GGUF
    whole = pool.offer.can_span(2) and not pool.divides_layers(inputs)
    return " With `spec.engine.kind: VLLM` an engine can have several nodes." if whole and not is_gguf else ""
