"""`python -m bench.autoscaling`: the shipped decision against the rules of others, on traces.

Each rule runs with several targets, each with the same arrivals and random numbers. Ours has its shipped constants; its
target is the target concurrency, as that of the rivals. Without `--target` it is the one that the operator computes for
the simulated engine and the mean lengths of the workload. A request that is refused or times out misses its objectives
(first token within 2 s, 50 ms for each further token).

Without arguments, it generates two workloads: `flash` (bursts) and `day` (a day in four hours). Traces are not part of
this repository. Get them from Azure/AzurePublicDataset (`AzureLLMInferenceTrace_conv.csv`), alibaba/ServeGen (sum of
the clients' rates in 10 minutes, with a file of token quantiles) or kvcache-ai/Mooncake, and name them:

    python -m bench.autoscaling --trace AzureLLMInferenceTrace_conv.csv --format azure --divide 0.1667
"""

import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil, isfinite, nan
from pathlib import Path
from statistics import fmean

import numpy as np

from bench.figures import Figure, at_most, json_of, parser_of, shown
from bench.fleet_simulation import Fleet, Replay, Scaler, Workload, replay
from bench.scaling_curves import Curve, Point, best_at, front, highest, hours_at, mean_point, paired_ratio, plotted
from bench.scaling_ours import ours, shipped
from bench.scaling_queries import rendered_hpa, rendered_keda
from bench.scaling_rules import (
    aibrix,
    clairvoyant,
    hpa,
    keda,
    knative,
    kubeai,
    lite,
    outstanding,
    static,
    waiting,
    workload_variant,
)
from bench.serving_model import serving_of
from bench.traces import Format, TraceError, day, flash, read
from inference_operator.sizing.serving import Load
from inference_operator.sizing.shape import Objective

OURS, CLAIRVOYANT, STATIC = "inference-operator", "clairvoyant", "static"
LITE, HPA_QUERY, KEDA_QUERY = "LITE", "HPA rendered", "KEDA rendered"
QUERIES = frozenset({LITE, HPA_QUERY, KEDA_QUERY})
"""The shipped query in the rendered objects, and its law without the delays of Prometheus and the controller."""
HINDSIGHT = frozenset({CLAIRVOYANT, STATIC})
"""References, not rivals: their sizes are chosen with the whole trace in view."""
BY_ENGINE_QUEUE = frozenset({"HPA waiting", "WVA"})
"""Rules that need the queue in engines. Their router sends every request at once, as a plain Service does."""
ENGINE_QUEUE = 4096
PARTS = (0.3, 0.4, 0.55, 0.7, 0.85, 1.0, 1.2, 1.4, 1.7, 2.0)
"""Targets as parts of the concurrency that one engine serves well."""
WAITING, SPARE_KV = (1.0, 2.0, 5.0), (0.1, 0.3, 0.5)
"""Targets of HPA on waiting requests, and of WVA."""
LEVELS = (99.0, 99.5, 99.9)
DIURNAL_AIM, BURST_AIM, QUERY_AIM = 1.02, 0.6, 1.1
WRONG = (0.25, 4.0)
"""A target concurrency that is wrong by this factor at first."""
GENERATED: Mapping[str, Callable[[int], Workload]] = {"flash": flash, "day": day}
FIRST_SECONDS = 300.0
SCARCE = 0.6
"""Part of the clairvoyant's peak that GPUs exist for, in the scenario where they run out."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A workload with its surroundings."""

    name: str
    workload: Callable[[int], Workload]
    """By seed."""
    concurrency: float
    """Requests that one engine serves well with this workload."""
    fleet: Fleet
    bursts: bool


