"""Chooses the kind of GPU, the tensor parallel size and the context of an engine (docs/explanation/sizing.md)."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from inference_operator.api.engine_kind import EngineProfile
from inference_operator.api.reasons import Reason
from inference_operator.hardware.offers import GpuOffer, merged, offer_named
from inference_operator.models.facts import ModelFacts
from inference_operator.sentences import counted
from inference_operator.sizing.fitting import Candidate, Division, OnGpus, Pool, divisions, enough, least_context
from inference_operator.sizing.gpu_plan import GpuPlan, Infeasible, host_needs
from inference_operator.sizing.infeasible import does_not_fit, no_gpu, wrong_size
from inference_operator.sizing.lora_and_speculative import unaccounted
from inference_operator.sizing.ranking import Option, Ranked, option_of, ranked
from inference_operator.sizing.shape import SizingInputs


def choose(
    facts: ModelFacts, offers: Sequence[GpuOffer], on_gpus: OnGpus, inputs: SizingInputs, previous_kind: str = ""
) -> GpuPlan | Infeasible:
    """The sizes of one engine, or the reason why there are none.

    - Drop the offers that the request excludes and those that cannot compute the model.
    - Refuse a requested tensor parallel size or context that no GPU can satisfy. Never change a requested one.
    - On each offer, find the parallel sizes that hold the target context and the typical requests.
    - Of these, prefer the GPU kind of the pinned plan, then the one that serves best for its cost (`ranking.py`).
    - If no offer holds the target: use the largest tensor parallel size with the longest context that fits, but at
      least 8,192 tokens or the model's own context. Prefer the longest context. Mark the plan as reduced.
    - If no GPUs of one node hold that: the same with more nodes of one kind, and the fewest of them (`fitting.py`).
      All divisions over a number of nodes may hold the target, before one of them gets a shorter context.
    - If a model with states fits nowhere with a usual batch: the same with fewer sequences in a batch.
    - If the nodes lack the host memory that is asked for the KV cache: the same without these nodes.
    - If nothing fits: return the memory needed and offered, the shortfall, and a cure.

    Free memory is used for larger batches, then for a longer context.

    Args:
        previous_kind: the GPU kind of the pinned plan; it is kept as long as the model fits.
    """
    offered = [Pool(facts, offer, on_gpus(offer)) for offer in merged(offers)]
    pools = [
        pool for pool in offered if may_be_used(pool.offer, inputs) and not pool.engine.unable(facts, inputs.shape)
    ]
    if not pools:
        return no_gpu(offered, inputs)
    if misfit := wrong_size(pools, inputs):
        return misfit
    return _hosted(facts, pools, inputs, previous_kind) or does_not_fit(pools, inputs)


def _hosted(
    facts: ModelFacts, pools: Sequence[Pool], inputs: SizingInputs, previous_kind: str
) -> GpuPlan | Infeasible | None:
    """The sizes on the first choice of GPUs whose nodes have the memory that is asked for the KV cache.

    Why the first choice has not, if none has; None if nothing fits.
    """
    plans = (_divided(pools, tried, same, previous_kind) for tried, same in _tries(facts, inputs))
    if (plan := next((plan for plan in plans if plan), None)) is None:
        return None
    if isinstance(found := hosted(plan), GpuPlan):
        return found
    other = _hosted(facts, [pool for pool in pools if pool.offer != plan.offer], inputs, previous_kind)
    return other if isinstance(other, GpuPlan) else found


def _divided(
    pools: Sequence[Pool], inputs: SizingInputs, same: Sequence[Division], previous_kind: str
) -> GpuPlan | None:
    """The sizes of one engine in a division over as many nodes as all of these; None if it does not fit so.

    Nodes that exist come first.
    """
    for division in same:
        if options := _options(pools, inputs, division):
            there = [option for option in options if option.pool.offer.nodes >= division.nodes]
            chosen = ranked(there or options, inputs.profile, previous_kind)
            return _plan(chosen.option.pool, chosen.option.candidate, inputs, chosen, reduced=False)
    for division in same:
        reduced = [(pool, candidate) for pool in pools if (candidate := _largest(pool, inputs, division)) is not None]
        existing = [(pool, candidate) for pool, candidate in reduced if pool.offer.nodes >= division.nodes]
        if reduced:
            pool, candidate = max(existing or reduced, key=_context_and_cache)
            return _plan(pool, candidate, inputs, Ranked(option_of(pool, candidate, inputs)), reduced=True)
    return None


def _tries(facts: ModelFacts, inputs: SizingInputs) -> Iterator[tuple[SizingInputs, Sequence[Division]]]:
    """The divisions over nodes to try; for a model with states all of them once more, with few sequences in a batch."""
    smallest = replace(inputs, least_sequences=1)
    for tried in (inputs, smallest) if facts.has_states else (inputs,):
        yield from ((tried, same) for same in divisions(tried))


def _options(pools: Sequence[Pool], inputs: SizingInputs, division: Division) -> list[Option]:
    options = [option_of(pool, candidate, inputs) for pool, candidate in _at_target(pools, inputs, division)]
    late = any(option.served for option in options) and not any(option.keeps_objective for option in options)
    if inputs.profile is EngineProfile.LATENCY or (late and inputs.profile is not EngineProfile.SMALLEST):
        on_a_bus = _at_target(pools, inputs, division, shares_bus=True)
        options += [option_of(pool, candidate, inputs) for pool, candidate in on_a_bus]
    return options


def may_be_used(offer: GpuOffer, inputs: SizingInputs) -> bool:
    """Whether the request allows these GPUs: kind and memory match, and it says how much of a shared one to use."""
    named = {known.kind if (known := offer_named(name)) else name for name in inputs.kinds}
    allowed = not named or bool(named & {offer.kind, offer.product, offer.kind.split(" ", maxsplit=1)[0]})
    divided = not offer.shared or inputs.shape.utilization is not None
    return allowed and divided and offer.memory_gib >= inputs.least_memory_gib


def _at_target(
    pools: Sequence[Pool], inputs: SizingInputs, division: Division, *, shares_bus: bool = False
) -> Iterator[tuple[Pool, Candidate]]:
    for pool in pools:
        for parallel in pool.parallels(inputs, division, shares_bus=shares_bus):
            if (candidate := pool.at_target(inputs, parallel)) is not None:
                yield pool, candidate
                if inputs.profile is EngineProfile.SMALLEST:
                    break


def _largest(pool: Pool, inputs: SizingInputs, division: Division) -> Candidate | None:
    least = least_context(pool.facts, inputs)
    for _, parallels in groupby(reversed(pool.parallels(inputs, division)), key=lambda each: each.world_size):
        found = [each for parallel in parallels if (each := pool.longest(inputs, parallel, least)) is not None]
        if found:
            candidate = max(found, key=lambda each: each.budget.context)
            return candidate if inputs.concurrency is None or enough(candidate, inputs) else None
    return None


def _context_and_cache(pair: tuple[Pool, Candidate]) -> tuple[int, float, str, str]:
    pool, candidate = pair
    return candidate.budget.context, candidate.budget.kv_cache, pool.offer.kind, pool.offer.product


OFFLOAD_CURE = "Set a number, for example `64Gi`."
OFFLOAD = "spec.engine.kvOffload.memory"
OFFLOAD_SHARE = 0.5
"""Part of what a node has left for each engine that `Auto` takes. The rest is for other pods of the node, and for the
files of models that its kernel keeps in memory. This project's choice."""
STEP_GIB = 8
"""What `Auto` takes is a multiple of it, so that nodes that differ a little give the same size."""


