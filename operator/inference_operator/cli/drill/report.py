"""What a drill found: its report, the verdict, and its page. Pure: a report can be judged again."""

import json
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

from inference_operator.api.json_names import json_name
from inference_operator.cli.bench.levels import quantile
from inference_operator.cli.drill.promises import CheckedAnswer, Fault, Limits, Loss, beyond, longest_gap
from inference_operator.cli.output import table
from inference_operator.cli.parser import UsageError, harmless

FORM = 2
MEDIAN, TAIL = 0.5, 0.99
NO_FAULT = "no fault"
SHOWN = 20
"""Lost requests on the page; the JSON has all."""


@dataclass(frozen=True, slots=True)
class FaultRecord:
    """One fault; times in seconds since the drill began."""

    fault: Fault
    begin: float
    end: float
    what: str
    problem: str = ""
    gone: float | None = None
    """When the processes that it killed were gone: later requests meet only others. None: it began at once."""

    @property
    def noticed(self) -> float:
        return self.begin if self.gone is None else self.gone

    def meets(self, answer: CheckedAnswer) -> bool:
        return self.begin <= answer.ended and answer.started <= self.end

    def since(self, origin: float) -> "FaultRecord":
        gone = None if self.gone is None else self.gone - origin
        return replace(self, begin=self.begin - origin, end=self.end - origin, gone=gone)


@dataclass(frozen=True, slots=True)
class Skipped:
    fault: Fault
    why: str


@dataclass(frozen=True, slots=True)
class DrillReport:
    namespace: str
    name: str
    seed: int
    began: str
    """RFC 3339."""
    rate: float
    limits: Limits
    sent: int
    """Requests, with the numbers below it."""
    answers: Sequence[CheckedAnswer]
    """Times in seconds since the drill began."""
    faults: Sequence[FaultRecord] = ()
    skipped: Sequence[Skipped] = ()
    unlogged: Collection[str] = ()
    logs: str = ""
    """Why the logs of routers were not looked into; empty if they were."""
    route: str = ""
    form: int = FORM


def report_of(text: str) -> DrillReport:
    try:
        raw = json.loads(text)
        if raw["form"] != FORM:
            raise UsageError(f"--judge: this report has the form {raw['form']}, and this release judges {FORM}.")
        raw["limits"] = _value(Limits, raw["limits"])
        answers = [{**one, "loss": one["loss"] and Loss(one["loss"])} for one in raw["answers"]]
        raw["answers"] = [_value(CheckedAnswer, one) for one in answers]
        raw["faults"] = [_value(FaultRecord, {**one, "fault": Fault(one["fault"])}) for one in raw["faults"]]
        raw["skipped"] = [_value(Skipped, {**one, "fault": Fault(one["fault"])}) for one in raw["skipped"]]
        raw.pop("verdict", None)
        return _value(DrillReport, raw)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UsageError(f"--judge: this is no report of `infd drill -o json`: {error!r}") from error


_T = TypeVar("_T")


def _value(kind: type[_T], raw: dict[str, Any]) -> _T:
    names = {json_name(field.name): field.name for field in fields(kind)}  # type: ignore[arg-type]
    return kind(**{names[name]: value for name, value in raw.items()})


@dataclass(frozen=True, slots=True)
class LostRequest:
    at: float
    """When it was lost, in seconds since the drill began."""
    number: int
    fault: str
    cause: str
    allowed: bool


@dataclass(frozen=True, slots=True)
class Span:
    name: str
    begin: float
    seconds: float
    requests: int
    lost: int
    p50: float | None
    p99: float | None


@dataclass(frozen=True, slots=True)
class Verdict:
    requests: int
    rejected: int
    findings: Sequence[LostRequest] = ()
    gap: float = 0.0
    """The longest time without a right answer."""
    spans: Sequence[Span] = ()

    @property
    def beyond(self) -> Sequence[LostRequest]:
        return [one for one in self.findings if not one.allowed]


def verdict(report: DrillReport) -> Verdict:
    """Judge a report: each request ends in exactly one whole answer, or in an error that the router's log has."""
    answers = sorted(report.answers, key=lambda one: one.ended)
    return Verdict(
        requests=report.sent,
        rejected=sum(one.rejected for one in answers),
        findings=tuple(sorted(_findings(report, answers), key=lambda one: one.at)),
        gap=longest_gap(answers),
        spans=tuple(_spans(report, answers)),
    )


