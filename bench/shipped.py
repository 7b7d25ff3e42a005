"""`python -m bench.shipped`: autoscaling as it ships, without a knob, against the rules of others.

The shipped form is the computed target with its correction, from the lengths of typical requests on. Each rival runs at
its documented default, where it has one, and with a row of targets, of which the best one for the trace is taken in
hindsight: GPU-hours are compared at the SLO that the shipped form kept. The attainable share is that of the requests
that a lone engine would answer in time. Of the prompts of Mooncake's traces, a prefix cache has a third and two
thirds; the generated embeddings are those of a pooling model. The shipped form also starts with a target that is wrong
by four.

With `--quick`, one seed of two short generated workloads and few targets: about a minute. With `--traces DIR`, the
files of `TRACES` that are there are replayed too (`bench/autoscaling.py` says where they come from).
"""

import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import isfinite, nan
from pathlib import Path
from statistics import fmean

import numpy as np

from bench.autoscaling import BURST_AIM, DIURNAL_AIM, Scenario, computed_target, initial_replicas
from bench.figures import Figure, at_least, at_most, json_of, parser_of, shown
from bench.fleet_simulation import EngineModel, Fleet, Replay, Scaler, Workload, replay
from bench.scaling_curves import Point, hours_at
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


def attainable(work: Workload, fleet: Fleet) -> float:
    """Requests that an engine without others would answer in time, in percent."""
    engine = serving_of(fleet.engine)
    computed = work.prompts - work.cached
    return 100 * float(np.mean(computed <= engine.longest_prompt(TYPICAL_LOAD, OBJECTIVE)))


def figures_of(scenario: Scenario, seeds: int, *, quick: bool) -> Iterator[Figure]:
    """The figures of one scenario."""
    works = [scenario.workload(seed) for seed in range(seeds)]
    run = partial(_replayed, scenario, works)
    own, name = run(lambda: shipped(scenario.fleet)), scenario.name
    slo, possible = fmean(one.attained() for one in own), fmean(attainable(one, scenario.fleet) for one in works)
    yield Figure(f"{name}: attainable", possible, "%")
    yield Figure(f"{name}: shipped, SLO", slo, "%", at_least(possible - SLO_AIM))
    yield Figure(f"{name}: shipped, GPU-hours", fmean(one.gpu_hours for one in own), "h")
    yield Figure(f"{name}: shipped, changes", fmean(one.changes for one in own), "changes")
    parts = QUICK_PARTS if quick else PARTS
    ratios = {}
    for rival, make in TARGETED.items():
        if quick and rival not in {"KubeAI", "HPA outstanding"}:
            continue
        curves = [run(partial(make, max(1.0, part * scenario.concurrency))) for part in parts]
        ratios[rival] = _ratio_at_own_slo(own, curves)
    best = max(ratios, key=lambda rival: ratios[rival] if isfinite(ratios[rival]) else 0.0)
    aim = at_most(BURST_AIM if scenario.bursts else DIURNAL_AIM)
    yield Figure(
        f"{name}: GPU-hours / those of the best rival ({best}) at its best target, equal SLO", ratios[best], "x", aim
    )
    for rival, default in DEFAULTS.items():
        found = run(default)
        yield Figure(f"{name}: {rival}, SLO", fmean(one.attained() for one in found), "%")
        ratio = fmean(a.gpu_hours / b.gpu_hours for a, b in zip(own, found, strict=True))
        yield Figure(f"{name}: GPU-hours / those of {rival}", ratio, "x", at_most(DEFAULT_AIM))
    for factor in WRONG:
        started = run(partial(shipped, scenario.fleet, wrong=factor))
        yield Figure(f"{name}: target x {factor:g} at first, SLO", fmean(one.attained() for one in started), "%")
        later = fmean(
            a.hours_after(LEARNT_SECONDS) / (b.hours_after(LEARNT_SECONDS) or nan)
            for a, b in zip(started, own, strict=True)
        )
        yield Figure(
            f"{name}: target x {factor:g} at first, GPU-hours after an hour / from x 1", later, "x", at_most(WRONG_AIM)
        )


def _replayed(scenario: Scenario, works: Sequence[Workload], make: Callable[[], Scaler]) -> list[Replay]:
    return [
        replay(work, make(), scenario.fleet, initial=initial_replicas(scenario, work), seed=seed)
        for seed, work in enumerate(works)
    ]


def _ratio_at_own_slo(own: Sequence[Replay], curves: Sequence[Sequence[Replay]]) -> float:
    """Mean over seeds; not a number if no target reaches the SLO of the shipped form in one of them."""
    ratios = []
    for seed, one in enumerate(own):
        curve = [Point(0, found[seed].attained(), found[seed].gpu_hours, 0, 0) for found in curves]
        hours = hours_at(curve, one.attained())
        ratios.append(one.gpu_hours / hours if isfinite(hours) else nan)
    return fmean(ratios)


def main(arguments: Sequence[str]) -> int:
    """Replay, and print the figures."""
    parser = parser_of("python -m bench.shipped", "Autoscaling as it ships against the rules of others.")
    parser.add_argument("--quick", action="store_true", help="about a minute: two short workloads, one seed")
    parser.add_argument("--traces", type=Path, help="a folder with the public traces")
    parser.add_argument("--only", nargs="+", default=[], help="names of workloads")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--starts", type=float, nargs="+", default=[30.0, 120.0, 600.0])
    args = parser.parse_args(arguments)
    if args.quick:
        args.seeds, args.starts = 1, [120.0]
    figures: list[Figure] = []
    for scenario in scenarios(args):
        found = list(figures_of(scenario, args.seeds, quick=args.quick))
        figures += found
        if args.output == "text":
            print(shown(found, "text"), flush=True)
    if args.output == "json":
        print(json_of(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
