"""One group of GPUs: the longest sequences that fit, and whether that is enough."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from inference_operator.hardware.offers import GpuOffer
from inference_operator.models.facts import ModelFacts
from inference_operator.sizing.budget import Budget, Gpu, budget
from inference_operator.sizing.engine_memory import EngineMemory
from inference_operator.sizing.gpu_plan import GpuWishes
from inference_operator.sizing.rules import allowed_sizes, broken_rule
from inference_operator.sizing.shape import Shape

USUAL_CONTEXT = 32768
"""Tokens that a sequence may have if the model can do it and nobody asks for more (architecture 4.10)."""
LEAST_CONTEXT = 8192
"""Tokens below which a context is not reduced (architecture 4.10)."""
TYPICAL_REQUESTS = 8
"""Typical requests that a plan has room for (architecture 4.10)."""
SPARE = 0.02
"""Part of the GPU that is kept free where sizing decides: what a profiling run does not see (fragments, prompts' log
probabilities; vllm-project/vllm#10637, #55169) and what the arithmetic errs by."""
CONTEXT_STEP = 1024
"""A context that is neither the model's own nor asked for is a multiple of it."""
SMALL_SEQUENCES, SMALL_BATCH = 256, 2048
"""Batches of small GPUs; taken on large ones where the usual ones leave no room."""

MemoryOf: TypeAlias = Callable[[GpuOffer], EngineMemory]
"""The engine's behaviour on a GPU."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """A shape with its arithmetic."""

    shape: Shape
    budget: Budget


@dataclass(frozen=True, slots=True)
class Pool:
    """A model and its engine on one kind of GPU."""

    facts: ModelFacts
    offer: GpuOffer
    engine: EngineMemory

    def fitted(self, shape: Shape) -> Fitted:
        """The arithmetic of one shape."""
        gpu = Gpu(self.offer.kind, self.offer.memory_gib, self.offer.linked)
        return Fitted(shape, budget(self.facts, gpu, self.engine, shape))

    def has_room(self, fitted: Fitted, wishes: GpuWishes) -> bool:
        """Whether it fits; where the user did not give both size and context, with something to spare."""
        spare = 0.0 if wishes.tensor and wishes.context else SPARE * self.offer.memory_gib
        found = fitted.budget
        # Where the cache's size is given, what is spared lies outside of it.
        left = found.outside_headroom if fitted.shape.kv_cache_bytes else found.headroom
        return found.fits and left >= spare

    def starts(self, shape: Shape, wishes: GpuWishes) -> bool:
        """Whether the model may be divided so, and has room."""
        return broken_rule(self.facts, shape) is None and self.has_room(self.fitted(shape), wishes)

    def sizes(self, wishes: GpuWishes) -> tuple[int, ...]:
        """Tensor sizes that the model allows, within one node."""
        most = self.offer.most_in_a_group // wishes.shape.pipeline
        if wishes.tensor is None:
            return allowed_sizes(self.facts, wishes.shape, most)
        allowed = broken_rule(self.facts, replace(wishes.shape, tensor=wishes.tensor)) is None
        return (wishes.tensor,) if allowed and wishes.tensor <= most else ()

    def longest(self, wishes: GpuWishes, tensor: int, least: int) -> Fitted | None:
        """The group of this size with the longest sequences, from `least` to the model's own; None if none fits."""
        most = wishes.context or max(least, self.facts.context)
        found = [self._longest(shape, wishes, least, most) for shape in _shapes(wishes, tensor)]
        fitting = [one for one in found if one is not None]
        return max(fitting, key=lambda one: (one.budget.context, one.budget.max_num_seqs), default=None)

    def _longest(self, shape: Shape, wishes: GpuWishes, least: int, most: int) -> Fitted | None:
        best, whole = (self.fitted(replace(shape, context=context)) for context in (least, most))
        if not self.has_room(best, wishes):
            return None
        if self.has_room(whole, wishes):
            return whole
        low, high = least // CONTEXT_STEP, most // CONTEXT_STEP
        while high - low > 1:
            middle = (low + high) // 2
            tried = self.fitted(replace(shape, context=middle * CONTEXT_STEP))
            low, high, best = (middle, high, tried) if self.has_room(tried, wishes) else (low, middle, best)
        return best


def aimed_context(facts: ModelFacts, wishes: GpuWishes) -> int:
    """Tokens of a sequence that a plan should have room for."""
    return wishes.context or min(facts.context, USUAL_CONTEXT)


def least_context(facts: ModelFacts, wishes: GpuWishes) -> int:
    """Tokens below which nothing is planned."""
    return wishes.context or min(facts.context, LEAST_CONTEXT)


def enough(fitted: Fitted, wishes: GpuWishes) -> bool:
    """Whether the requests that it is sized for fit at once; a cache of a given size is as large as it shall be."""
    given = fitted.shape.kv_cache_bytes is not None and wishes.concurrency is None
    return given or fitted.budget.typical(wishes.concurrency or TYPICAL_REQUESTS)


def _shapes(wishes: GpuWishes, tensor: int) -> Iterator[Shape]:
    """As asked; and where nobody asked for batches, also with small ones."""
    asked = replace(wishes.shape, tensor=tensor)
    yield asked
    if asked.max_num_seqs is None and asked.max_num_batched_tokens is None:
        yield replace(asked, max_num_seqs=SMALL_SEQUENCES, max_num_batched_tokens=SMALL_BATCH)
