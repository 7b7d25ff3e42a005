"""`infd fit --rate`: GPUs, engines and cost for a rate of requests, and the latencies over the load."""

import argparse
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite

from inference_operator.api.duration import duration
from inference_operator.cli.output import FORMATS, table
from inference_operator.cli.parser import UsageError
from inference_operator.manifest import Manifest
from inference_operator.sizing.fleet import FleetPlan, at_rate, by_cost
from inference_operator.sizing.serving import TYPICAL_LOAD, Load, Served, serving
from inference_operator.sizing.shape import Objective

HEAD = ("GPU", "SIZES", "ENGINES", "GPUS", "COST/H", "COST/M TOKENS", "TTFT", "TPOT", "BOUND BY", "")
SECONDS = {"s": 1, "min": 60, "h": 3600}
LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1)
"""Parts of an engine's capacity that the plot shows."""
BAR = 40
MILLISECONDS = 1000
DIGITS = 4
DEFAULTS = Objective()


@dataclass(frozen=True, slots=True)
class Asked:
    """A rate of requests with their lengths and latencies."""

    rate: float
    """Requests in a second."""
    load: Load
    objective: Objective

    @property
    def longest(self) -> int:
        """Tokens of a request of mean length."""
        return round(self.load.prompt + self.load.answer)


def add_rate(fit: argparse.ArgumentParser) -> None:
    """Add the options of a rate."""
    rate = fit.add_argument_group("for a rate of requests")
    rate.add_argument("--rate", type=_rate, help="requests to carry: 20/s, 600/min; prints engines, GPUs and cost")
    rate.add_argument("--prompt", type=_tokens, default=round(TYPICAL_LOAD.prompt), help="mean tokens of a prompt")
    rate.add_argument("--answer", type=_tokens, default=round(TYPICAL_LOAD.answer), help="mean tokens of an answer")
    fit.add_argument(
        "-o",
        "--output",
        action=_FormatOrTokens,
        default=FORMATS[0],
        metavar="FORMAT",
        help="output format: table, json or yaml; default table. A number is that of --answer",
    )
    rate.add_argument("--cached", type=_part, default=0.0, help="part of prompts that the prefix cache has: 0 to 1")
    rate.add_argument("--ttft", type=_seconds, default=DEFAULTS.ttft, help="time to first token, for 95 %%: 500ms")
    rate.add_argument("--tpot", type=_seconds, default=DEFAULTS.tpot, help="mean time of each further token: 30ms")
    rate.add_argument(
        "--price", action="append", default=[], metavar="KIND=PRICE", help="price of one GPU for an hour; repeatable"
    )
    rate.add_argument("--plot", action="store_true", help="draw the latencies of one engine over its load")


class _FormatOrTokens(argparse.Action):
    """`--output json` is the format; `--output 300` are tokens, beside `--prompt 2000`."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,  # noqa: ARG002 - argparse's signature
    ) -> None:
        text = str(values)
        if text in FORMATS:
            namespace.output = text
            return
        try:
            namespace.answer = _tokens(text)
        except argparse.ArgumentTypeError:
            parser.error(f"argument -o/--output: {text!r} is neither {', '.join(FORMATS)} nor a number of tokens")


def asked_rate(options: argparse.Namespace) -> Asked | None:
    """The rate that is asked for; None without one."""
    if options.rate is None:
        return None
    load = Load(float(options.prompt), float(options.answer), options.cached)
    return Asked(options.rate, load, Objective(options.ttft, options.tpot))


def prices(texts: Sequence[str]) -> dict[str, float]:
    """Prices by the names of kinds; raises `UsageError` for anything else.

    Examples:
        >>> prices(["H100=2.5", "l4=0.7"])
        {'H100': 2.5, 'l4': 0.7}
    """
    found = {}
    for text in texts:
        name, _, amount = text.partition("=")
        if not name or not re.fullmatch(r"\d{1,6}(\.\d{1,6})?", amount, re.ASCII):
            raise UsageError("--price: is not of the form KIND=PRICE, for example `--price H100=2.5`.")
        found[name] = float(amount)
    return found


def documents(plans: Sequence[FleetPlan], asked: Asked) -> list[Manifest]:
    """The plans as objects, the cheapest first."""
    return [_document(plan, asked) for plan in by_cost(plans)]


def _document(plan: FleetPlan, asked: Asked) -> Manifest:
    parallel, million = plan.option.candidate.shape.parallel, plan.price_of_million(asked.load)
    return {
        "gpu": plan.option.pool.offer.kind,
        "tensor": parallel.tensor,
        "pipeline": parallel.pipeline,
        "data": parallel.data,
        "nodes": parallel.nodes,
        "replicas": plan.replicas,
        "gpus": plan.gpus,
        "max_model_len": plan.option.candidate.budget.context,
        "requests_per_second_per_engine": round(plan.capacity.requests, DIGITS),
        "concurrency_per_engine": round(plan.served.concurrency, 1),
        "ttft_seconds": round(plan.served.ttft, DIGITS),
        "tpot_seconds": round(plan.served.tpot, DIGITS),
        "bound": str(plan.limit),
        "price_per_hour": plan.price,
        "price_per_million_tokens": None if million is None else round(million, DIGITS),
        "estimated": bool(plan.option.costs and plan.option.costs.estimated),
    }


def report(plans: Sequence[FleetPlan], asked: Asked, refused: Sequence[str], *, plot: bool) -> Iterator[str]:
    """The table of each kind's cheapest sizes, the best and the runner-up in words, and the plot."""
    ordered = by_cost(plans)
    first_of_kind = {plan.option.pool.offer.kind: plan for plan in reversed(ordered)}
    shown = by_cost(list(first_of_kind.values()))
    if shown:
        yield from table([HEAD, *(_row(plan, asked) for plan in shown)])
        yield from _in_words(ordered, asked)
    yield from refused
    if plot and ordered:
        yield ""
        yield from _plotted(ordered[0], asked)


