"""Success rate of a service and of a gateway before it under faults at random, judged by the table of `infd drill`.

    python -m bench.availability --minutes 20 | --hours 2 [--seed N] [--folder FOLDER] [--write] [--output text|json]

Two nodes (needs root), three simulated engines behind two routers, and a gateway with TLS and keys. Each round causes
some faults (`e2e.helpers.fault_bed`), under gentle load or bursts at both addresses; its seed decides all of it. A
round that ended is a report in the folder, and a run that was interrupted goes on after the last one. `--write` writes
the table of docs/explanation/testing.md.
"""

import asyncio
import json
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from random import Random

import aiohttp

from bench.figures import Figure, at_least, exactly, parser_of, shown
from e2e.deploy.stack import ROOT
from e2e.helpers.fault_bed import FaultBed, fault_bed
from inference_operator.cli.drill.completion import Question
from inference_operator.cli.drill.load import LoadPhase, NumberedLoad
from inference_operator.cli.drill.promises import NO_LIMITS, CheckedAnswer, Fault, longest_gap
from inference_operator.cli.drill.report import NO_FAULT, DrillReport, FaultRecord, report_of, verdict
from inference_operator.cli.output import document

ADDRESSES = ("service", "gateway")
RATES = (2, 10, 20)
"""Requests per second at each address: gentle ones, and bursts."""
FAULTS_OF_A_ROUND = 3
CALM_SECONDS = 3.0
REQUEST_SECONDS = 330.0
"""Routers hold a request for 300 s at most."""
RETRY_SECONDS = 0.5
"""Until a client asks once more; the `openai` package waits as long (`_constants.py`, INITIAL_RETRY_DELAY)."""
FOLDER = Path(".reports/availability")
PAGE = ROOT / "docs" / "explanation" / "testing.md"
MARK, END = "<!-- Written by `python -m bench.availability --write` -->\n", "<!-- To here -->\n"
ASKED_PERCENT = 99.9
"""Of the requests, as the design documents ask."""


def main(arguments: Sequence[str]) -> int:
    """Measure, and print the figures."""
    parser = parser_of("python -m bench.availability", "Success rate of a service under random faults.")
    long = parser.add_mutually_exclusive_group(required=True)
    long.add_argument("--minutes", type=float)
    long.add_argument("--hours", type=float)
    parser.add_argument("--seed", type=int, default=1, help="of faults and load")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="of the reports")
    parser.add_argument("--write", action="store_true", help=f"the table into {PAGE.name}")
    args = parser.parse_args(arguments)
    rounds = measured(args.folder, args.seed, args.hours * 3600 if args.hours else args.minutes * 60)
    for finding in findings(rounds):
        print(finding, file=sys.stderr)
    if args.write:
        (before, _, rest), lines = PAGE.read_text().partition(MARK), "".join(f"{line}\n" for line in table(rounds))
        PAGE.write_text(f"{before}{MARK}{lines}{END}{rest.partition(END)[2]}")
    print(shown(list(figures(rounds)), args.output))
    return 0


@dataclass(frozen=True, slots=True)
class Round:
    """A report for each address, and the second tries of requests that were lost there."""

    reports: Sequence[DrillReport]
    again: Sequence[DrillReport]

    @property
    def text(self) -> str:
        return json.dumps([[document(one) for one in reports] for reports in (self.reports, self.again)])

    @classmethod
    def of(cls, text: str) -> "Round":
        return cls(*([report_of(json.dumps(one)) for one in reports] for reports in json.loads(text)))

    @property
    def seconds(self) -> float:
        return max(one.ended for report in self.reports for one in report.answers)


def measured(folder: Path, seed: int, seconds: float) -> Sequence[Round]:
    """All rounds; those of earlier runs count for their time."""
    folder.mkdir(parents=True, exist_ok=True)
    rounds: list[Round] = []
    with fault_bed() as bed:
        while sum(one.seconds for one in rounds) < seconds:
            path = folder / f"{seed}-{len(rounds)}.json"
            if not path.exists():
                path.write_text(round_of(bed, seed, len(rounds)).text)
            rounds.append(Round.of(path.read_text()))
    return rounds


def faults(seed: int) -> Iterator[Fault]:
    """All in an order of the seed, and again in another one."""
    random = Random(seed)  # noqa: S311 - which faults
    while True:
        yield from random.sample(list(Fault), len(Fault))


def round_of(bed: FaultBed, seed: int, number: int) -> Round:
    """One round: a few faults under load, which is another one during each."""
    first, random = number * FAULTS_OF_A_ROUND, Random(f"{seed}-{number}")  # noqa: S311 - pods and rates
    bed.await_healed()
    loads = [RetryingLoad(f"http://{bed.served.address}", bed.served.name)]
    loads.append(RetryingLoad(f"https://{bed.gateway_address}", bed.served.name, bed.key))
    began, origin = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), time.monotonic()
    records: list[FaultRecord] = []
    with ExitStack() as until:
        phases = [until.enter_context(load.sent()) for load in loads]
        for fault in islice(faults(seed), first, first + FAULTS_OF_A_ROUND):
            for phase in phases:
                phase.rate = random.choice(RATES)
            time.sleep(CALM_SECONDS)
            record = bed.caused(fault, random).since(origin)
            records.append(record)
            took = f"{record.end - record.begin:.0f} s"
            print(f"{fault}: {record.what} {record.problem}, {took}", file=sys.stderr, flush=True)
        time.sleep(CALM_SECONDS)

    def report(name: str, sent: int, answers: Sequence[CheckedAnswer]) -> DrillReport:
        found = [one.since(origin) for one in answers]
        return DrillReport("default", name, seed, began, RATES[0], NO_LIMITS, sent, found, records)

    return Round(
        [report(name, phase.sent, phase.answers) for name, phase in zip(ADDRESSES, phases, strict=True)],
        [report(name, len(load.again), load.again) for name, load in zip(ADDRESSES, loads, strict=True)],
    )


