"""`python -m bench.shipped`: autoscaling as it ships, without a knob, against the rules of others.

The shipped form is the computed target with its correction, from the lengths of typical requests on. Each rival runs at
its documented default, where it has one, and with a row of targets, of which the best one for the trace is taken in
hindsight: GPU-hours are compared at the SLO that the shipped form kept. The attainable share is that of the requests
that a lone engine would answer in time. Of the prompts of Mooncake's traces, a prefix cache has a third and two
thirds; the generated embeddings are those of a pooling model. The shipped form also starts with a target that is wrong
by four.

With `--quick`, one seed of two short generated workloads and few targets: about a minute. With `--traces DIR`, the
files of `TRACES` that are there are replayed too (`bench/autoscaling.py` says where they come from). `--rules` without
a name replays the shipped form alone.
"""

import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import nan
from pathlib import Path
from statistics import fmean

import numpy as np

from bench.autoscaling import BURST_AIM, DIURNAL_AIM, ENGINE_QUEUE, Scenario, computed_target, initial_replicas
from bench.figures import Figure, as_known, at_least, at_most, json_of, parser_of, shown
from bench.fleet_simulation import EngineModel, Fleet, Replay, Scaler, Workload, replay
from bench.scaling_curves import Point, best_at
from bench.scaling_ours import OBJECTIVE, shipped
from bench.scaling_rules import aibrix, hpa, keda, knative, kubeai, outstanding, waiting, workload_variant
from bench.serving_model import serving_of
from bench.traces import Format, day, embeddings, flash, long_tail, read
from inference_operator.sizing.serving import TYPICAL_LOAD

SLO_AIM, DEFAULT_AIM, WRONG_AIM = 0.5, 0.8, 1.15
"""Points below the attainable share; GPU-hours over those of a rival at its default; GPU-hours from a wrong start."""
POOLING = "embeddings"
WRONG = (0.25, 4.0)
LEARNT_SECONDS = 3600.0
"""A wrong start is judged from here on."""
PARTS = (0.15, 0.2, 0.3, 0.45, 0.7, 1.0, 1.4, 2.0)
QUICK_PARTS = (0.3, 0.7)
TARGETED: Mapping[str, Callable[[float], Scaler]] = {
    "HPA outstanding": partial(hpa, outstanding),
    "KEDA outstanding": partial(keda, outstanding),
    "Knative KPA": knative,
    "KubeAI": kubeai,
    "AIBrix APA": aibrix,
}
DEFAULTS: Mapping[str, Callable[[], Scaler]] = {
    "KubeAI, 100": lambda: kubeai(100.0),
    "Knative KPA, 70 % of 100": lambda: knative(70.0),
    "KEDA waiting, 5": lambda: keda(waiting, 5.0),
    "HPA waiting, 5": lambda: hpa(waiting, 5.0),
    "WVA, spare 0.1": lambda: workload_variant(0.1),
}
"""Documented: `targetRequests` (KubeAI), `container-concurrency-target-default` and its utilization (Knative), the
sample of vLLM's production-stack for KEDA, the same number for HPA, spare KV cache (WVA); others have none."""
BY_ENGINE_QUEUE = frozenset({"KEDA waiting, 5", "HPA waiting, 5", "WVA, spare 0.1"})
"""They need the queue in engines: their router sends every request at once, as a plain Service does."""
DEFAULT_RULES, WRONG_START = "defaults", "wrong start"
RULES, QUICK_RULES = (*TARGETED, DEFAULT_RULES, WRONG_START), ("KubeAI", "HPA outstanding", DEFAULT_RULES, WRONG_START)


@dataclass(frozen=True, slots=True)
class Source:
    """A public trace, cut and thinned so that it needs 3 to 20 engines of the simulated kind."""

    file: str
    form: Format
    divide: float
    from_hour: float = 0.0
    hours: float = 3.0

    def workload(self, folder: Path, seed: int) -> Workload:
        start = 3600 * self.from_hour
        path = folder / self.file
        return read(path, self.form, seed=seed, divide=self.divide, start=start, hours=self.hours)


TRACES = (
    Source("azure2023_conv.csv", Format.AZURE, 0.1667),
    Source("azure2023_code.csv", Format.AZURE, 0.3333),
    Source("servegen_m-large_rate_10min.csv", Format.SERVEGEN, 12, from_hour=222),
    Source("servegen_m-small_rate_10min.csv", Format.SERVEGEN, 75, from_hour=79),
    Source("mooncake_conversation_trace.jsonl", Format.MOONCAKE, 2),
    Source("mooncake_synthetic_trace.jsonl", Format.MOONCAKE, 2),
)


def scenarios(args: Namespace) -> Iterator[Scenario]:
    """The workloads with each start time; the reference of the rivals' targets is that for mean lengths."""
    made: dict[str, Callable[[int], Workload]] = {
        "day": day,
        "flash": flash,
        "long tail": long_tail,
        POOLING: embeddings,
    }
    if args.quick:
        made = {"long tail": partial(long_tail, seconds=3600.0), "flash": partial(flash, step_seconds=300.0)}
    for source in TRACES if args.traces else ():
        if (args.traces / source.file).exists():
            made[source.file.split(".")[0]] = partial(source.workload, args.traces)
    for start in args.starts:
        for name, work in made.items():
            fleet = Fleet(EngineModel(decodes=name != POOLING), start)
            if not args.only or name in args.only:
                target = computed_target(work(0), fleet)
                yield Scenario(f"{name}, {start:.0f} s", work, target, fleet, bursts=name == "flash")


