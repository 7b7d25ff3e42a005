"""Ranks the options of an engine: GPU kinds with their parallel sizes, all of which hold the target.

The cost of an option is the price of its GPUs; without a price for each kind, their memory stands for it. Its gain is
the typical requests that it ends in a second with as many at once as let half of them keep the objective, divided by
the cost.

1. An option with which not even a lone request keeps the objective is dropped, if another one keeps it. Here and
   everywhere else that is meant of the objective's percentile.
2. The floor: the KV cache has at least `LEAST_CACHE` of a card, or does not bind; and it holds `ENOUGH_REQUESTS`
   typical requests, if any option does. Options below the floor are dropped, if another one keeps it.
3. The option of the least cost stays, unless one of a higher cost gains at least `CLEAR_GAIN` times as much. That is
   the error of the model (`python -m bench.throughput_model`): a smaller difference may be none.

The profile changes the first and the last rule: `Throughput` has no objective, and `Latency` compares the time of a
token in place of the gain. If nothing keeps the objective, the time of a token decides too. `Smallest` takes the least
cost; it is also the rule for pooling models, for a KV cache of a requested size, and for GPUs whose speed is unknown.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from inference_operator.api.engine_kind import EngineProfile
from inference_operator.sizing.fitting import MOST_UNLINKED, Candidate, Pool
from inference_operator.sizing.serving import TYPICAL_LOAD, Limit, Served, serving
from inference_operator.sizing.shape import Objective, SizingInputs
from inference_operator.sizing.steptime import StepCosts

LEAST_CACHE = 0.2
"""Part of a GPU's memory that the KV cache shall have, where it limits the requests at once. Below it, weights that are
divided over more GPUs make room for several times as many requests (docs/explanation/sizing.md)."""
ENOUGH_REQUESTS = 32
"""Typical requests that an engine shall hold, where any option does: about half of what a step's time allows most of
them at 50 ms a token (docs/explanation/sizing.md)."""
CLEAR_GAIN = 1.15
"""Gain that more GPUs must bring. The model's median error is a little larger, but options of one model share it."""
NEARLY_EQUAL_MEMORY = 1.1
"""Groups of GPUs whose memory differs by less than this factor are of one class, such as L4, A10G and RTX 4090. Their
bandwidth then decides, because it limits the tokens per second. Across classes memory stands for the price, and a model
does not occupy large GPUs that another one needs."""
MEDIAN = 50
"""Percentile of the requests for which the gains of options are compared. With a higher one, an engine of many GPUs
gains because the number of its requests varies less. Routers give most of that to small engines too, as they send each
request to the engine with the fewest; and the model of a percentile is less exact than that of a mean."""
WITHOUT_OBJECTIVE = Objective(ttft=math.inf, tpot=math.inf)


@dataclass(frozen=True, slots=True)
class Option:
    pool: Pool
    candidate: Candidate
    costs: StepCosts | None
    served: Served | None
    """The most requests at once of which half keep the objective."""
    limit: Limit | None
    keeps_objective: bool
    """Whether a lone request does, for the objective's percentile."""
    tpot: float = math.inf
    """Seconds of a token of a lone request."""

    @property
    def gpus(self) -> int:
        return self.candidate.shape.parallel.world_size

    @property
    def memory(self) -> float:
        return self.pool.offer.memory_gib * self.gpus

    @property
    def shares_bus(self) -> bool:
        return self.candidate.shape.parallel.tensor > MOST_UNLINKED and not self.pool.offer.linked

    @property
    def above_floor(self) -> bool:
        budget = self.candidate.budget
        return self.limit is not Limit.KV_CACHE or budget.kv_cache >= LEAST_CACHE * self.pool.offer.memory_gib

    @property
    def name(self) -> str:
        return self.candidate.shape.parallel.on(self.pool.offer.kind)


@dataclass(frozen=True, slots=True)
class Ranked:
    option: Option
    runner_up: str = ""