def rules(scenario: Scenario, work: Workload) -> dict[str, list[tuple[float, Scaler]]]:
    """Every rule with its targets; scalers keep state, so each replay needs new ones."""
    best, fleet = scenario.concurrency, scenario.fleet
    seconds = service_seconds(work, fleet, best)
    need = len(work.arrivals) / work.seconds * seconds / best
    by_part: dict[str, Callable[[float], Scaler]] = {
        OURS: partial(ours, fleet=fleet),
        LITE: lite,
        HPA_QUERY: partial(rendered_hpa, max_replicas=fleet.max_replicas),
        KEDA_QUERY: partial(rendered_keda, max_replicas=fleet.max_replicas),
        "HPA outstanding": partial(hpa, outstanding),
        "KEDA outstanding": partial(keda, outstanding),
        "Knative KPA": knative,
        "KubeAI": kubeai,
        "AIBrix APA": aibrix,
        CLAIRVOYANT: partial(clairvoyant, work, seconds, lead_seconds=2 * fleet.start_seconds),
    }
    found = {name: [(part, make(part * best)) for part in PARTS] for name, make in by_part.items()}
    found["HPA waiting"] = [(target, hpa(waiting, target)) for target in WAITING]
    found["WVA"] = [(spare, workload_variant(spare)) for spare in SPARE_KV]
    counts = sorted({max(1, round(need * factor)) for factor in (1.0, 1.5, 2.0, 3.0, 4.0)})
    found[STATIC] = [(count, static(count)) for count in counts]
    return found


def initial_replicas(scenario: Scenario, work: Workload) -> int:
    """The engines that the first minutes of a workload need: a trace is cut out of a longer life."""
    rate = float((work.arrivals < FIRST_SECONDS).sum()) / FIRST_SECONDS
    busy = rate * service_seconds(work, scenario.fleet, scenario.concurrency)
    return max(1, ceil(busy / scenario.concurrency))


def computed_target(work: Workload, fleet: Fleet) -> float:
    """The target that the operator computes for an engine with these constants and the mean lengths of the requests."""
    prompt = float(work.prompts.mean())
    load = Load(prompt, float(work.outputs.mean()), float(np.mean(work.cached)) / prompt)
    return round(serving_of(fleet.engine).best(load, Objective())[0].concurrency, 1)


def service_seconds(work: Workload, fleet: Fleet, concurrency: float) -> float:
    """Mean seconds of a request in an engine with this concurrency: its tokens, and the prompts of all of them."""
    engine = fleet.engine
    token = engine.token_seconds + engine.sequence_seconds * concurrency
    prefill = float(work.prompts.mean()) / engine.prefill_tokens_per_second
    return float(work.outputs.mean()) * token + concurrency * prefill


class RulesError(Exception):
    """Rules that cannot be compared; the message names them and those that can."""


def check_rules(only: Sequence[str], known: Iterable[str]) -> None:
    """Raise RulesError unless the rules exist, and the shipped one and a rival are among them. None means all."""
    names = list(known)
    rivals = [name for name in names if name not in {OURS, *HINDSIGHT, *QUERIES}]
    if unknown := [name for name in only if name not in names]:
        raise RulesError(f"--rules: there is no rule {', '.join(unknown)}; there are: {', '.join(map(repr, names))}")
    if only and (OURS not in only or not set(only) & set(rivals)):
        raise RulesError(f"--rules: name {OURS!r}, and at least one of {', '.join(map(repr, rivals))}")


def curves_of(scenario: Scenario, seeds: int, only: Sequence[str] = ()) -> dict[str, list[list[Point]]]:
    """For each rule, a curve for each seed; RulesError if `only` has rules that cannot be compared."""
    found: dict[str, list[list[Point]]] = {}
    for seed in range(seeds):
        work = scenario.workload(seed)
        warm = initial_replicas(scenario, work)
        every = rules(scenario, work)
        check_rules(only, every)
        for name, targets in every.items():
            if only and name not in only:
                continue
            curve = []
            for target, scaler in targets:
                initial = int(target) if name == STATIC else warm
                fleet = (
                    replace(scenario.fleet, router_limit=ENGINE_QUEUE) if name in BY_ENGINE_QUEUE else scenario.fleet
                )
                curve.append(_point(target, replay(work, scaler, fleet, initial=initial, seed=seed), scenario))
            found.setdefault(name, []).append(curve)
    return found


def _point(target: float, result: Replay, scenario: Scenario) -> Point:
    first = min(result.first_token_p99(), scenario.fleet.queue_seconds)
    return Point(target, result.attained(), result.gpu_hours, first, result.changes)


def means(curves: Mapping[str, Sequence[Curve]]) -> dict[str, list[Point]]:
    """For each rule, the mean curve over seeds."""
    return {name: [mean_point(one) for one in zip(*found, strict=True)] for name, found in curves.items()}


