"""`infd fit --rate`: GPUs, engines and cost for a rate of requests, the latencies over the load, and roles apart."""

import argparse
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import isfinite

from inference_operator.api.autoscaling import LEAST_PERCENTILE, MOST_PERCENTILE
from inference_operator.api.disaggregation import PREFILL_BATCHED_TOKENS, PREFILL_SEQUENCES
from inference_operator.api.engine_kind import EngineProfile
from inference_operator.cli.output import table
from inference_operator.cli.parser import UsageError
from inference_operator.manifest import Manifest
from inference_operator.models.facts import ModelFacts
from inference_operator.sizing.choice import choose
from inference_operator.sizing.disaggregation import ApartPlan, KVPath, apart_plan, break_even, gigabits, unsendable
from inference_operator.sizing.fitting import OnGpus
from inference_operator.sizing.fleet import FleetPlan, at_rate
from inference_operator.sizing.gpu_plan import Infeasible
from inference_operator.sizing.serving import TYPICAL_LOAD, Load, Served, serving
from inference_operator.sizing.shape import Objective, ParallelSizes, SizingInputs

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
        **{name: getattr(parallel, name) for name in ("tensor", "pipeline", "data", "nodes")},
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
    """The table of each kind, the best and the runner-up in words, and the plot; the first plan is the best."""
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
        yield "slow: a lone request takes more than half of these times, so the operator aims at twice its times."
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


APART_HEAD = (
    *("GPU", "ONE KIND", "APART", "PREFILL", "DECODE", "RATIO"),
    *("KV OF A PROMPT", "ON ITS WAY", "BREAK-EVEN", ""),
)
APART_DIGITS = 3


@dataclass(frozen=True, slots=True)
class Apart:
    one_kind: FleetPlan
    path: KVPath
    break_even: int | None
    plan: ApartPlan | None
    """None where no engines apart keep the objective."""
    problem: str
    """Why the operator would refuse it where no shorter prompt is sent, in a sentence; empty if it would not."""

    @property
    def gpu(self) -> str:
        return self.one_kind.engine.offer.kind

    def document(self, asked: Asked) -> Manifest:
        found, prompt = self.plan, asked.load.prompt
        return {
            "prefillReplicas": found and found.prefill_replicas,
            "decodeReplicas": found and found.decode_replicas,
            "gpus": found and found.gpus,
            "prefillGpusPerDecodeGpu": found and round(found.ratio, APART_DIGITS),
            "keepsObjective": bool(found and found.keeps_objective),
            "kvBytesPerPrompt": round(self.path.token_bytes * prompt),
            "gigabitsPerSecond": self.path.gigabits,
            "transferSeconds": round(self.path.seconds(prompt), APART_DIGITS),
            "breakEvenPromptTokens": self.break_even,
            "refusal": self.problem,
        }

    def row(self, asked: Asked) -> Sequence[str]:
        found, prompt = self.plan, asked.load.prompt
        numbers = ("-", "-", "-", "-")
        if found:
            numbers = (str(found.gpus), str(found.prefill_replicas), str(found.decode_replicas), f"{found.ratio:.2f}")
        return (
            self.gpu,
            str(self.one_kind.gpus),
            *numbers,
            f"{self.path.gib(prompt):.2f} GiB",
            f"{self.path.seconds(prompt):.2g} s",
            "never" if self.break_even is None else f"{self.break_even:,}",
            "too slow" if self.problem else "slow" if found and not found.keeps_objective else "",
        )


def apart(facts: ModelFacts, fleet: FleetPlan, asked: Asked, on_gpus: OnGpus, wishes: SizingInputs) -> Apart | None:
    """What would be in the place of one kind; None where KV caches of these engines are not sent."""
    engine, sizes = fleet.engine, fleet.engine.shape.parallel
    if unsendable(facts) or engine.step is None or _is_divided(sizes):
        return None
    speed = gigabits(asked.gigabits, has_devices=False, gpus=engine.gpus_per_replica)
    path = KVPath(engine.budget.kv_token_bytes * sizes.world_size, speed)
    own = serving(engine.step, engine.budget)
    even = break_even(own, path, asked.objective, context=engine.budget.context)
    shape = replace(wishes.shape, max_num_seqs=PREFILL_SEQUENCES, max_num_batched_tokens=PREFILL_BATCHED_TOKENS)
    prefill = choose(facts, [engine.offer], on_gpus, replace(wishes, shape=shape, profile=EngineProfile.THROUGHPUT))
    problem = path.problem(asked.load.prompt, asked.objective)
    is_possible = not (problem or isinstance(prefill, Infeasible) or _is_divided(prefill.shape.parallel))
    plan = None
    if is_possible and not isinstance(prefill, Infeasible):
        plan = apart_plan(prefill, engine, asked.load, asked.objective, rate=asked.rate, path=path)
    return Apart(fleet, path, even, plan, problem)


def _is_divided(sizes: ParallelSizes) -> bool:
    """Whether the operator would refuse to send KV caches between engines of these sizes."""
    return max(sizes.pipeline, sizes.nodes, sizes.data) > 1


def apart_lines(found: Sequence[Apart], asked: Asked, facts: ModelFacts) -> Iterator[str]:
    if what := unsendable(facts):
        yield f"Prefill and decode are not apart: {what} are not sent from engine to engine."
    if not found:
        return
    yield ""
    yield f"Prefill and decode apart, with KV caches over {found[0].path.gigabits:g} Gbit/s:"
    yield from table([APART_HEAD, *(one.row(asked) for one in found)])
    for one in found:
        if one.problem:
            yield f"{one.gpu}: {one.problem} Name a faster network (--network)."
    yield "ONE KIND, APART: GPUs. BREAK-EVEN: tokens of a prompt for which answers beside it would wait longer."