def _findings(report: DrillReport, answers: Sequence[CheckedAnswer]) -> Iterator[LostRequest]:
    for one in answers:
        during = next((fault for fault in reversed(report.faults) if fault.meets(one)), None)
        fault, begin = (during.fault, during.noticed) if during else (None, None)
        is_told = bool(one.request_id) and one.request_id not in report.unlogged
        if one.loss:
            allowed = not beyond(fault, [one], begin, report.limits) and (one.loss is not Loss.STATUS or is_told)
            yield LostRequest(one.ended, one.number, fault or NO_FAULT, _cause(one, report), allowed)
        elif one.rejected and not is_told:
            cause = "429 with an ID that no router's log has" if one.request_id else "429 without an ID"
            yield LostRequest(one.ended, one.number, fault or NO_FAULT, cause, allowed=False)
    count, last = Counter(one.number for one in answers), max((one.ended for one in answers), default=0.0)
    for number in range(report.sent):
        if count[number] != 1:
            cause = f"{count[number]} answers" if count[number] else "no answer"
            yield LostRequest(last, number, NO_FAULT, cause, allowed=False)


def _cause(answer: CheckedAnswer, report: DrillReport) -> str:
    unlogged = " (in no router's log)" if answer.request_id in report.unlogged else ""
    status = f" {answer.status}" if answer.loss is Loss.STATUS else ""
    return f"{answer.loss}{status}{unlogged} {answer.request_id} {' '.join(answer.detail.split())}".strip()


def _spans(report: DrillReport, answers: Sequence[CheckedAnswer]) -> Iterator[Span]:
    last = max((one.ended for one in answers), default=0.0)
    first = min((one.begin for one in report.faults), default=last)
    healed = max((one.end for one in report.faults), default=last)
    yield _span("before", 0.0, first, [one for one in answers if one.ended < first])
    for fault in report.faults:
        yield _span(fault.fault, fault.begin, fault.end, list(filter(fault.meets, answers)))
    if report.faults:
        yield _span("after", healed, max(last, healed), [one for one in answers if one.started > healed])


def _span(name: str, begin: float, end: float, answers: Sequence[CheckedAnswer]) -> Span:
    times = [one.seconds for one in answers if one.ok]
    lost = sum(one.loss is not None for one in answers)
    return Span(name, begin, end - begin, len(answers), lost, quantile(times, MEDIAN), quantile(times, TAIL))


def unseen(report: DrillReport) -> Sequence[Fault]:
    """The faults during which no request was answered or lost: they prove nothing. A 429 has reached no engine."""
    seen = [one for one in report.answers if not one.rejected]
    return [fault.fault for fault in report.faults if not any(map(fault.meets, seen))]


def is_proven(report: DrillReport, judged: Verdict) -> bool:
    """Whether requests went on during each fault, none was lost beyond the promises, and each fault healed."""
    healed = report.faults and not any(one.problem for one in report.faults)
    return bool(healed) and not judged.beyond and not unseen(report)


def page(report: DrillReport, judged: Verdict, columns: int) -> Iterator[str]:
    yield from (harmless(line)[:columns].rstrip() for line in _lines(report, judged))


def _lines(report: DrillReport, judged: Verdict) -> Iterator[str]:
    lost = len(judged.findings)
    yield f"Drill of {report.namespace}/{report.name}: {report.began}, seed {report.seed}, {report.rate:g} requests/s"
    yield (
        f"{judged.requests:,} requests, {lost:,} lost, {len(judged.beyond):,} of them beyond what is promised,"
        f" {judged.rejected:,} rejected"
    )
    yield f"longest time without an answer: {judged.gap:.1f} s"
    if report.route:
        yield f"requests went {report.route}"
    yield ""
    yield from table([("SPAN", "AT", "TOOK", "REQUESTS", "LOST", "P50", "P99"), *map(_row, judged.spans)])
    for one in judged.findings[:SHOWN]:
        allowed = "allowed" if one.allowed else "LOST"
        yield f"{one.at:+.1f} s  {one.fault}  {allowed}  request {one.number}: {one.cause}"
    if lost > SHOWN:
        yield f"and {lost - SHOWN:,} more"
    yield ""
    for fault in report.faults:
        yield f"{fault.fault}: {fault.what}{f'; NOT HEALED: {fault.problem}' if fault.problem else ''}"
    for skipped in report.skipped:
        yield f"not done: {skipped.fault}: {skipped.why}"
    if report.logs:
        yield f"not checked: {report.logs}"
    yield verdict_words(report, judged)


def verdict_words(report: DrillReport, judged: Verdict) -> str:
    if not report.faults:
        return "Nothing is proven: there was no fault."
    if is_proven(report, judged):
        return "As promised: no request was lost beyond docs/explanation/scope.md, and each fault healed."
    if (without := unseen(report)) and not judged.beyond:
        return f"Not proven: no request was answered during {', '.join(without)}."
    return "Not as promised."


def _row(span: Span) -> Sequence[str]:
    times = [f"{value:.2f}s" if value is not None else "-" for value in (span.p50, span.p99)]
    return span.name, f"{span.begin:.1f}s", f"{span.seconds:.1f}s", str(span.requests), str(span.lost), *times