def figures_of(scenario: Scenario, curves: Mapping[str, Sequence[Curve]]) -> Iterator[Figure]:
    """The figures of a scenario: the levels of its kind, and the shipped point."""
    mean = means(curves)
    rivals = {name: curve for name, curve in mean.items() if name not in {OURS, *HINDSIGHT, *QUERIES}}
    own = next(one for one in mean[OURS] if one.target == 1)
    top = highest([highest(curve) for curve in rivals.values()])
    yield Figure(f"{scenario.name}: {OURS}, SLO", own.slo, "%")
    yield Figure(f"{scenario.name}: {OURS}, GPU-hours", own.gpu_hours, "h")
    equal = next((one for one in front(mean[OURS]) if one.slo >= top.slo), own)
    aim = at_most(round(top.first_token_p99, 2))
    yield Figure(f"{scenario.name}: {OURS}, p99 TTFT at the best rival's SLO", equal.first_token_p99, "s", aim)
    yield Figure(f"{scenario.name}: {OURS}, changes of replicas", own.changes, "changes")
    yield from _query_figures(scenario.name, mean)
    levels = _burst_levels(top, mean) if scenario.bursts else LEVELS
    bound = BURST_AIM if scenario.bursts else DIURNAL_AIM
    for level in levels:
        yield from _level_figures(scenario.name, level, curves, rivals, bound)


def _burst_levels(top: Point, mean: Mapping[str, Curve]) -> list[float]:
    """The SLO of the best rival, and 95 % of the clairvoyant's if it was replayed."""
    return [top.slo, *(0.95 * highest(mean[name]).slo for name in (CLAIRVOYANT,) if name in mean)]


def _query_figures(name: str, mean: Mapping[str, Curve]) -> Iterator[Figure]:
    """GPU-hours of the rendered objects at the SLO that their law reaches with C as its target."""
    if LITE not in mean:
        return
    law = next(one for one in mean[LITE] if one.target == 1)
    yield Figure(f"{name}: {LITE}, SLO", law.slo, "%")
    for rule in sorted(QUERIES & mean.keys() - {LITE}):
        ratio = hours_at(mean[rule], law.slo) / law.gpu_hours
        what = f"{name}: {rule} / {LITE}, at its SLO{_unreached(ratio)}"
        yield Figure(what, ratio if isfinite(ratio) else nan, "x", at_most(QUERY_AIM))


def wrong_targets(scenario: Scenario, seeds: int) -> Iterator[Figure]:
    """What a target costs that is wrong at first: fixed, and with the shipped correction."""
    for name in ("fixed", "corrected"):
        for factor in (1.0, *WRONG):
            found = []
            for seed in range(seeds):
                work, fleet = scenario.workload(seed), scenario.fleet
                fixed = ours(factor * scenario.concurrency, fleet)
                scaler = fixed if name == "fixed" else shipped(fleet, wrong=factor)
                found.append(replay(work, scaler, scenario.fleet, initial=initial_replicas(scenario, work), seed=seed))
            what = f"{scenario.name}: C x {factor:g}, {name}"
            yield Figure(f"{what}, SLO", fmean(one.attained() for one in found), "%")
            yield Figure(f"{what}, GPU-hours", fmean(one.gpu_hours for one in found), "h")


def _level_figures(
    name: str, level: float, curves: Mapping[str, Sequence[Curve]], rivals: Mapping[str, Curve], aim: float
) -> Iterator[Figure]:
    """GPU-hours at a level; not a number where it is unreached."""
    own, (rival, hours) = hours_at(means(curves)[OURS], level), best_at(rivals, level)
    yield Figure(f"{name}: {OURS} at {level:.2f} %{_unreached(own)}", own if isfinite(own) else nan, "GPU-hours")
    yield Figure(
        f"{name}: best rival ({rival or 'none'}) at {level:.2f} %", hours if isfinite(hours) else nan, "GPU-hours"
    )
    ratio, half = paired_ratio(curves[OURS], curves[rival], level) if rival else (nan, nan)
    label = "ratio, paired"
    if not isfinite(ratio) and isfinite(own / hours if isfinite(hours) else nan):
        ratio, label = own / hours, "ratio of means"
    yield Figure(f"{name}: {label}, at {level:.2f} %", ratio, "x", at_most(aim))
    for reference in sorted(HINDSIGHT & curves.keys()):
        needed = hours_at(means(curves)[reference], level)
        yield Figure(
            f"{name}: {reference}, with hindsight, at {level:.2f} %", needed if isfinite(needed) else nan, "GPU-hours"
        )
    yield Figure(f"{name}: half of the 95 % interval, at {level:.2f} %", half, "x")