def _row(plan: FleetPlan, asked: Asked) -> Sequence[str]:
    parallel, million = plan.option.candidate.shape.parallel, plan.price_of_million(asked.load)
    estimated = plan.option.costs is not None and plan.option.costs.estimated
    stages = f" x PP {parallel.pipeline}" if parallel.pipeline > 1 else ""
    return (
        plan.option.pool.offer.kind,
        f"TP {parallel.tensor}{stages}" + (f" on {parallel.nodes} nodes" if parallel.nodes > 1 else ""),
        str(plan.replicas),
        str(plan.gpus),
        "-" if plan.price is None else f"{plan.price:.2f}",
        "-" if million is None else f"{million:.2f}",
        f"{plan.served.ttft * MILLISECONDS:.0f} ms",
        f"{plan.served.tpot * MILLISECONDS:.1f} ms",
        str(plan.limit),
        "estimated" if estimated else "",
    )


def _in_words(ordered: Sequence[FleetPlan], asked: Asked) -> Iterator[str]:
    best = ordered[0]
    load, goal = asked.load, asked.objective
    cached = f", {load.cached:.0%} of them cached," if load.cached else ""
    yield (
        f"{asked.rate:g} requests/s of {load.prompt:,.0f} prompt{cached} and {load.answer:,.0f} answer tokens within"
        f" {goal.ttft:g} s to the first token and {goal.tpot * MILLISECONDS:g} ms for each further one:"
        f" {best.replicas} x {best.option.name}. One engine carries {best.capacity.requests:.3g} requests/s, bound by"
        f" {best.limit}."
    )
    if len(ordered) > 1:
        second = ordered[1]
        if best.price and second.price:
            ratio, unit = second.price / best.price, "the price"
        else:
            ratio, unit = second.memory_gib / best.memory_gib, "the GPU memory"
        yield f"Runner-up: {second.replicas} x {second.option.name}, {ratio:.2f} times {unit}."
    if any(one.option.costs and one.option.costs.estimated for one in ordered):
        yield "estimated: no measurement of such a model on this kind of GPU is known."


def _plotted(plan: FleetPlan, asked: Asked) -> Iterator[str]:
    """TPOT and TTFT of one engine over its load; a bar of full width is the objective."""
    if plan.option.costs is None:
        return
    found = plan.option.candidate
    engine = serving(plan.option.costs, found.budget, found.shape.parallel.data)
    points = [
        (level, at_rate(engine, asked.load, level * plan.capacity.requests))
        for level in LEVELS
        if level <= 1 or engine.max_num_seqs > plan.capacity.concurrency
    ]
    yield f"One engine ({plan.option.name}); the bars end at the objective:"
    yield f"{'requests/s':>10}  {'TPOT':>9} {'':{BAR}}  {'TTFT':>9}"
    for level, served in points:
        yield _bars(level * plan.capacity.requests, served, asked.objective)


def _bars(rate: float, served: Served, objective: Objective) -> str:
    tpot, ttft = served.tpot * MILLISECONDS, served.ttft * MILLISECONDS
    bars = [_bar(served.tpot / objective.tpot), _bar(served.ttft / objective.ttft)]
    first = f"{ttft:6.0f} ms" if isfinite(ttft) else "    grows"
    return f"{rate:10.2f}  {tpot:6.1f} ms {bars[0]:{BAR}}  {first} {bars[1]}".rstrip()


def _bar(part: float) -> str:
    """Examples: half of the objective is half a bar; more than all of it ends with an arrow."""
    return "#" * round(part * BAR) if part <= 1 else "#" * (BAR - 1) + ">"


def _rate(text: str) -> float:
    """Requests in a second.

    Examples:
        >>> _rate("20/s"), _rate("600/min"), _rate("3.5")
        (20.0, 10.0, 3.5)
    """
    number, _, unit = text.partition("/")
    if not re.fullmatch(r"\d{1,9}(\.\d{1,6})?", number, re.ASCII) or unit not in ("", *SECONDS) or not float(number):
        raise argparse.ArgumentTypeError(f"{text!r} is not a rate such as 20/s or 600/min")
    return float(number) / SECONDS[unit or "s"]


def _seconds(text: str) -> float:
    try:
        found = duration(text).total_seconds()
    except ValueError:
        found = 0.0
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration such as 500ms or 2s")
    return found


def _tokens(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:12]) <= MILLION_TOKENS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of tokens")
    return int(text)


MILLION_TOKENS = 10_000_000
"""No model reads more."""


def _part(text: str) -> float:
    if not re.fullmatch(r"0?\.\d{1,4}|0|1|1\.0", text, re.ASCII):
        raise argparse.ArgumentTypeError(f"{text!r} is not a part between 0 and 1")
    return float(text)
