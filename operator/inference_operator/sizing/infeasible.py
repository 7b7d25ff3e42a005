"""Explains why no plan exists: memory needed and offered for each GPU, shortfall, and cure."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from difflib import get_close_matches

from inference_operator.hardware.kinds import GPU_KINDS
from inference_operator.hardware.offers import GpuOffer, offer_named
from inference_operator.models.facts import Kernel, ModelFacts, Quantization
from inference_operator.sizing.budget import TYPICAL_TOKENS, Budget
from inference_operator.sizing.fitting import SPARE, TYPICAL_REQUESTS, Pool, least_context
from inference_operator.sizing.gpu_plan import Infeasible, InfeasibleReason
from inference_operator.sizing.rules import SIZES
from inference_operator.sizing.shape import Shape, SizingInputs

TENSOR, HARDWARE, CONTEXT = "spec.parallelism.tensor", "spec.hardware", "spec.engine.maxModelLen"
MOST_NODES = 8
"""Most nodes of a suggested group; no published service uses more for one model."""
LARGER = "Use larger GPUs or a smaller checkpoint."
PER_NODE = "If nodes that do not exist yet have more GPUs, set `spec.hardware.gpu.perNode`."
TIMES = " \N{MULTIPLICATION SIGN} "
ADA = (8, 9)
"""Compute capability from which GPUs have FP8 arithmetic."""


def wrong_size(pools: Sequence[Pool], inputs: SizingInputs) -> Infeasible | None:
    """Why the requested sizes are invalid, independent of memory; None if they are valid."""
    facts, engine = pools[0].facts, pools[0].engine
    longest = facts.longest_context or facts.context
    if inputs.context and facts.context_stated and inputs.context > longest:
        problem = f"{inputs.context:,} tokens are more than the {longest:,} that the model supports."
        return Infeasible(
            InfeasibleReason.CONTEXT_TOO_LONG, CONTEXT, problem, f"Use at most {longest}, or leave it out."
        )
    if undivided := _undivided(facts, inputs):
        return undivided
    shape = inputs.shape.with_tensor(inputs.tensor or 1)
    most = max(pool.offer.most_in_a_group for pool in pools)
    if rule := engine.broken_rule(facts, shape):
        fit = engine.allowed_sizes(facts, inputs.shape, max(most, *SIZES))
        allowed = f"Use {_listed([str(size) for size in fit])}." if fit else "Use another checkpoint of the model."
        return Infeasible(InfeasibleReason.INVALID_PARALLEL_SIZE, TENSOR, rule, allowed)
    if shape.parallel.world_size <= most:
        return None
    only_slices = all(pool.offer.slice for pool in pools)
    problem = (
        "MIG slices cannot communicate with each other, so an engine has exactly one."
        if only_slices
        else f"{shape.parallel.world_size} GPUs are requested, and no node has more than {most}."
    )
    more = f" {PER_NODE}" if inputs.kinds and not only_slices else ""
    cure = f"Use at most {most}, or leave it out.{more}"
    return Infeasible(InfeasibleReason.INVALID_PARALLEL_SIZE, TENSOR, problem, cure)


def _undivided(facts: ModelFacts, inputs: SizingInputs) -> Infeasible | None:
    """Why the prompts of an encoder do not fit into an iteration: they are not divided into chunks."""
    tokens, context = inputs.shape.max_num_batched_tokens, inputs.context or facts.context
    if not facts.is_encoder or tokens is None or tokens >= context:
        return None
    problem = f"{tokens:,} tokens of an iteration hold no prompt of {context:,}; this model's prompts are not divided."
    cure = f"Set `{CONTEXT}` to at most {tokens}, or leave out `spec.engine.maxNumBatchedTokens`."
    return Infeasible(InfeasibleReason.CONTEXT_TOO_LONG, CONTEXT, problem, cure)


def no_gpu(offered: Sequence[Pool], inputs: SizingInputs) -> Infeasible:
    """Why no GPU may be used, or why none can compute the model."""
    for pool in offered:
        if reason := pool.engine.unable(pool.facts, inputs.shape):
            problem = f"{pool.offer.kind}: {reason}"
            return Infeasible(InfeasibleReason.NO_SUITABLE_GPU, HARDWARE, problem, "Use another kind of GPU.")
    if any(pool.offer.shared for pool in offered):
        problem = "all GPUs are shared with other pods, so the amount of free memory is unknown."
        cure = (
            "Set `spec.engine.gpuMemoryUtilization` to the part of a GPU's memory that each engine may use, or use"
            " whole GPUs or MIG slices."
        )
        return Infeasible(InfeasibleReason.NO_SUITABLE_GPU, HARDWARE, problem, cure)
    kinds = ", ".join(sorted({pool.offer.kind for pool in offered}))
    if not (problem := unknown_kinds(inputs.kinds)):
        problem = f"the GPUs of the cluster ({kinds}) may not be used." if kinds else "there are no GPUs."
    cure = "Change `spec.hardware.gpu`, add a node, or have `gpuOffers` set for the operator."
    return Infeasible(InfeasibleReason.NO_SUITABLE_GPU, HARDWARE, problem, cure)


def unknown_kinds(names: Sequence[str]) -> str:
    """The kinds that are not known, each with the one that is meant; empty if all are.

    Examples:
        >>> unknown_kinds(["L4", "H1000"])
        '`H1000` is no known kind of GPU, and no node has such a product: did you mean `H100-80GB`?'
    """
    known = {kind.name.lower(): kind.name for kind in GPU_KINDS}
    found = []
    for name in names:
        if offer_named(name) is None:
            near = get_close_matches(name.lower(), known, n=1)
            meant = f": did you mean `{known[near[0]]}`?" if near else "."
            found.append(f"`{name}` is no known kind of GPU, and no node has such a product{meant}")
    return " ".join(found)


def does_not_fit(pools: Sequence[Pool], inputs: SizingInputs) -> Infeasible:
    """Why the model does not fit on the largest group of GPUs, and which change makes it fit."""
    pool = max(pools, key=_total_memory)
    tensor = inputs.tensor or (pool.sizes(inputs) or (1,))[-1]
    shape = replace(inputs.shape.with_tensor(tensor), context=least_context(pool.facts, inputs))
    tried, offer = pool.candidate(shape).budget, pool.offer
    problem = _too_little_left(offer, shape, tried, inputs) if tried.fits else shortfall(offer.kind, shape, tried)
    changes, reason = list(_changes(pool, shape, inputs)), InfeasibleReason.INSUFFICIENT_GPU_MEMORY
    if changes:
        field = TENSOR if inputs.tensor else HARDWARE
        return Infeasible(reason, field, problem, f"Fits with {_listed(changes)}.", tried)
    larger = f"{LARGER} {PER_NODE}" if inputs.kinds and not offer.slice else LARGER
    if nodes := _nodes(pool, shape, inputs):
        cure = f"A group of {nodes} nodes would hold it (tensor parallel {tensor}, pipeline parallel {nodes})."
        return Infeasible(InfeasibleReason.NEEDS_MULTI_NODE, HARDWARE, problem, f"{cure} {larger}", tried)
    return Infeasible(reason, TENSOR if inputs.tensor else HARDWARE, problem, larger, tried)


def _total_memory(pool: Pool) -> tuple[float, float, str, str]:
    offer = pool.offer
    return offer.memory_gib * offer.most_in_a_group, offer.memory_gib, offer.kind, offer.product


def _too_little_left(offer: GpuOffer, shape: Shape, found: Budget, inputs: SizingInputs) -> str:
    group = f"tensor parallel {shape.parallel.tensor} on {offer.kind}"
    if found.headroom < SPARE * found.memory:
        return (
            f"{group} leaves {found.headroom:.1f} GiB of {found.memory:.1f} beside one sequence of {found.context:,}"
            f" tokens; {SPARE * found.memory:.1f} stay free for memory that profiling does not measure."
        )
    return (
        f"{group} holds {found.typical_concurrency:.1f} requests of"
        f" {TYPICAL_TOKENS:,} tokens at once; {inputs.concurrency or TYPICAL_REQUESTS} are requested."
    )


def shortfall(kind: str, shape: Shape, found: Budget) -> str:
    """Memory needed and offered for each GPU, in a sentence."""
    group = f"tensor parallel {shape.parallel.tensor}" + (
        f", pipeline {shape.parallel.pipeline}," if shape.parallel.pipeline > 1 else ""
    )
    head = f"{group} on {kind} offers {found.offered:.1f} GiB each ({found.memory:.1f}{TIMES}{found.utilization:g})"
    if found.headroom >= 0 > found.outside_headroom:
        return (
            f"{head} and leaves {found.memory - found.offered:.1f}; CUDA graphs and warm-up need {found.outside:.1f}"
            f" outside: short by {-found.outside_headroom:.1f}."
        )
    terms = [
        f"weights {found.weights:.1f}",
        f"activation {found.activation:.1f}",
        f"non-torch {found.context_memory:.1f}",
        *([f"CUDA graphs {found.graphs_in_budget:.1f}"] if found.graphs_in_budget else []),
        f"KV {found.kv_needed:.1f} for {found.context:,} tokens",
    ]
    return f"{head}; needs {found.needed:.1f} ({', '.join(terms)}): short by {-found.headroom:.1f}."


def _changes(pool: Pool, shape: Shape, inputs: SizingInputs) -> Iterator[str]:
    """Changes with which the model fits, the smallest change first."""
    sizes = pool.engine.allowed_sizes(pool.facts, shape, pool.offer.most_in_a_group // shape.parallel.pipeline)
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


def _nodes(pool: Pool, shape: Shape, inputs: SizingInputs) -> int:
    """Nodes of a pipeline on which the model fits; 0 if none is found."""
    if pool.offer.slice:
        return 0
    spread = ((nodes, _over_nodes(shape, nodes)) for nodes in range(2, MOST_NODES + 1))
    return next((nodes for nodes, one in spread if pool.starts(one, inputs)), 0)


def _over_nodes(shape: Shape, nodes: int) -> Shape:
    return replace(shape, parallel=replace(shape.parallel, pipeline=shape.parallel.pipeline * nodes))


def _listed(words: Sequence[str]) -> str:
    """Examples: `1`; `1, or 2`; `1, 2, or 4`."""
    return ", or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else list(words))
