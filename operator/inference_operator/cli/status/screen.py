"""The screen of `infd status`, and the console that prints screens: colour and wrapping only on a terminal."""

import sys
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from inference_operator.cli.parser import harmless
from inference_operator.cli.status.listing import seconds_since, words_of
from inference_operator.cli.status.report import PodLine, StatusReport, Traffic
from inference_operator.sentences import counted
from inference_operator.views.raw import timestamp

UNBOUND_COLUMNS = 1000
"""Width of lines that no terminal shows: programs read them, so nothing is wrapped."""
GOOD, BAD, DIM, BOLD = "green", "red", "dim", "bold"


def console() -> Console:
    return Console(highlight=False, width=None if sys.stdout.isatty() else UNBOUND_COLUMNS)


@dataclass(frozen=True, slots=True)
class Harmless:
    """What is shown, whose texts bring a terminal nothing to carry out: only rich's own styles and moves do."""

    shown: RenderableType

    def __rich_console__(self, to: Console, options: ConsoleOptions) -> Iterator[Segment]:
        for segment in to.render(self.shown, options):
            yield segment if segment.control else Segment(harmless(segment.text), segment.style)


def show(shown: RenderableType) -> None:
    """Print to standard output. Where programs may read it, no line ends with the spaces that fill it up."""
    to = console()
    with to.capture() as captured:
        to.print(Harmless(shown))
    print("\n".join(line.rstrip(" ") for line in captured.get().splitlines()))


async def watch(screens: AsyncIterator[RenderableType]) -> None:
    """Show screens in place of each other; one that is text has no markup."""
    with Live(console=console(), auto_refresh=False, screen=True) as shown:
        async for screen_now in screens:
            shown.update(Harmless(Text(screen_now) if isinstance(screen_now, str) else screen_now), refresh=True)


def screen(report: StatusReport, at: datetime) -> RenderableType:
    """One screen: what is wrong first, then the plan, traffic, pods, adapters and Events."""
    return Group(*_blocks(report, at))


def _blocks(report: StatusReport, at: datetime) -> Iterator[RenderableType]:
    yield _head(report)
    if report.message:
        yield Text(report.message, style="" if report.ready else BAD)
    yield Text()
    yield _facts(report)
    if report.engines:
        yield from _table(
            ("ENGINE", "STATE", "REQUESTS", "NODE", "AGE"), _tree(report.engines, lambda pod: (pod.requests, pod.node))
        )
    if report.routers:
        yield from _table(("ROUTER", "STATE", "NODE", "AGE"), _tree(report.routers, lambda pod: (pod.node,)))
    if report.adapters:
        yield from _table(("ADAPTER", "PHASE", "ENGINES", "MESSAGE"), (map(Text, row) for row in report.adapters))
    if report.events:
        rows = ((words_of(seconds_since(timestamp(one.at), at)), one.reason, one.note) for one in report.events)
        yield from _table(("AGO", "EVENT", "NOTE"), (map(Text, row) for row in rows))


def _head(report: StatusReport) -> Text:
    state = "Ready" if report.ready else f"not ready: {report.reason}"
    found = Text.assemble((report.name, BOLD), "  ", (state, GOOD if report.ready else BAD))
    if report.ready and report.message:
        found.append(f" ({report.reason})")
    return found


def _facts(report: StatusReport) -> RenderableType:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style=DIM, no_wrap=True)
    grid.add_column(overflow="fold")
    for name, lines in (
        ("Namespace", (f"{report.namespace}, {words_of(report.seconds)} old",)),
        ("Model", (report.source,)),
        ("URL", (report.url, *report.external_urls)),
        ("Gateways", report.gateways),
        ("Plan", report.plan),
        ("Engine", (report.engine,)),
        ("Traffic", tuple(_traffic(report.traffic)) if report.traffic else (report.no_traffic,)),
        ("Scaling", report.scaling),
    ):
        for index, line in enumerate(filter(None, lines)):
            grid.add_row("" if index else name, Text(line))
    return grid


def _traffic(traffic: Traffic) -> Iterator[str]:
    yield f"{traffic.running:,} run, {traffic.queued:,} queued, {traffic.held:,} held"
    total = f"{counted(traffic.requests, 'request')} since its routers started"
    rate = total if traffic.per_second is None else f"{traffic.per_second:,.1f} requests/s"
    half, most = traffic.first_byte_half, traffic.first_byte_most
    streams = f", first byte of streams: p50 {half:g} s, p95 {most:g} s" if half and most else ""
    yield rate + streams


def _tree(pods: Sequence[PodLine], more: Callable[[PodLine], Iterable[str]]) -> Iterator[Sequence[Text]]:
    """The rows of pods; during a rollout those of each pod template below one line, the newest first."""
    youngest = {pod.template: pod.seconds or 0 for pod in sorted(pods, key=lambda pod: -(pod.seconds or 0))}
    if len(youngest) < 2:  # noqa: PLR2004 - a rollout has two templates
        yield from (_cells(pod.name, pod, more(pod)) for pod in pods)
        return
    for index, template in enumerate(sorted(youngest, key=lambda template: youngest[template])):
        same = [pod for pod in pods if pod.template == template]
        yield [Text(f"{'old' if index else 'new'}: {sum(pod.ready for pod in same)}/{len(same)} ready", style=BOLD)]
        for pod in same:
            yield _cells(f"{'└─' if pod is same[-1] else '├─'} {pod.name}", pod, more(pod))


def _cells(name: str, pod: PodLine, more: Iterable[str]) -> Sequence[Text]:
    state = Text(pod.state, style=GOOD if pod.ready else "")
    return [Text(name), state, *map(Text, more), Text(words_of(pod.seconds))]


def _table(titles: Sequence[str], rows: Iterable[Iterable[Text]]) -> Iterator[RenderableType]:
    yield Padding(text_table(titles, rows, unbroken=titles[:1]), (1, 0, 0, 0))


def text_table(titles: Iterable[str], rows: Iterable[Iterable[Text]], *, unbroken: Collection[str]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style=DIM, pad_edge=False)
    for title in titles:
        table.add_column(title, no_wrap=title in unbroken, overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table