class RetryingLoad(NumberedLoad):
    """A load whose clients ask once more where a request is lost; second answers are apart."""

    def __init__(self, url: str, model: str, key: str = "") -> None:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        run = f"bench-{'gateway' if key else 'service'}"
        super().__init__(url, model, request_seconds=REQUEST_SECONDS, headers=headers, connectors=unverified, run=run)
        self.again: list[CheckedAnswer] = []

    async def _answer(self, session: aiohttp.ClientSession, question: Question, kept: bool) -> CheckedAnswer:  # noqa: FBT001
        answer = await super()._answer(session, question, kept)
        if answer.loss:
            await asyncio.sleep(RETRY_SECONDS)
            retried = replace(question, request_id=f"{question.request_id}-again")
            again = await super()._answer(session, retried, kept)
            self.again.append(replace(again, number=len(self.again)))
        return answer

    @contextmanager
    def sent(self) -> Iterator[LoadPhase]:
        """The phase of the block; all its requests are answered after it."""

        async def send() -> None:
            await self.learn_traits()
            await self.send(phase)

        phase = LoadPhase(rate=RATES[0])
        with ThreadPoolExecutor(1) as pool:
            sending = pool.submit(asyncio.run, send())
            try:
                yield phase
            finally:
                phase.stopped = True
        sending.result()


def unverified(kept: bool) -> aiohttp.BaseConnector:  # noqa: FBT001 - as `tcp`
    return aiohttp.TCPConnector(limit=0, force_close=not kept, ssl=False)


def findings(rounds: Sequence[Round]) -> Iterator[str]:
    """What was lost, and what did not heal."""
    for number, one in enumerate(rounds):
        for report in one.reports:
            for found in verdict(report).findings:
                allowed = "allowed" if found.allowed else "LOST"
                yield f"round {number}, {report.name}, {found.at:.1f} s, {found.fault}: {allowed}: {found.cause}"
        for fault in one.reports[0].faults:
            if fault.problem:
                yield f"round {number}, {fault.begin:.1f} s, {fault.fault}: NOT HEALED: {fault.problem}"


@dataclass(frozen=True, slots=True)
class Row:
    """What all faults of a kind did, at both addresses."""

    fault: str
    times: int
    requests: int
    lost: int
    beyond: int
    twice: int
    """Lost for a client that asks once more."""
    gap: float


def rows(rounds: Sequence[Round]) -> Iterator[Row]:
    """A row for each fault that occurred."""
    reports = [report for one in rounds for report in one.reports]
    found = [one for report in reports for one in verdict(report).findings]
    twice = [one for round_ in rounds for report in round_.again for one in verdict(report).findings]
    for fault in (*Fault, NO_FAULT):
        during = [(report, record) for report in reports for record in report.faults if record.fault == fault]
        lost = [one for one in found if one.fault == fault]
        if not during and not lost:
            continue
        spans = [[one for one in r.answers if f.begin <= one.ended and one.started <= f.end] for r, f in during]
        yield Row(
            fault,
            len(during) // len(ADDRESSES),
            sum(map(len, spans)),
            len(lost),
            sum(not one.allowed for one in lost),
            sum(one.fault == fault for one in twice),
            max(map(longest_gap, spans), default=0.0),
        )


def table(rounds: Sequence[Round]) -> Iterator[str]:
    """The table of the page, with what it is of."""
    reports = [report for one in rounds for report in one.reports]
    requests, lost = sum(one.sent for one in reports), sum(len(verdict(one).findings) for one in reports)
    minutes, first = sum(one.seconds for one in rounds) / 60, reports[0]
    answered = f"{requests - lost:,} of {requests:,} requests answered"
    yield f"{first.began[:10]}, seed {first.seed}, {minutes:.0f} minutes: {answered}."
    yield ""
    yield "| fault | times | requests during it | lost | beyond the table | lost with one retry | longest gap |"
    yield "|---|---|---|---|---|---|---|"
    for row in rows(rounds):
        counts = f"{row.times or ''} | {row.requests:,} | {row.lost} | {row.beyond} | {row.twice}"
        yield f"| {row.fault} | {counts} | {row.gap:.1f} s |"


def figures(rounds: Sequence[Round]) -> Iterator[Figure]:
    """The figures of all rounds."""
    for place, name in enumerate(ADDRESSES):
        judged = [verdict(one.reports[place]) for one in rounds]
        requests, lost = sum(one.requests for one in judged), sum(len(one.findings) for one in judged)
        yield Figure(f"{name}: requests", requests, "requests")
        yield Figure(f"{name}: success", 100 * (1 - lost / max(requests, 1)), "%", at_least(ASKED_PERCENT))
        yield Figure(f"{name}: lost beyond the table", sum(len(one.beyond) for one in judged), "requests", exactly(0))
        twice = sum(len(verdict(one.again[place]).findings) for one in rounds)
        yield Figure(f"{name}: lost with one retry", twice, "requests", exactly(0))
        yield Figure(f"{name}: longest time without an answer", max(one.gap for one in judged), "s")
    records = [record for one in rounds for record in one.reports[0].faults]
    yield Figure("faults", len(records), "faults")
    yield Figure("faults that did not heal", sum(bool(one.problem) for one in records), "faults", exactly(0))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