def option_of(pool: Pool, candidate: Candidate, inputs: SizingInputs) -> Option:
    costs = pool.engine.step_costs(pool.facts, candidate.shape)
    if costs is None or not costs.decodes:
        return Option(pool, candidate, costs, None, None, keeps_objective=False)
    objective = WITHOUT_OBJECTIVE if inputs.profile is EngineProfile.THROUGHPUT else inputs.objective
    engine = serving(costs, candidate.budget, candidate.shape.parallel.data)
    served, limit, _ = engine.best(TYPICAL_LOAD, replace(objective, percentile=MEDIAN))
    keeps, alone = engine.keeps_alone(TYPICAL_LOAD, objective), engine.at(1.0, TYPICAL_LOAD)
    return Option(pool, candidate, costs, served, limit, keeps, alone.tpot)


def ranked(options: Sequence[Option], profile: EngineProfile, previous_kind: str) -> Ranked:
    """The best of some options. The kind of the pinned plan stays, as long as there is an option of it."""
    left = [option for option in options if option.pool.offer.kind == previous_kind] or list(options)
    cost = _cost_of(left)
    if profile is EngineProfile.SMALLEST or any(
        option.served is None or option.candidate.shape.kv_cache_bytes is not None for option in left
    ):
        return Ranked(_smallest(left, cost))
    serving_well = [option for option in left if option.keeps_objective]
    roomy = _above_floor(serving_well or left)
    by_time = profile is EngineProfile.LATENCY or not serving_well
    gain = _speed if by_time else _gain_of(cost)
    best = _climbed(roomy, cost, gain)
    others = [option for option in left if option is not best]
    if best.shares_bus:
        others = [option for option in others if not option.shares_bus]
    if not others:
        return Ranked(best)
    second = _climbed(_above_floor([option for option in others if option.keeps_objective] or others), cost, gain)
    estimated = any(option.costs and option.costs.estimated for option in (best, second))
    why = _why_lost(second, best, gain, roomy, by_time=by_time)
    return Ranked(best, f"{second.name}: {why}{' (estimated)' if estimated else ''}")


def _above_floor(options: Sequence[Option]) -> list[Option]:
    many = [option for option in options if option.candidate.budget.typical(ENOUGH_REQUESTS)] or list(options)
    return [option for option in many if option.above_floor] or many


def _climbed(options: Sequence[Option], cost: Callable[[Option], float], gain: Callable[[Option], float]) -> Option:
    best = _smallest(options, cost)
    for option in sorted(options, key=lambda each: (cost(each), -gain(each), each.name)):
        if cost(option) > cost(best) and gain(option) >= CLEAR_GAIN * gain(best):
            best = option
    return best


def _smallest(options: Sequence[Option], cost: Callable[[Option], float]) -> Option:
    """The option of the least cost; without prices and with nearly equal memory, the one with the most bandwidth."""
    priced = _are_priced(options)
    least = min(option.memory for option in options)

    def order(option: Option) -> tuple[float, bool, float, float, int, str, str]:
        offer = option.pool.offer
        price = cost(option) if priced else 0.0
        larger = option.memory > NEARLY_EQUAL_MEMORY * least
        stages = option.candidate.shape.parallel.pipeline
        return price, larger, -offer.bandwidth_gb_per_s * option.gpus, option.memory, stages, offer.kind, offer.product

    return min(options, key=order)


def _are_priced(options: Sequence[Option]) -> bool:
    return all(option.pool.offer.price is not None for option in options)


def _cost_of(options: Sequence[Option]) -> Callable[[Option], float]:
    if _are_priced(options):
        return lambda option: (option.pool.offer.price or 0.0) * option.gpus
    return lambda option: option.memory


def _gain_of(cost: Callable[[Option], float]) -> Callable[[Option], float]:
    return lambda option: option.served.requests / max(cost(option), 1e-9) if option.served else 0.0


def _speed(option: Option) -> float:
    return 1 / option.tpot


def _why_lost(
    option: Option, best: Option, gain: Callable[[Option], float], roomy: Sequence[Option], *, by_time: bool
) -> str:
    if best.keeps_objective and not option.keeps_objective:
        return f"keeps no objective ({option.limit})"
    if option not in roomy:
        budget = option.candidate.budget
        return (
            f"its KV cache of {budget.kv_cache:.1f} GiB holds {budget.typical_concurrency:.0f} requests of 2,048 tokens"
        )
    compared = "tokens per second of one sequence" if by_time else "requests/s for the cost"
    return f"{gain(option) / gain(best):.2f} times the {compared}"
