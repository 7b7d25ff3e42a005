"""Success rate of a service under faults at random, round by round: `infd drill` with planned ones, and kills.

    python -m bench.availability --minutes 20 | --hours 2 [--seed N] [--folder FOLDER] [--output text|json]

Runs on a real node (needs root) with three simulated engines behind two routers. Each round has a seed, and with it its
faults, their order and the rate of requests: gentle or a burst. A round that ended is a report in the folder, and a run
that was interrupted goes on after the last one. `infd drill --judge FILE` judges a report again.
"""

import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

from bench.figures import Figure, at_least, exactly, parser_of, shown
from e2e.deploy import stack
from e2e.helpers.fake_engines import resource_of_stand_ins
from e2e.helpers.faults import kill_container
from e2e.helpers.infd_command import infd
from e2e.helpers.served_deployment import Served
from e2e.load import Fault, Load
from e2e.localkube.network import IpFamily
from inference_operator.cli.drill import DRILLED
from inference_operator.cli.drill.promises import NO_LIMITS, PROMISES
from inference_operator.cli.drill.report import DrillReport as Report
from inference_operator.cli.drill.report import FaultRecord, report_of, verdict

NAME, ENGINES, ROUTERS = "available", 3, 2
RATES = (2, 10, 40)
"""Requests per second of a round: gentle ones, and bursts."""
FAULTS_OF_A_ROUND = 3
KILLS = {Fault.KILL_ENGINE: "engine", Fault.KILL_ROUTER_PROCESS: "router"}
BEFORE, AFTER, KILL_SECONDS = 100, 300, 300
ROUND_SECONDS = 3600
FOLDER = Path(".reports/availability")
ASKED_PERCENT = 99.9
"""Of the requests, as the design documents ask."""


def main(arguments: Sequence[str]) -> int:
    """Measure, and print the figures."""
    parser = parser_of("python -m bench.availability", "Success rate of a service under random faults.")
    long = parser.add_mutually_exclusive_group(required=True)
    long.add_argument("--minutes", type=float)
    long.add_argument("--hours", type=float)
    parser.add_argument("--seed", type=int, default=1, help="of the first round")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="of the reports")
    args = parser.parse_args(arguments)
    seconds = args.hours * 3600 if args.hours else args.minutes * 60
    reports = measured(args.folder, args.seed, seconds)
    for report in reports:
        for finding in verdict(report).findings:
            print(f"seed {report.seed}: {finding}", file=sys.stderr)
    print(shown(list(figures(reports)), args.output))
    return 0


def measured(folder: Path, seed: int, seconds: float) -> list[Report]:
    """The reports of all rounds; those of earlier runs count for their time."""
    folder.mkdir(parents=True, exist_ok=True)
    reports: list[Report] = []
    with stack.tests_cluster(IpFamily.IPV4) as cluster:
        served = Served(cluster, NAME)
        with resource_of_stand_ins(served, replicas=ENGINES, simulated=True):
            stack.wait_ready(cluster, NAME)
            served.await_routers(ROUTERS)
            while sum(map(lasted, reports)) < seconds:
                path = folder / f"{seed}.json"
                if not path.exists():
                    path.write_text(round_of(served, seed).text)
                reports.append(report_of(path.read_text()))
                seed += 1
    return reports


def lasted(report: Report) -> float:
    """Seconds of a round."""
    return max((one.ended for one in report.answers), default=0.0)


def round_of(served: Served, seed: int) -> Report:
    """One round: planned faults by the command, or a kill."""
    random = Random(seed)  # noqa: S311 - which faults
    stack.wait_engines(served.cluster, NAME, ENGINES)
    chosen = random.sample([*DRILLED, *KILLS], FAULTS_OF_A_ROUND)
    if chosen[0] in KILLS:
        return _killed(served, chosen[0], seed, random)
    planned = ",".join(fault for fault in chosen if fault in DRILLED)
    options = ("--yes", "--yes-interrupt", f"--seed={seed}", f"--faults={planned}", f"--rate={random.choice(RATES)}")
    way = (f"--url=http://{served.address}", "--output=json")
    _, out, said = infd(served.cluster, "drill", NAME, *options, *way, seconds=ROUND_SECONDS)
    if not out:
        raise RuntimeError(said)
    return report_of(out)


def _killed(served: Served, fault: Fault, seed: int, random: Random) -> Report:
    load = Load(served.address, NAME)
    load.learn()
    pod = random.choice(sorted(served.pods(KILLS[fault])))
    origin, began = time.monotonic(), time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    with load.phase(fault, at_least=BEFORE, seconds=KILL_SECONDS, pause=0.5) as phase:
        phase.await_answers(BEFORE)
        begin = time.monotonic() - origin
        kill_container(served.cluster, pod)
        phase.mark()
        phase.await_answers(AFTER)
        served.await_routers(ROUTERS)
        stack.wait_engines(served.cluster, NAME, ENGINES)
    answers = [one.since(origin) for one in phase.answers]
    mark = (phase.fault or origin) - origin
    record = FaultRecord(fault, mark, time.monotonic() - origin, f"killed {pod} {begin:.1f} s after the begin")
    return Report("default", NAME, seed, began, 0.0, NO_LIMITS, phase.sent, answers, [record])


def figures(reports: Sequence[Report]) -> Iterator[Figure]:
    """The figures of all rounds."""
    judged = [verdict(report) for report in reports]
    requests, lost = sum(one.requests for one in judged), [found for one in judged for found in one.findings]
    yield Figure("rounds", len(reports), "rounds")
    yield Figure("requests", requests, "requests")
    yield Figure("success", 100 * (1 - len(lost) / max(requests, 1)), "%", at_least(ASKED_PERCENT))
    yield Figure("lost beyond the table", sum(len(one.beyond) for one in judged), "requests", exactly(0))
    yield Figure(
        "faults that did not heal", sum(bool(f.problem) for r in reports for f in r.faults), "faults", exactly(0)
    )
    yield Figure("longest time without an answer", max((one.gap for one in judged), default=0.0), "s")
    for fault in PROMISES:
        if count := sum(record.fault is fault for report in reports for record in report.faults):
            among = sum(found.fault == fault for found in lost)
            yield Figure(f"lost in {count} x {fault}", among, "requests")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
