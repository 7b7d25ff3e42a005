"""Draws the dashboards from a Prometheus: `python -m e2e.router.pictures URL FOLDER --set resource_namespace=default`.

Each panel runs its own queries over a range of time, as Grafana does, and lies where its `gridPos` says. No registry of
packages that this project uses has Grafana's server, so this is how the dashboards are looked at.
"""

import argparse
import asyncio
import json
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import isfinite, nan
from pathlib import Path
from typing import Any

import aiohttp
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, Formatter, FuncFormatter, MaxNLocator, PercentFormatter

FOLDER = Path(__file__).parents[2] / "charts" / "inference-operator" / "files" / "dashboards"
POINTS = 200
"""Of each line; Grafana asks for about one a pixel."""
RANGE_SECONDS, RATE_SECONDS = 3600.0, 120.0
UNIT_INCHES = (0.55, 0.33)
"""Width and height of a unit of Grafana's grid."""
TITLE_INCHES = 0.6
DOTS_PER_INCH = 72
NO_DATA = "No data"
LARGE, SMALL = 20, 8
"""Sizes of text, in points."""
LEGEND_COLUMNS = 4


def _count(unit: str) -> Formatter:
    """Thousands have a prefix, and fractions have none."""
    large = EngFormatter(unit)
    return FuncFormatter(lambda value, _: f"{value:.3g} {unit}" if abs(value) < 1 else large(value))


FORMATTERS: Mapping[str, Formatter] = {
    "reqps": _count("req/s"),
    "ops": _count("ops/s"),
    "s": EngFormatter("s"),
    "d": FuncFormatter(lambda value, _: f"{value:.0f} days"),
    "percent": PercentFormatter(100),
    "percentunit": FuncFormatter(lambda value, _: f"{100 * value:.3g} %"),
    "short": _count(""),
}
"""By the name that Grafana has for a unit."""


@dataclass(frozen=True, slots=True)
class Span:
    """A range of time: its end in seconds since 1970, its length, and the window of rates."""

    end: float
    seconds: float = RANGE_SECONDS
    rate_seconds: float = RATE_SECONDS

    @property
    def step(self) -> float:
        """Between two points, in seconds."""
        return self.seconds / POINTS


@dataclass(frozen=True, slots=True)
class Line:
    """A series of a panel: values by seconds since 1970."""

    legend: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Source:
    """A Prometheus, and what the variables of dashboards stand for."""

    session: aiohttp.ClientSession
    url: str
    variables: Mapping[str, str]

    async def lines(self, panel: Mapping[str, Any], span: Span) -> list[Line]:
        """The series of all queries of a panel; fails if a query is invalid."""
        return [line for target in panel["targets"] for line in await self._series(target, span)]

    async def _series(self, target: Mapping[str, str], span: Span) -> list[Line]:
        query = target["expr"].replace("$__rate_interval", f"{span.rate_seconds:.0f}s")
        for name, value in {"cluster": ".*", **self.variables}.items():
            query = query.replace(f"${name}", value)
        within = {"start": span.end - span.seconds, "end": span.end, "step": span.step}
        async with self.session.post(f"{self.url}/api/v1/query_range", data={"query": query, **within}) as answer:
            content = await answer.json()
        if content["status"] != "success":
            raise ValueError(f"{query}: {content['error']}")
        form = target["legendFormat"].replace("{{", "{").replace("}}", "}")
        found = [
            Line(form.format_map(defaultdict(str, one["metric"])), [(at, float(text)) for at, text in one["values"]])
            for one in content["data"]["result"]
        ]
        return [line for line in found if any(isfinite(value) for _, value in line.points)]


async def draw(source: Source, dashboard: Path, picture: Path, span: Span) -> Mapping[str, Sequence[Line]]:
    """Draw one dashboard as a PNG; returns the lines of each panel by its title."""
    content = json.loads(await asyncio.to_thread(dashboard.read_text, encoding="utf-8"))
    panels = content["panels"]
    lines = {panel["title"]: await source.lines(panel, span) for panel in panels}
    wide = max(panel["gridPos"]["x"] + panel["gridPos"]["w"] for panel in panels) * UNIT_INCHES[0]
    high = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in panels) * UNIT_INCHES[1] + TITLE_INCHES
    figure = Figure(figsize=(wide, high), dpi=DOTS_PER_INCH, facecolor="white")
    chosen = ", ".join(f"{name}={value}" for name, value in source.variables.items())
    figure.text(0.01, 1 - TITLE_INCHES / 2 / high, f"{content['title']}   {chosen}", va="center", weight="bold")
    for panel in panels:
        axes = figure.add_axes(_rectangle(panel["gridPos"], wide, high))
        axes.set_title(panel["title"], loc="left", fontsize=SMALL + 2, weight="bold")
        kind = panel["type"] if lines[panel["title"]] else NO_DATA
        KINDS[kind](axes, panel, lines[panel["title"]], span)
    figure.savefig(picture)
    return lines


def with_gaps(points: Sequence[tuple[float, float]], step: float) -> Iterator[tuple[float, float]]:
    """The points of a line, with one that is no number wherever a step has no value: Grafana draws a gap there."""
    for point, (following, _) in zip(points, [*points[1:], points[-1]], strict=True):
        yield point
        if following - point[0] > 1.5 * step:
            yield point[0] + step, nan