def _unreached(hours: float) -> str:
    return "" if isfinite(hours) else " (unreached)"


def scarce(scenario: Scenario) -> Scenario:
    """The scenario with GPUs for a part of the peak."""
    work = scenario.workload(0)
    seer = clairvoyant(work, service_seconds(work, scenario.fleet, scenario.concurrency), scenario.concurrency, 0.0)
    peak = replay(work, seer, scenario.fleet, initial=1).peak
    fleet = replace(scenario.fleet, available=max(1, round(SCARCE * peak)))
    return replace(scenario, name=f"{scenario.name}, scarce GPUs", fleet=fleet)


def table(curves: Mapping[str, Curve]) -> str:
    """All points of each rule, as a table."""
    lines = [f"{'rule':20} {'target':>7} {'SLO %':>8} {'GPU-hours':>10} {'p99 TTFT s':>11} {'changes':>8}"]
    for name, curve in curves.items():
        for one in curve:
            sizes = f"{one.target:7.2f} {one.slo:8.3f} {one.gpu_hours:10.2f}"
            lines.append(f"{name:20} {sizes} {one.first_token_p99:11.2f} {one.changes:8.1f}")
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    """Replay, and print the figures."""
    parser = parser_of("python -m bench.autoscaling", "The shipped decision against the rules of others, on traces.")
    parser.add_argument("--trace", type=Path, help="a trace file instead of the generated workloads")
    parser.add_argument("--format", type=Format, choices=list(Format), default=Format.AZURE)
    parser.add_argument("--target", type=float, help="requests that one engine serves well; default: as computed")
    parser.add_argument("--divide", type=float, default=1.0, help="divides the rate of the trace")
    parser.add_argument("--from-hour", type=float, default=0.0, help="hours of the trace to leave out")
    parser.add_argument("--hours", type=float, default=24.0, help="hours of the trace to read")
    parser.add_argument("--bursts", action="store_true", help="judge the trace as bursts, not as a day")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--starts", type=float, nargs="+", default=[120.0], help="median start times in seconds")
    parser.add_argument("--rules", nargs="+", default=[], metavar="RULE", help="only these: the shipped one and rivals")
    parser.add_argument("--wrong", action="store_true", help="only what a wrong target concurrency costs")
    parser.add_argument("--scarce", action="store_true", help="only the scenario in which GPUs run out")
    parser.add_argument("--generated", choices=list(GENERATED), nargs="+", default=list(GENERATED))
    args = parser.parse_args(arguments)
    try:
        figures = _measured(args)
    except (TraceError, RulesError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(json_of(figures) if args.output == "json" else "\n" + shown(figures, "text"))
    return 0


def _measured(args: Namespace) -> list[Figure]:
    figures: list[Figure] = []
    scenarios = [scenario for start in args.starts for scenario in _scenarios(args, start)]
    for one in map(scarce, scenarios) if args.scarce else scenarios:
        if args.wrong:
            figures += wrong_targets(one, args.seeds)
            continue
        curves = curves_of(one, args.seeds, args.rules)
        figures += figures_of(one, curves)
        if args.output == "text":
            print(f"\n{one.name}\n{table(means(curves))}\n{plotted(means(curves))}", flush=True)
    return figures


def _scenarios(args: Namespace, start: float) -> Iterator[Scenario]:
    """The trace, or the generated workloads."""
    fleet, suffix = Fleet(start_seconds=start), f", {start:.0f} s"
    if args.trace:
        options = {"divide": args.divide, "start": 3600 * args.from_hour, "hours": args.hours}
        work = partial(_traced, args.trace, args.format, options)
        target = args.target or computed_target(work(0), fleet)
        yield Scenario(f"{args.trace.stem}{suffix}, C = {target:g}", work, target, fleet, bursts=args.bursts)
        return
    for name in args.generated:
        target = args.target or computed_target(GENERATED[name](0), fleet)
        yield Scenario(f"{name}{suffix}, C = {target:g}", GENERATED[name], target, fleet, bursts=name == "flash")


def _traced(path: Path, form: Format, options: Mapping[str, float], seed: int) -> Workload:
    return read(path, form, seed=seed, **options)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