def targets_of(rival: str, parts: Sequence[float], concurrency: float) -> Sequence[float]:
    """The targets of a rival; that of KubeAI is a whole number."""
    targets = (part * concurrency for part in parts)
    return sorted({max(1.0, float(round(one))) for one in targets} if rival == "KubeAI" else set(targets))


def attainable(work: Workload, fleet: Fleet) -> float:
    """Requests that an engine without others would answer in time, in percent."""
    engine = serving_of(fleet.engine)
    computed = work.prompts - work.cached
    return 100 * float(np.mean(computed <= engine.longest_prompt(TYPICAL_LOAD, OBJECTIVE)))


def figures_of(scenario: Scenario, seeds: int, rules: Sequence[str], parts: Sequence[float]) -> Iterator[Figure]:
    """The figures of one scenario: the shipped form, and what the rules need."""
    works = [scenario.workload(seed) for seed in range(seeds)]
    run = partial(_replayed, scenario, works)
    own, name = run(lambda: shipped(scenario.fleet)), scenario.name
    slo, possible = fmean(one.attained() for one in own), fmean(attainable(one, scenario.fleet) for one in works)
    yield Figure(f"{name}: attainable", possible, "%")
    yield Figure(f"{name}: shipped, SLO", slo, "%", at_least(possible - SLO_AIM))
    yield Figure(f"{name}: shipped, GPU-hours", fmean(one.gpu_hours for one in own), "h")
    yield Figure(f"{name}: shipped, changes", fmean(one.changes for one in own), "changes")
    curves = {
        rival: [run(partial(make, target)) for target in targets_of(rival, parts, scenario.concurrency)]
        for rival, make in TARGETED.items()
        if rival in rules
    }
    if curves:
        yield ratio_to_rivals(scenario, own, curves)
    for rival, default in DEFAULTS.items() if DEFAULT_RULES in rules else ():
        found = run(default, by_engine_queue=rival in BY_ENGINE_QUEUE)
        yield Figure(f"{name}: {rival}, SLO", fmean(one.attained() for one in found), "%")
        ratio = fmean(a.gpu_hours / b.gpu_hours for a, b in zip(own, found, strict=True))
        yield Figure(f"{name}: GPU-hours / those of {rival}", ratio, "x", at_most(DEFAULT_AIM))
    for factor in WRONG if WRONG_START in rules else ():
        started = run(partial(shipped, scenario.fleet, wrong=factor))
        yield Figure(f"{name}: target x {factor:g} at first, SLO", fmean(one.attained() for one in started), "%")
        later = fmean(
            a.hours_after(LEARNT_SECONDS) / (b.hours_after(LEARNT_SECONDS) or nan)
            for a, b in zip(started, own, strict=True)
        )
        yield Figure(
            f"{name}: target x {factor:g} at first, GPU-hours after an hour / from x 1", later, "x", at_most(WRONG_AIM)
        )


def _replayed(
    scenario: Scenario, works: Sequence[Workload], make: Callable[[], Scaler], *, by_engine_queue: bool = False
) -> list[Replay]:
    fleet = replace(scenario.fleet, router_limit=ENGINE_QUEUE) if by_engine_queue else scenario.fleet
    return [
        replay(work, make(), fleet, initial=initial_replicas(scenario, work), seed=seed)
        for seed, work in enumerate(works)
    ]


def ratio_to_rivals(
    scenario: Scenario, own: Sequence[Replay], found: Mapping[str, Sequence[Sequence[Replay]]]
) -> Figure:
    """GPU-hours over those of the rival that needs the fewest at the SLO of the shipped form: the mean over seeds.

    Each seed has its own best rival, and counts if one keeps as much with one of its targets.
    """
    ratios, best = [], list[str]()
    for seed, one in enumerate(own):
        points = {rival: [_point(replays[seed]) for replays in targets] for rival, targets in found.items()}
        rival, hours = best_at(points, one.attained())
        if rival:
            ratios.append(one.gpu_hours / hours)
            best.append(rival)
    who = f"{', '.join(dict.fromkeys(best)) or 'none keeps as much'}; {len(ratios)} of {len(own)} seeds"
    name = f"{scenario.name}: GPU-hours / those of the best rival at its best target, equal SLO ({who})"
    aim = at_most(BURST_AIM if scenario.bursts else DIURNAL_AIM)
    return Figure(name, fmean(ratios) if ratios else nan, "x", aim, "" if ratios else "no rival keeps as much")


def _point(found: Replay) -> Point:
    return Point(0, found.attained(), found.gpu_hours, 0, found.changes)


def main(arguments: Sequence[str]) -> int:
    """Replay, and print the figures."""
    parser = parser_of("python -m bench.shipped", "Autoscaling as it ships against the rules of others.")
    parser.add_argument("--quick", action="store_true", help="about a minute: two short workloads, one seed")
    parser.add_argument("--traces", type=Path, help="a folder with the public traces")
    parser.add_argument("--only", nargs="+", default=[], help="names of workloads")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--starts", type=float, nargs="+", default=[30.0, 120.0, 600.0])
    parser.add_argument("--rules", nargs="*", choices=RULES, default=RULES, help="only these beside the shipped form")
    parser.add_argument("--parts", type=float, nargs="+", default=PARTS, help="targets of rivals, as parts of C")
    args = parser.parse_args(arguments)
    if args.quick:
        args.seeds, args.starts, args.rules, args.parts = 1, [120.0], QUICK_RULES, QUICK_PARTS
    figures: list[Figure] = []
    for scenario in scenarios(args):
        found = list(as_known(figures_of(scenario, args.seeds, args.rules, args.parts)))
        figures += found
        if args.output == "text":
            print(shown(found, "text"), flush=True)
    if args.output == "json":
        print(json_of(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
