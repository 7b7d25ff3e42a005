"""`infd fit --rate`: GPUs, engines and cost for a rate of requests, and the latencies over the load."""

import argparse
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import isfinite

from inference_operator.api.autoscaling import LEAST_PERCENTILE, MOST_PERCENTILE
from inference_operator.cli.output import table
from inference_operator.cli.parser import UsageError
from inference_operator.manifest import Manifest
from inference_operator.sizing.fleet import FleetPlan, at_rate
from inference_operator.sizing.serving import TYPICAL_LOAD, Load, Served, serving
from inference_operator.sizing.shape import Objective

HEAD = ("GPU", "SIZES", "ENGINES", "GPUS", "COST/H", "COST/M TOKENS", "TTFT", "TPOT", "BOUND BY", "")
LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1)
"""Parts of an engine's capacity that the plot shows."""
BAR = 40
MILLISECONDS = 1000
DIGITS = 4


@dataclass(frozen=True, slots=True)
class Asked:
    rate: float
    """Requests in a second."""
    load: Load
    objective: Objective
    gigabits: float | None = None
    """Gbit/s between engines for prompts and engines for answers; None: as without a statement."""

    @property
    def longest(self) -> int:
        return round(self.load.prompt + self.load.answer)


def asked_rate(options: argparse.Namespace) -> Asked | None:
    if options.rate is None:
        return None
    prompt, answer = options.prompt or round(TYPICAL_LOAD.prompt), options.answer or round(TYPICAL_LOAD.answer)
    if options.percentile and not LEAST_PERCENTILE <= options.percentile <= MOST_PERCENTILE:
        raise UsageError(f"--percentile: must be from {LEAST_PERCENTILE} to {MOST_PERCENTILE}.")
    asked = {name: value for name in ("ttft", "tpot", "percentile") if (value := getattr(options, name)) is not None}
    objective = replace(Objective(), **asked)
    return Asked(options.rate, Load(float(prompt), float(answer), options.cached), objective, options.network)


def prices(texts: Sequence[str]) -> dict[str, float]:
    found = {}
    for text in texts:
        name, _, amount = text.partition("=")
        if not name or not re.fullmatch(r"\d{1,6}(\.\d{1,6})?", amount, re.ASCII):
            raise UsageError("--price: is not of the form KIND=PRICE, for example `--price H100=2.5`.")
        found[name] = float(amount)
    return found


def document(plan: FleetPlan, asked: Asked) -> Manifest:
    parallel, million = plan.engine.shape.parallel, plan.price_of_million(asked.load)
    return {
        "gpu": plan.engine.offer.kind,
        "tensor": parallel.tensor,
        "pipeline": parallel.pipeline,
        "data": parallel.data,
        "nodes": parallel.nodes,
        "replicas": plan.replicas,
        "gpus": plan.gpus,
        "maxModelLen": plan.engine.budget.context,
        "requestsPerSecondPerEngine": round(plan.capacity.requests, DIGITS),
        "concurrencyPerEngine": round(plan.served.concurrency, 1),
        "ttftSeconds": _one_digit(plan.served.ttft_of(asked.objective.percentile)),
        "tpotSeconds": round(plan.served.tpot_of(asked.objective.percentile), DIGITS),
        "keepsObjective": plan.keeps_objective,
        "bound": str(plan.limit),
        "pricePerHour": plan.price,
        "pricePerMillionTokens": None if million is None else round(million, DIGITS),
        "estimated": bool(plan.engine.step and plan.engine.step.estimated),
    }


def report(plans: Sequence[FleetPlan], asked: Asked, refused: Sequence[str], *, plot: bool) -> Iterator[str]:
    """The table of each kind, the best and the runner-up in words, and the plot.

    Args:
        plans: the best first.
    """
    if plans:
        yield from table([HEAD, *(_row(plan, asked) for plan in plans)])
        yield from _in_words(plans, asked)
    yield from refused
    if plot and plans:
        yield ""
        yield from _plotted(plans[0], asked)


