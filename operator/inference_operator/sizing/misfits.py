"""Why nothing can be planned: need, offer, shortfall and cure, per GPU."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from inference_operator.hardware.offers import GpuOffer
from inference_operator.models.facts import Kernel, ModelFacts, Quantization
from inference_operator.sizing.budget import TYPICAL_TOKENS, Budget
from inference_operator.sizing.fitting import SPARE, TYPICAL_REQUESTS, Pool, least_context
from inference_operator.sizing.gpu_plan import GpuWishes, Misfit, Why
from inference_operator.sizing.rules import SIZES, allowed_sizes, broken_rule, unable
from inference_operator.sizing.shape import Shape

TENSOR, HARDWARE, CONTEXT = "spec.parallelism.tensor", "spec.hardware", "spec.engine.maxModelLen"
MOST_NODES = 8
"""Nodes of a group that is suggested; no published service spans more for one model."""
TIMES = " \N{MULTIPLICATION SIGN} "
ADA = (8, 9)
"""From here GPUs compute FP8 themselves."""


def wrong_size(facts: ModelFacts, offers: Sequence[GpuOffer], wishes: GpuWishes) -> Misfit | None:
    """What speaks against the sizes that the user gave, before any memory is counted."""
    if wishes.context and facts.context_stated and wishes.context > facts.context:
        problem = f"{wishes.context:,} tokens are more than the {facts.context:,} that the model can do."
        return Misfit(Why.CONTEXT_TOO_LONG, CONTEXT, problem, f"Use at most {facts.context}, or leave it out.")
    shape = replace(wishes.shape, tensor=wishes.tensor or 1)
    most = max(offer.most_in_a_group for offer in offers)
    if rule := broken_rule(facts, shape):
        fit = allowed_sizes(facts, wishes.shape, max(most, *SIZES))
        allowed = f"Use {_listed([str(size) for size in fit])}." if fit else "Use another checkpoint of the model."
        return Misfit(Why.INVALID_PARALLEL_SIZE, TENSOR, rule, allowed)
    if shape.tensor * shape.pipeline <= most:
        return None
    alone = all(offer.slice for offer in offers)
    problem = (
        "MIG slices do not talk to each other, so an engine has exactly one."
        if alone
        else f"{shape.tensor * shape.pipeline} GPUs are asked for, and no node has more than {most}."
    )
    return Misfit(Why.INVALID_PARALLEL_SIZE, TENSOR, problem, f"Use at most {most}, or leave it out.")


def no_gpu(facts: ModelFacts, offers: Sequence[GpuOffer], wishes: GpuWishes) -> Misfit:
    """No GPU may be used, or none can compute the model."""
    for offer in offers:
        if reason := unable(facts, wishes.shape, offer.capability):
            return Misfit(Why.NO_SUITABLE_GPU, HARDWARE, f"{offer.kind}: {reason}", "Use another kind of GPU.")
    if any(offer.shared for offer in offers):
        problem = "all GPUs are shared with others, so how much of their memory is free is not known."
        return Misfit(Why.NO_SUITABLE_GPU, HARDWARE, problem, "Use whole GPUs or MIG slices.")
    kinds = ", ".join(sorted({offer.kind for offer in offers}))
    problem = f"none of the GPUs that there are ({kinds}) may be used." if kinds else "there are no GPUs."
    cure = "Change `spec.hardware.gpu`, add a node, or have `gpuOffers` set for the operator."
    return Misfit(Why.NO_SUITABLE_GPU, HARDWARE, problem, cure)


def no_room(pools: Sequence[Pool], wishes: GpuWishes) -> Misfit:
    """The largest group is too small: what it offers and what is needed."""
    pool = max(pools, key=_extent)
    tensor = wishes.tensor or (pool.sizes(wishes) or (1,))[-1]
    shape = replace(wishes.shape, tensor=tensor, context=least_context(pool.facts, wishes))
    found = pool.fitted(shape).budget
    told = shortfall(pool.offer.kind, shape, found) if not found.fits else _crowded(pool.offer, shape, found, wishes)
    cures = list(_cures(pool, shape, wishes))
    if not cures and (nodes := _nodes(pool, shape, wishes)):
        cure = f"A group of {nodes} nodes would hold it (tensor parallel {tensor}, pipeline parallel {nodes})."
        return Misfit(Why.NEEDS_MULTI_NODE, HARDWARE, told, f"{cure} Use larger GPUs or a smaller checkpoint.", found)
    cure = f"Fits with {_listed(cures)}." if cures else "Use larger GPUs or a smaller checkpoint."
    return Misfit(Why.INSUFFICIENT_GPU_MEMORY, TENSOR if wishes.tensor else HARDWARE, told, cure, found)


def _extent(pool: Pool) -> tuple[float, float, str, str]:
    offer = pool.offer
    return offer.memory_gib * offer.most_in_a_group, offer.memory_gib, offer.kind, offer.product


def _crowded(offer: GpuOffer, shape: Shape, found: Budget, wishes: GpuWishes) -> str:
    group = f"tensor parallel {shape.tensor} on {offer.kind}"
    if found.headroom < SPARE * found.memory:
        return (
            f"{group} leaves {found.headroom:.1f} GiB of {found.memory:.1f} beside one sequence of {found.context:,}"
            f" tokens; {SPARE * found.memory:.1f} are kept for what no profiling sees."
        )
    return (
        f"{group} holds {found.typical_concurrency:.1f} requests of"
        f" {TYPICAL_TOKENS:,} tokens at once; {wishes.concurrency or TYPICAL_REQUESTS} are asked for."
    )


def shortfall(kind: str, shape: Shape, found: Budget) -> str:
    """Need against offer, per GPU."""
    group = f"tensor parallel {shape.tensor}" + (f", pipeline {shape.pipeline}," if shape.pipeline > 1 else "")
    head = f"{group} on {kind} offers {found.offered:.1f} GiB each ({found.memory:.1f}{TIMES}{found.utilization:g})"
    if found.headroom >= 0 > found.outside_headroom:
        return (
            f"{head} and leaves {found.memory - found.offered:.1f}; CUDA graphs and warm-up need {found.outside:.1f}"
            f" outside: short by {-found.outside_headroom:.1f}."
        )
    graphs = found.graphs if abs(found.graphs) > 0 and _counted(found) else 0.0
    terms = [
        f"weights {found.weights:.1f}",
        f"activation {found.activation:.1f}",
        f"non-torch {found.context_memory:.1f}",
        *([f"CUDA graphs {graphs:.1f}"] if graphs else []),
        f"KV {found.kv_needed:.1f} for {found.context:,} tokens",
    ]
    return f"{head}; needs {found.needed:.1f} ({', '.join(terms)}): short by {-found.headroom:.1f}."


def _counted(found: Budget) -> bool:
    """Whether graphs are among what is taken off."""
    return any(term.name == "CUDA graphs" and term.origin.startswith("counted") for term in found.terms)


def _cures(pool: Pool, shape: Shape, wishes: GpuWishes) -> Iterator[str]:
    """What would fit instead, the least change first."""
    sizes = allowed_sizes(pool.facts, shape, pool.offer.most_in_a_group // shape.pipeline)
    larger = (size for size in sizes if size > shape.tensor and pool.starts(replace(shape, tensor=size), wishes))
    if size := next(larger, None):
        yield f"tensor parallel {size}"
    modern, plain = pool.offer.capability >= ADA, pool.facts.quantization.kernel is Kernel.NONE
    if plain and modern and pool.starts(replace(shape, quantization=Quantization(Kernel.FP8, 8.0)), wishes):
        yield f"an FP8 checkpoint at {shape.tensor}"
    if modern and shape.kv_cache_dtype == "auto" and pool.starts(replace(shape, kv_cache_dtype="fp8"), wishes):
        yield "an FP8 KV cache"
    least = least_context(pool.facts, replace(wishes, context=None))
    if wishes.context and wishes.context > least and pool.starts(replace(shape, context=least), wishes):
        yield f"a context of {least:,}"


def _nodes(pool: Pool, shape: Shape, wishes: GpuWishes) -> int:
    """Nodes of a pipeline that would hold the model; 0 if that is not known to help."""
    if pool.offer.slice:
        return 0
    spread = ((nodes, replace(shape, pipeline=shape.pipeline * nodes)) for nodes in range(2, MOST_NODES + 1))
    return next((nodes for nodes, one in spread if pool.starts(one, wishes)), 0)


def _listed(words: Sequence[str]) -> str:
    """Examples: `1`; `1, or 2`; `1, 2, or 4`."""
    return ", or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else list(words))