def hosted(plan: GpuPlan) -> GpuPlan | Infeasible:
    """The plan with its KV cache in the host's memory, or why its nodes have none for it.

    A fixed size is refused only where nodes are known to have less: a larger one may come.
    """
    shape, offer, host = plan.shape, plan.offer, plan.host
    memory = offer.host_memory_gib
    if not shape.kv_offload_auto:
        if not (shape.kv_offload_gib and memory) or host.memory_gib <= memory:
            return plan
        return _refused(plan, f"{host.memory_gib:.0f} GiB with this cache", "Lower it, or use nodes with more memory.")
    if not memory:
        problem = f"`Auto` needs nodes to choose for, and the memory of nodes with {offer.kind} is not known."
        return Infeasible(Reason.NO_SUITABLE_GPU, OFFLOAD, problem, OFFLOAD_CURE)
    gib = STEP_GIB * int(OFFLOAD_SHARE * (memory / _engines_of_node(plan) - host.memory_gib) // STEP_GIB)
    if gib < STEP_GIB:
        return _refused(plan, f"{host.memory_gib:.0f} GiB without this cache", "Remove it, or use nodes with more.")
    more = {name: getattr(host, name) + gib for name in ("memory_gib", "shared_memory_gib")}
    return replace(plan, shape=replace(shape, kv_offload_gib=float(gib)), host=replace(host, **more))


def _engines_of_node(plan: GpuPlan) -> int:
    return max(1, plan.offer.per_node // plan.shape.parallel.ranks_per_node)


def _refused(plan: GpuPlan, needs: str, cure: str) -> Infeasible:
    offer = plan.offer
    problem = (
        f"Nodes with {offer.per_node} x {offer.kind} have {offer.host_memory_gib:.0f} GiB of memory for pods and GPUs"
        f" for {counted(_engines_of_node(plan), 'such engine')}; the pod of each needs {needs}."
    )
    return Infeasible(Reason.NO_SUITABLE_GPU, OFFLOAD, problem, cure)


def _plan(pool: Pool, candidate: Candidate, inputs: SizingInputs, chosen: Ranked, *, reduced: bool) -> GpuPlan:
    budget = candidate.budget
    return GpuPlan(
        offer=pool.offer,
        shape=replace(
            candidate.shape,
            context=budget.context,
            utilization=budget.utilization,
            max_num_seqs=budget.max_num_seqs,
            max_num_batched_tokens=budget.max_num_batched_tokens,
            whole_encoder=budget.whole_encoder,
        ),
        budget=budget,
        host=host_needs(pool.facts, candidate.shape, budget.pinned),
        context_reduced=reduced,
        model_context=pool.facts.context if not inputs.context and budget.context < pool.facts.context else 0,
        left_to_engine=pool.engine.left_to_engine(pool.facts, candidate.shape, budget, inputs),
        assumptions=pool.facts.assumptions,
        unaccounted=unaccounted(pool.facts, candidate.shape),
        step=chosen.option.costs,
        runner_up=chosen.runner_up,
    )