def _row(plan: FleetPlan, asked: Asked) -> Sequence[str]:
    parallel, million = plan.engine.shape.parallel, plan.price_of_million(asked.load)
    estimated = plan.engine.step is not None and plan.engine.step.estimated
    stages = f" x PP {parallel.pipeline}" if parallel.pipeline > 1 else ""
    return (
        plan.engine.offer.kind,
        f"TP {parallel.tensor}{stages}" + (f" on {parallel.nodes} nodes" if parallel.nodes > 1 else ""),
        str(plan.replicas),
        str(plan.gpus),
        "-" if plan.price is None else f"{plan.price:.2f}",
        "-" if million is None else f"{million:.2f}",
        f"{_one_digit(plan.served.ttft_of(asked.objective.percentile)):g} s",
        f"{plan.served.tpot_of(asked.objective.percentile) * MILLISECONDS:.1f} ms",
        str(plan.limit),
        ", ".join(["slow"] * (not plan.keeps_objective) + ["estimated"] * estimated),
    )


def _in_words(ordered: Sequence[FleetPlan], asked: Asked) -> Iterator[str]:
    best = ordered[0]
    load, goal = asked.load, asked.objective
    cached = f", {load.cached:.0%} of them cached," if load.cached else ""
    yield (
        f"{asked.rate:g} requests/s of {load.prompt:,.0f} prompt{cached} and {load.answer:,.0f} answer tokens within"
        f" {goal.ttft:g} s to the first token and {goal.tpot * MILLISECONDS:g} ms for each further one for"
        f" {goal.percentile} % of them: {best.replicas} x {best.name}. One engine carries"
        f" {best.capacity.requests:.3g} requests/s, bound by {best.limit}."
    )
    if len(ordered) > 1:
        second = ordered[1]
        if best.price and second.price:
            ratio, unit = second.price / best.price, "the price"
        else:
            ratio, unit = second.memory_gib / best.memory_gib, "the GPU memory"
        yield f"Runner-up: {second.replicas} x {second.name}, {ratio:.2f} times {unit}."
    if not all(one.keeps_objective for one in ordered):
        yield (
            "slow: a lone request takes more than half of these times, so the operator aims at twice its times, and not"
            " at these."
        )
    if any(one.engine.step and one.engine.step.estimated for one in ordered):
        yield "estimated: no measurement of such a model on this kind of GPU is known."


def _plotted(plan: FleetPlan, asked: Asked) -> Iterator[str]:
    """TPOT and TTFT of one engine over its load; a bar of full width is the objective."""
    if plan.engine.step is None:
        return
    engine = serving(plan.engine.step, plan.engine.budget, plan.engine.shape.parallel.data)
    points = [
        (level, at_rate(engine, asked.load, level * plan.capacity.requests))
        for level in LEVELS
        if level <= 1 or engine.max_num_seqs > plan.capacity.concurrency
    ]
    yield f"One engine ({plan.name}); the bars end at the objective:"
    yield f"{'requests/s':>10}  {'TPOT':>9} {'':{BAR}}  {'TTFT':>9}"
    for level, served in points:
        yield _bars(level * plan.capacity.requests, served, asked.objective)


def _bars(rate: float, served: Served, objective: Objective) -> str:
    tpot, ttft = served.tpot_of(objective.percentile), served.ttft_of(objective.percentile)
    bars = [_bar(tpot / objective.tpot), _bar(ttft / objective.ttft)]
    first = f"{_one_digit(ttft):7g} s" if isfinite(ttft) else "    grows"
    return f"{rate:10.2f}  {tpot * MILLISECONDS:6.1f} ms {bars[0]:{BAR}}  {first} {bars[1]}".rstrip()


def _one_digit(ttft: float) -> float:
    """What the model is good for: of all its times, that to the first token differs most from measured ones.

    Examples: 0.523 is 0.5.
    """
    return float(f"{ttft:.1g}")


def _bar(part: float) -> str:
    """Examples: half of the objective is half a bar; more than all of it ends with an arrow."""
    return "#" * round(part * BAR) if part <= 1 else "#" * (BAR - 1) + ">"