def _rectangle(grid: Mapping[str, int], wide: float, high: float) -> tuple[float, float, float, float]:
    """The axes of a panel, with room for its title, scales and legend, as shares of the figure."""
    left, right, top, bottom = 0.75, 0.15, 0.35, 0.75
    x, y = grid["x"] * UNIT_INCHES[0], TITLE_INCHES + grid["y"] * UNIT_INCHES[1]
    width, height = grid["w"] * UNIT_INCHES[0], grid["h"] * UNIT_INCHES[1]
    return (
        (x + left) / wide,
        1 - (y + height - bottom) / high,
        (width - left - right) / wide,
        (height - top - bottom) / high,
    )


def _no_data(axes: Axes, panel: Mapping[str, Any], _: Sequence[Line], __: Span) -> None:
    axes.set_axis_off()
    text = panel["fieldConfig"]["defaults"].get("noValue", NO_DATA)
    axes.text(0.5, 0.5, text, ha="center", va="center", color="grey", transform=axes.transAxes)


def _graph(axes: Axes, panel: Mapping[str, Any], lines: Sequence[Line], span: Span) -> None:
    for line in lines:
        points = list(with_gaps(line.points, span.step))
        axes.plot([_day(at) for at, _ in points], [value for _, value in points], label=line.legend, linewidth=1.2)
    defaults = panel["fieldConfig"]["defaults"]
    axes.set_ylim(bottom=defaults.get("min"), top=defaults.get("max"))
    axes.yaxis.set_major_formatter(FORMATTERS[defaults["unit"]])
    if defaults.get("decimals") == 0:
        axes.set_ylim(top=max(1, axes.get_ylim()[1]))
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(visible=True, color="#e4e4e4")
    _time_axis(axes, span)
    axes.legend(
        loc="upper left", bbox_to_anchor=(0, -0.14), ncols=LEGEND_COLUMNS, fontsize=SMALL, frameon=False, borderpad=0
    )


def _numbers(axes: Axes, panel: Mapping[str, Any], lines: Sequence[Line], _: Span) -> None:
    """The last value of each line, in the colour of its threshold."""
    axes.set_axis_off()
    defaults = panel["fieldConfig"]["defaults"]
    for number, line in enumerate(lines):
        at, value = (number + 0.5) / len(lines), line.points[-1][1]
        steps = defaults["thresholds"]["steps"]
        colour = [step["color"] for step in steps if step["value"] is None or value >= step["value"]][-1]
        text = FORMATTERS[defaults["unit"]](value)
        axes.text(
            at,
            0.6,
            text,
            size=LARGE,
            color=COLOURS.get(colour, colour),
            ha="center",
            va="center",
            transform=axes.transAxes,
        )
        axes.text(at, 0.15, line.legend, size=SMALL, ha="center", va="center", transform=axes.transAxes)


def _states(axes: Axes, _: Mapping[str, Any], lines: Sequence[Line], span: Span) -> None:
    """A row for each line, drawn while it has a value."""
    width = _day(span.end) - _day(span.end - span.step)
    for row, line in enumerate(lines):
        axes.broken_barh([(_day(at), width) for at, _ in line.points], (row - 0.4, 0.8), color=f"C{row % 10}")
    axes.set_yticks(range(len(lines)), [""] * len(lines))
    for row, line in enumerate(lines):
        axes.text(0.01, row, line.legend, size=SMALL, va="center", transform=axes.get_yaxis_transform())
    axes.invert_yaxis()
    _time_axis(axes, span)


def _time_axis(axes: Axes, span: Span) -> None:
    axes.set_xlim(_day(span.end - span.seconds), _day(span.end))
    axes.xaxis.set_major_locator(locator := AutoDateLocator(maxticks=6))
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator, show_offset=False))
    axes.tick_params(labelsize=SMALL)


def _day(seconds: float) -> float:
    return float(date2num(datetime.fromtimestamp(seconds, UTC)))


COLOURS = {"text": "black"}
"""Names of Grafana that matplotlib does not know: `text` is the colour of text in the user's theme."""
KINDS = {"timeseries": _graph, "stat": _numbers, "table": _numbers, "state-timeline": _states, NO_DATA: _no_data}


async def _main(options: argparse.Namespace) -> None:
    span = Span(time.time(), options.seconds, options.rate_seconds)
    async with aiohttp.ClientSession() as session:
        source = Source(session, options.url.rstrip("/"), dict(one.split("=", 1) for one in options.set))
        for dashboard in sorted(FOLDER.glob("*.json")):
            picture = options.folder / f"{dashboard.stem}.png"
            await draw(source, dashboard, picture, span)
            print(picture)


def main(arguments: Sequence[str]) -> int:
    """Draw all dashboards."""
    parser = argparse.ArgumentParser(prog="python -m e2e.router.pictures", description="Draw the dashboards as PNG.")
    parser.add_argument("url", help="of Prometheus")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a variable of dashboards")
    parser.add_argument("--seconds", type=float, default=RANGE_SECONDS, help="from then until now (default: 3600)")
    parser.add_argument("--rate-seconds", type=float, default=RATE_SECONDS, help="the window of rates (default: 120)")
    asyncio.run(_main(parser.parse_args(arguments)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
