"""Chooses the kind of GPU, the tensor parallel size and the context of an engine (docs/explanation/sizing.md)."""

from collections.abc import Sequence
from dataclasses import replace

from inference_operator.hardware.offers import GpuOffer, merged, offer_named
from inference_operator.models.facts import ModelFacts
from inference_operator.sizing.fitting import Candidate, OnGpus, Pool, aimed_context, enough, least_context
from inference_operator.sizing.gpu_plan import GpuPlan, Infeasible
from inference_operator.sizing.host import host_needs
from inference_operator.sizing.infeasible import does_not_fit, no_gpu, wrong_size
from inference_operator.sizing.lora_and_speculative import unaccounted
from inference_operator.sizing.shape import SizingInputs

NEARLY_EQUAL_MEMORY = 1.1
"""Groups of GPUs whose memory differs by less than this factor are of one class, such as L4, A10G and RTX 4090. Their
bandwidth then decides, because it limits the tokens per second. Across classes memory stands for the price, and a model
does not occupy large GPUs that another one needs."""


def choose(
    facts: ModelFacts,
    offers: Sequence[GpuOffer],
    on_gpus: OnGpus,
    inputs: SizingInputs,
    previous_kind: str = "",
) -> GpuPlan | Infeasible:
    """The sizes of one engine, or the reason why there are none.

    - Drop the offers that the request excludes and those that cannot compute the model.
    - Refuse a requested tensor parallel size or context that no GPU can satisfy. Never change a requested one.
    - On each offer, find the smallest tensor parallel size that holds the target context and the typical requests.
    - Of these, prefer the GPU kind of the pinned plan, then the lowest price. Without prices for all, prefer the least
      memory; of kinds with nearly the same memory, the one with the highest bandwidth.
    - If no offer holds the target: use the largest tensor parallel size with the longest context that fits, but at
      least 8,192 tokens or the model's own context. Prefer the longest context. Mark the plan as reduced.
    - If nothing fits: return the memory needed and offered, the shortfall, and a cure.

    Free memory is used for a longer context, never for a larger tensor parallel size.

    Args:
        facts: the model.
        offers: GPUs of nodes that exist or could exist, in any order.
        on_gpus: the engine on the GPUs of an offer.
        inputs: the sizes that the user requests.
        previous_kind: the GPU kind of the pinned plan; it is kept as long as the model fits.

    Examples:
        >>> from inference_operator.engines.vllm.vllm import Vllm
        >>> from inference_operator.hardware.kinds import kind_named
        >>> from inference_operator.hardware.offers import offer_of_kind
        >>> from inference_operator.models.catalogue import entry
        >>> from inference_operator.models.model import model_facts
        >>> facts = model_facts(entry("Qwen/Qwen3-8B").config)
        >>> cards = [offer_of_kind(kind_named("RTX 4090"), per_node=2)]
        >>> plan = choose(facts, cards, lambda offer: Vllm().on_gpus("", offer), SizingInputs())
        >>> plan.shape.parallel.tensor, plan.budget.context, plan.replicas_per_node
        (2, 40960, 1)
    """
    offered = [Pool(facts, offer, on_gpus(offer)) for offer in merged(offers)]
    pools = [
        pool for pool in offered if may_be_used(pool.offer, inputs) and pool.engine.unable(facts, inputs.shape) is None
    ]
    if not pools:
        return no_gpu(offered, inputs)
    if misfit := wrong_size(pools, inputs):
        return misfit
    if at_target := [(pool, candidate) for pool in pools if (candidate := _smallest(pool, inputs)) is not None]:
        return _plan(*_cheapest(at_target, previous_kind), inputs, reduced=False)
    if reduced := [(pool, candidate) for pool in pools if (candidate := _largest(pool, inputs)) is not None]:
        return _plan(*max(reduced, key=_context_and_cache), inputs, reduced=True)
    return does_not_fit(pools, inputs)


def may_be_used(offer: GpuOffer, inputs: SizingInputs) -> bool:
    """Whether the request allows these GPUs: kind and memory match, and it says how much of a shared one to use."""
    named = {one.kind if (one := offer_named(name)) else name for name in inputs.kinds}
    allowed = not named or bool(named & {offer.kind, offer.product, offer.kind.split(" ", maxsplit=1)[0]})
    divided = not offer.shared or inputs.shape.utilization is not None
    return allowed and divided and offer.memory_gib >= inputs.least_memory_gib


def _smallest(pool: Pool, inputs: SizingInputs) -> Candidate | None:
    least = aimed_context(pool.facts, inputs)
    for tensor in pool.sizes(inputs):
        candidate = pool.longest(inputs, tensor, least)
        if candidate is not None and enough(candidate, inputs):
            return candidate
    return None


def _largest(pool: Pool, inputs: SizingInputs) -> Candidate | None:
    least = least_context(pool.facts, inputs)
    for tensor in reversed(pool.sizes(inputs)):
        if (candidate := pool.longest(inputs, tensor, least)) is not None:
            return candidate if inputs.concurrency is None or enough(candidate, inputs) else None
    return None


def _cheapest(found: list[tuple[Pool, Candidate]], previous_kind: str) -> tuple[Pool, Candidate]:
    """The kind of the pinned plan first; then by price if every kind has one, otherwise by memory and bandwidth."""
    of_plan = [one for one in found if one[0].offer.kind == previous_kind]
    left = of_plan or found
    priced = all(pool.offer.price is not None for pool, _ in left)
    least = min(_total_memory(one) for one in left)

    def cost(one: tuple[Pool, Candidate]) -> tuple[float, bool, float, float, str, str]:
        offer, gpus = one[0].offer, one[1].shape.parallel.world_size
        price = (offer.price or 0.0) * gpus if priced else 0.0
        memory = _total_memory(one)
        larger = memory > NEARLY_EQUAL_MEMORY * least
        return price, larger, -offer.bandwidth_gb_per_s * gpus, memory, offer.kind, offer.product

    return min(left, key=cost)


def _total_memory(one: tuple[Pool, Candidate]) -> float:
    return one[0].offer.memory_gib * one[1].shape.parallel.world_size


def _context_and_cache(one: tuple[Pool, Candidate]) -> tuple[int, float, str, str]:
    pool, candidate = one
    return candidate.budget.context, candidate.budget.kv_cache, pool.offer.kind, pool.offer.product


def _plan(pool: Pool, candidate: Candidate, inputs: SizingInputs, *, reduced: bool) -> GpuPlan:
    found = candidate.budget
    return GpuPlan(
        offer=pool.offer,
        shape=replace(
            candidate.shape,
            context=found.context,
            utilization=found.utilization,
            max_num_seqs=found.max_num_seqs,
            max_num_batched_tokens=found.max_num_batched_tokens,
        ),
        budget=found,
        host=host_needs(pool.facts, candidate.shape),
        context_reduced=reduced,
        left_to_engine=pool.engine.left_to_engine(pool.facts, candidate.shape, found, inputs),
        assumptions=pool.facts.assumptions,
        unaccounted=unaccounted(pool.facts, candidate.shape),
    )
