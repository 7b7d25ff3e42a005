"""How many engines, of which sizes, carry a rate of requests within an objective: the arithmetic of `infd fit --rate`.

- Each kind of GPU has the sizes that a new resource with this objective would get there.
- A kind on which not even a lone request keeps the objective is out. The others need rate / (requests/s of one
  engine at its target) engines, rounded up. Those whose target keeps the objective come before those that are slow.
- The cost is the price of all GPUs; without a price for each kind, their memory stands for it. The lowest cost wins,
  then the fewest GPUs, then the lower time of a token.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from inference_operator.sizing.gpu_plan import GpuPlan
from inference_operator.sizing.serving import Limit, Load, Served, Serving, serving
from inference_operator.sizing.shape import Objective

SECONDS_OF_HOUR = 3600
MILLION = 1e6
HALVINGS = 40


@dataclass(frozen=True, slots=True)
class FleetPlan:
    engine: GpuPlan
    replicas: int
    capacity: Served
    limit: Limit
    keeps_objective: bool
    """Whether the target keeps the objective; else the operator aims at twice the latencies of a lone request."""
    served: Served

    @property
    def gpus(self) -> int:
        return self.replicas * self.engine.gpus_per_replica

    @property
    def price(self) -> float | None:
        price = self.engine.offer.price
        return None if price is None else price * self.gpus

    @property
    def memory_gib(self) -> float:
        return self.gpus * self.engine.offer.memory_gib

    @property
    def name(self) -> str:
        return self.engine.shape.parallel.on(self.engine.offer.kind)

    def price_of_million(self, load: Load) -> float | None:
        rate = self.replicas * self.served.requests * (load.prompt + load.answer)
        return None if self.price is None or not rate else self.price / (rate * SECONDS_OF_HOUR) * MILLION


def fleet_plan(plan: GpuPlan, load: Load, objective: Objective, rate: float) -> FleetPlan | None:
    if plan.step is None:
        return None
    engine = serving(plan.step, plan.budget, plan.shape.parallel.data)
    if not engine.keeps_alone(load, objective):
        return None
    capacity, limit, _ = engine.best(load, engine.attainable(load, objective))
    replicas = max(1, math.ceil(rate / capacity.requests))
    keeps = capacity.keeps(objective)
    return FleetPlan(plan, replicas, capacity, limit, keeps, at_rate(engine, load, rate / replicas))


def at_rate(engine: Serving, load: Load, rate: float) -> Served:
    """The engine at a rate of requests below its capacity: with more requests at once it ends more in a second."""
    low, high = 0.0, float(engine.max_num_seqs)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if engine.at(middle, load).requests < rate else (low, middle)
    return engine.at(high, load)


def by_cost(plans: Sequence[FleetPlan]) -> list[FleetPlan]:
    priced = all(plan.price is not None for plan in plans)

    def cost(plan: FleetPlan) -> tuple[bool, float, int, float, str]:
        cost = (plan.price or 0.0) if priced else plan.memory_gib
        return not plan.keeps_objective, cost, plan.gpus, plan.served.tpot, plan.name

    return sorted(plans, key=cost)
