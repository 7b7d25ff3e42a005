"""Which GPUs, how many of them, and how long sequences: the order of architecture 4.10."""

from collections.abc import Sequence
from dataclasses import replace

from inference_operator.hardware.offers import GpuOffer, merged, offer_named
from inference_operator.models.facts import ModelFacts
from inference_operator.sizing.beside import uncounted
from inference_operator.sizing.fitting import Fitted, MemoryOf, Pool, aimed_context, enough, least_context
from inference_operator.sizing.gpu_plan import GpuPlan, GpuWishes, Misfit
from inference_operator.sizing.host import host_needs
from inference_operator.sizing.misfits import no_gpu, no_room, wrong_size
from inference_operator.sizing.rules import unable


def choose(
    facts: ModelFacts,
    offers: Sequence[GpuOffer],
    memory_of: MemoryOf,
    wishes: GpuWishes,
    previous_kind: str = "",
) -> GpuPlan | Misfit:
    """The sizes of one engine, or why there are none.

    (1) The smallest tensor size with room for the aimed context and the typical requests; among kinds of GPU the
    cheapest such group. (2) Where there is none, the largest tensor size, with a context as long as fits, not below
    8,192 tokens or the model's own. (3) A misfit. What is left of the KV cache raises the context, never the size. A
    size or a context that the user gave is honoured or refused, never changed.

    Args:
        facts: the model.
        offers: GPUs that there are or could be; their order does not matter.
        memory_of: the engine's behaviour on the GPUs of an offer.
        wishes: what the user asked.
        previous_kind: the kind of GPU of the plan in force; it is kept as long as it fits.

    Examples:
        >>> from inference_operator.engines.vllm.memory import vllm_memory
        >>> from inference_operator.hardware.kinds import kind_named
        >>> from inference_operator.hardware.offers import offer_of_kind
        >>> from inference_operator.models.catalogue import entry
        >>> from inference_operator.models.model import model_facts
        >>> facts = model_facts(entry("Qwen/Qwen3-8B").config)
        >>> cards = [offer_of_kind(kind_named("RTX 4090"), per_node=2)]
        >>> plan = choose(facts, cards, lambda one: vllm_memory(memory_gib=one.memory_gib), GpuWishes())
        >>> plan.shape.tensor, plan.budget.context, plan.replicas_per_node
        (2, 40960, 1)
    """
    able = [
        one
        for one in merged(offers)
        if may_be_used(one, wishes) and unable(facts, wishes.shape, one.capability) is None
    ]
    if not able:
        return no_gpu(facts, merged(offers), wishes)
    if misfit := wrong_size(facts, able, wishes):
        return misfit
    pools = [Pool(facts, offer, memory_of(offer)) for offer in able]
    if aimed := [(pool, fitted) for pool in pools if (fitted := _smallest(pool, wishes)) is not None]:
        return _plan(*_cheapest(aimed, previous_kind), reduced=False)
    if reduced := [(pool, fitted) for pool in pools if (fitted := _largest(pool, wishes)) is not None]:
        return _plan(*max(reduced, key=_roomiest), reduced=True)
    return no_room(pools, wishes)


def may_be_used(offer: GpuOffer, wishes: GpuWishes) -> bool:
    """Whether these GPUs are of the kinds that are asked for, large enough, and nobody else's too."""
    named = {one.kind if (one := offer_named(name)) else name for name in wishes.kinds}
    asked = not named or bool(named & {offer.kind, offer.product, offer.kind.split(" ", maxsplit=1)[0]})
    return asked and not offer.shared and offer.memory_gib >= wishes.least_memory_gib


def _smallest(pool: Pool, wishes: GpuWishes) -> Fitted | None:
    least = aimed_context(pool.facts, wishes)
    for tensor in pool.sizes(wishes):
        fitted = pool.longest(wishes, tensor, least)
        if fitted is not None and enough(fitted, wishes):
            return fitted
    return None


def _largest(pool: Pool, wishes: GpuWishes) -> Fitted | None:
    least = least_context(pool.facts, wishes)
    for tensor in reversed(pool.sizes(wishes)):
        if (fitted := pool.longest(wishes, tensor, least)) is not None:
            return fitted if wishes.concurrency is None or enough(fitted, wishes) else None
    return None


def _cheapest(found: list[tuple[Pool, Fitted]], previous_kind: str) -> tuple[Pool, Fitted]:
    """By price where every kind has one, else by memory taken; the kind in force first."""
    priced = all(pool.offer.price is not None for pool, _ in found)

    def cost(one: tuple[Pool, Fitted]) -> tuple[bool, float, float, str, str]:
        offer, shape = one[0].offer, one[1].shape
        gpus = shape.tensor * shape.pipeline
        other = bool(previous_kind) and offer.kind != previous_kind
        money = (offer.price or 0.0) * gpus if priced else 0.0
        return other, money, offer.memory_gib * gpus, offer.kind, offer.product

    return min(found, key=cost)


def _roomiest(one: tuple[Pool, Fitted]) -> tuple[int, float, str, str]:
    pool, fitted = one
    return fitted.budget.context, fitted.budget.kv_cache, pool.offer.kind, pool.offer.product


def _plan(pool: Pool, fitted: Fitted, *, reduced: bool) -> GpuPlan:
    found = fitted.budget
    return GpuPlan(
        offer=pool.offer,
        shape=replace(
            fitted.shape,
            context=found.context,
            utilization=found.utilization,
            max_num_seqs=found.max_num_seqs,
            max_num_batched_tokens=found.max_num_batched_tokens,
        ),
        budget=found,
        host=host_needs(pool.facts, fitted.shape),
        context_reduced=reduced,
        assumptions=pool.facts.assumptions,
        uncounted=uncounted(pool.facts, fitted.shape),
    )
