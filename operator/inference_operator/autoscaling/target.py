"""The target concurrency C: how many requests one engine serves well at a time, computed from its pinned plan.

C is the most requests at once that keep the objective but for `MARGIN` of the misses that its percentile permits, by
the model of a step's time (`sizing/serving.py`), for requests as long, and as unequal, as the service's own. It is
never more than `max_num_seqs`, or than the KV cache holds of them. On a GPU that is slow for the objective, twice the
latencies of a lone request are the objective.

Where the speed of the engine is unknown, `UNKNOWN_TARGET` stands for the bound of time. `target_correction.py` corrects
C by what engines measure.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import inf

from inference_operator.sizing.plan import Plan
from inference_operator.sizing.serving import FULL, TYPICAL_LOAD, Limit, Load, Serving, cached_tokens, serving_of_plan
from inference_operator.sizing.shape import Objective

MARGIN = 0.1
"""Part of the misses that the objective's percentile permits for which C is computed and corrected. The rest is for
what no target avoids: requests that come while engines start, and the time in which C is learnt."""
UNKNOWN_TARGET = 32.0
"""C on GPUs whose speed is unknown, and on CPUs."""


class TargetBound(StrEnum):
    """The bound that decides the target concurrency, in words for users."""

    REQUESTED = "targetConcurrency"
    SEQUENCES = "max_num_seqs"
    KV_CACHE = "KV cache"
    TOKEN_TIME = "time of each output token"  # noqa: S105 - a token of a text
    FIRST_TOKEN = "time to first token"  # noqa: S105 - as above
    TOO_SLOW = "GPU that is too slow for the objective"
    UNKNOWN_SPEED = "unknown speed of the GPU"


@dataclass(frozen=True, slots=True)
class Target:
    concurrency: float
    bound: TargetBound
    bounds: Mapping[TargetBound, float]
    """All bounds that were computed, in requests."""
    factor: float = 1.0
    """The correction by measured latencies, by which the computed target was multiplied."""
    load: Load = TYPICAL_LOAD
    objective: Objective = field(default_factory=Objective)
    """The objective that it was computed for: the requested one, or what a slow engine attains."""
    least_seconds: float = 0.0
    """Time of a request in an engine at the computed target, where prompts bind it: their queue is short until it is
    long, so that the requests of an engine with less to do tell nothing."""
    longest_prompt: float = inf
    """Computed tokens of the longest prompt for which the objective is its `ttft`: a longer one takes longer."""

    @property
    def computed(self) -> float:
        return max(1.0, min(self.bounds.values(), default=self.concurrency))

    @property
    def most_factor(self) -> float:
        """Largest factor that has an effect: neither `max_num_seqs` nor the KV cache allows more."""
        walls = [self.bounds[bound] for bound in (TargetBound.SEQUENCES, TargetBound.KV_CACHE) if bound in self.bounds]
        return max(1.0, min(walls, default=self.computed) / self.computed)

    @property
    def reason(self) -> str:
        others = [f"{name} allows {value:.0f}" for name, value in self.bounds.items() if name is not self.bound]
        corrected = [f"corrected from {self.computed:.0f} by measured latencies"] if self.factor != 1 else []
        why = "; ".join([f"bound by {self.bound}", *corrected, *others])
        return f"{self.concurrency:.0f} requests for each engine ({why})"

    def corrected(self, factor: float) -> "Target":
        """The computed target times a correction, as far as that has an effect; a requested one has none."""
        if self.bound is TargetBound.REQUESTED:
            return self
        is_full = factor > 1 and factor >= self.most_factor
        bound = min(_WALLS & set(self.bounds), key=lambda name: self.bounds[name]) if is_full else self.bound
        factor = min(max(factor, 1 / self.computed), self.most_factor)
        return replace(self, concurrency=max(1.0, self.computed * factor), bound=bound, factor=factor)


_DEFAULT_OBJECTIVE = Objective()


def target_concurrency(
    plan: Plan,
    *,
    max_num_seqs: int,
    requested: float | None = None,
    objective: Objective = _DEFAULT_OBJECTIVE,
    load: Load = TYPICAL_LOAD,
) -> Target:
    """The target concurrency of one engine, without a correction.

    Args:
        max_num_seqs: sequences that the engine computes at once, also where the plan leaves that to the engine.
        requested: `spec.autoscaling.targetConcurrency`, which replaces the computed value.
    """
    known = serving_of_plan(plan)
    engine = replace(known, max_num_seqs=max_num_seqs) if known else None
    aim = engine.attainable(load, objective) if engine else objective
    found, seconds = _bounds(plan, engine, load, objective, aim)
    bounds = {TargetBound.SEQUENCES: float(max_num_seqs), **found}
    if requested is not None:
        return Target(requested, TargetBound.REQUESTED, bounds, load=load, objective=aim)
    bound = min(bounds, key=lambda name: bounds[name])
    longest = engine.longest_prompt(load, aim) if engine else inf
    concurrency = max(1.0, bounds[bound])
    return Target(concurrency, bound, bounds, load=load, objective=aim, least_seconds=seconds, longest_prompt=longest)


def room(plan: Plan, load: Load, reported_tokens: int | None = None) -> float | None:
    """Running requests of a load that an engine's KV cache holds; None where it is unknown, 0 where none stays in it.

    What the prefix cache has of prompts is there once.

    Args:
        reported_tokens: size of the KV cache by the engine's metrics, for plans without one, as on CPUs.
    """
    if load.answer <= 1:
        return 0.0
    held = float(reported_tokens or 0)
    if plan.per_gpu:
        held = cached_tokens(plan.per_gpu.max_concurrency_at_2048_tokens, plan.max_model_len)
    return FULL * plan.parallel.data * held / (load.new_prompt + load.running_answer) if held else None


_WALLS = frozenset({TargetBound.SEQUENCES, TargetBound.KV_CACHE})
_BOUND_OF = {Limit.TPOT: TargetBound.TOKEN_TIME, Limit.TTFT: TargetBound.FIRST_TOKEN}


def _bounds(
    plan: Plan, engine: Serving | None, load: Load, objective: Objective, aim: Objective
) -> tuple[dict[TargetBound, float], float]:
    """The bounds, and the time of a request where prompts are the bound."""
    if engine is None:
        unknown = {TargetBound.UNKNOWN_SPEED: UNKNOWN_TARGET}
        if plan.per_gpu is None or not plan.per_gpu.kv_token_bytes:  # as of an encoder
            return unknown, 0.0
        held = plan.parallel.data * cached_tokens(plan.per_gpu.max_concurrency_at_2048_tokens, plan.max_model_len)
        return {TargetBound.KV_CACHE: FULL * held / load.resident, **unknown}, 0.0
    held_by_cache = {TargetBound.KV_CACHE: engine.room(load)} if engine.costs.decodes else {}
    served, limit, _ = engine.best(load, replace(aim, percentile=100 - MARGIN * (100 - aim.percentile)))
    if limit in (Limit.SEQUENCES, Limit.KV_CACHE):
        return held_by_cache, 0.0
    relaxed = aim.tpot > objective.tpot if limit is Limit.TPOT else aim.ttft > objective.ttft
    seconds = served.concurrency / served.requests if limit is Limit.TTFT else 0.0
    return {**held_by_cache, TargetBound.TOO_SLOW if relaxed else _BOUND_OF[limit]: served.concurrency}, seconds
