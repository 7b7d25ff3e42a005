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
from math import inf, isfinite, nan
from pathlib import Path
from typing import Any

import aiohttp
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import EngFormatter, Formatter, FuncFormatter, MaxNLocator, PercentFormatter
from PIL import Image

FOLDER = Path(__file__).parents[2] / "charts" / "inference-operator" / "files" / "dashboards"
POINTS = 200
"""Of each line; Grafana asks for about one a pixel."""
RANGE_SECONDS, RATE_SECONDS = 3600.0, 120.0
UNIT_INCHES = (0.55, 0.33)
"""Width and height of a unit of Grafana's grid."""
TITLE_INCHES, GAP_INCHES = 0.6, 0.06
DOTS_PER_INCH = 72
NO_DATA = "No data"
LARGE, SMALL = 20, 8
"""Sizes of text, in points."""
LEGEND_COLUMNS, LONG_LEGEND = 4, 24
"""Legends of more letters stand in half as many columns."""
MARK_SHARE = 0.1
"""Height of the name of an annotation, as a share of a graph."""
COLOURS_KEPT = 64
"""Of a picture: a third of the bytes."""
PALETTE = ("#73bf69", "#5794f2", "#f2cc0c", "#ff780a", "#f2495c", "#b877d9", "#8ab8ff", "#37872d")
"""Colours of lines, as in Grafana's classic palette."""
PAGE, GRID, MARK = "#f4f5f5", "#e4e4e4", "#5794f2"
"""Colours of the page, of the lines of a graph's grid, and of annotations."""
ANNOTATED = "[2m]"
"""The window in which an annotation sees a change; in pictures it is that of rates."""


def _count(unit: str) -> Formatter:
    """Thousands have a prefix, and fractions have none."""
    large = EngFormatter(unit)
    return FuncFormatter(lambda value, _: f"{value:.3g} {unit}" if abs(value) < 1 else large(value))


FORMATTERS: Mapping[str, Formatter] = {
    "reqps": _count("req/s"),
    "ops": _count("ops/s"),
    "cps": _count("c/s"),
    "Bps": _count("B/s"),
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
    of: str = ""
    """The InferenceDeployment, for a row of a table."""


@dataclass(frozen=True, slots=True)
class Source:
    """A Prometheus, and what the variables of dashboards stand for."""

    session: aiohttp.ClientSession
    url: str
    variables: Mapping[str, str]

    async def lines(self, panel: Mapping[str, Any], span: Span) -> list[Line]:
        """The series of all queries of a panel; fails if a query is invalid."""
        found = [(one["expr"], one["legendFormat"]) for one in panel["targets"]]
        return [line for query, form in found for line in await self.series(query, form, span)]

    async def series(self, query: str, form: str, span: Span) -> list[Line]:
        """The series of a query, with legends of this form."""
        query = query.replace("$__rate_interval", f"{span.rate_seconds:.0f}s")
        for name, value in {"cluster": ".*", **self.variables}.items():
            query = query.replace(f"${name}", value)
        within = {"start": span.end - span.seconds, "end": span.end, "step": span.step}
        async with self.session.post(f"{self.url}/api/v1/query_range", data={"query": query, **within}) as answer:
            content = await answer.json()
        if content["status"] != "success":
            raise ValueError(f"{query}: {content['error']}")
        form = form.replace("{{", "{").replace("}}", "}")
        found = [
            Line(
                form.format_map(defaultdict(str, one["metric"])).strip(),
                [(at, float(text)) for at, text in one["values"]],
                "{resource_namespace}/{name}".format_map(defaultdict(str, one["metric"])),
            )
            for one in content["data"]["result"]
        ]
        return [line for line in found if any(isfinite(value) for _, value in line.points)]


async def draw(
    source: Source, dashboard: Path, picture: Path, span: Span, *, below: int | None = None
) -> Mapping[str, Sequence[Line]]:
    """Draw one dashboard as a PNG; returns the lines of each panel by its title.

    Args:
        source: answers the queries.
        dashboard: the file that Grafana imports.
        picture: is written.
        span: the time that is shown.
        below: leaves out panels that begin at this place of Grafana's grid or below.
    """
    content = json.loads(await asyncio.to_thread(dashboard.read_text, encoding="utf-8"))
    panels = [panel for panel in content["panels"] if below is None or panel["gridPos"]["y"] < below]
    lines = {panel["title"]: await source.lines(panel, span) for panel in panels}
    marks = [
        line
        for one in content.get("annotations", {"list": []})["list"]
        for line in await source.series(one["expr"].replace(ANNOTATED, "[$__rate_interval]"), one["titleFormat"], span)
    ]
    wide = max(panel["gridPos"]["x"] + panel["gridPos"]["w"] for panel in panels) * UNIT_INCHES[0]
    high = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in panels) * UNIT_INCHES[1] + TITLE_INCHES
    figure = Figure(figsize=(wide, high), dpi=DOTS_PER_INCH, facecolor=PAGE)
    chosen = ", ".join(f"{name}={value}" for name, value in source.variables.items())
    figure.text(0.01, 1 - TITLE_INCHES / 2 / high, f"{content['title']}   {chosen}", va="center", weight="bold")
    for panel in panels:
        figure.add_artist(_card(panel["gridPos"], wide, high))
        axes = figure.add_axes(_rectangle(panel["gridPos"], wide, high))
        axes.set_prop_cycle(color=PALETTE)
        axes.set_title(panel["title"], loc="left", fontsize=SMALL + 2, weight="bold")
        kind = panel["type"] if lines[panel["title"]] else NO_DATA
        KINDS[kind](axes, panel, lines[panel["title"]], span)
        if kind == "timeseries":
            _mark(axes, marks, span)
    figure.savefig(picture)
    Image.open(picture).convert("RGB").quantize(COLOURS_KEPT).save(picture, optimize=True)
    return lines


def _card(grid: Mapping[str, int], wide: float, high: float) -> Rectangle:
    """The white ground of a panel."""
    x, y = grid["x"] * UNIT_INCHES[0] + GAP_INCHES, TITLE_INCHES + grid["y"] * UNIT_INCHES[1]
    width, height = grid["w"] * UNIT_INCHES[0] - 2 * GAP_INCHES, grid["h"] * UNIT_INCHES[1] - GAP_INCHES
    return Rectangle((x / wide, 1 - (y + height) / high), width / wide, height / high, color="white", zorder=-1)


def _mark(axes: Axes, marks: Sequence[Line], span: Span) -> None:
    """Annotations: a strip as long as each lasts, with its name at the begin."""
    for row, mark in enumerate(marks):
        for begin, end in _runs([at for at, _ in mark.points], 1.5 * span.step):
            axes.axvspan(_day(begin), _day(end + span.step), color=MARK, alpha=0.12, linewidth=0)
            axes.axvline(_day(begin), color=MARK, linestyle="--", linewidth=0.8)
            place, high = axes.get_xaxis_transform(), 0.99 - row * MARK_SHARE
            axes.text(_day(begin), high, f" {mark.legend}", transform=place, va="top", size=SMALL - 2, color=MARK)


def _runs(times: Sequence[float], gap: float) -> Iterator[tuple[float, float]]:
    """The first and the last of the times that follow each other without a gap."""
    begin = None
    for at, following in zip(times, [*times[1:], inf], strict=True):
        begin = at if begin is None else begin
        if following - at > gap:
            yield begin, at
            begin = None


def with_gaps(points: Sequence[tuple[float, float]], step: float) -> Iterator[tuple[float, float]]:
    """The points of a line, with one that is no number wherever a step has no value: Grafana draws a gap there."""
    for point, (following, _) in zip(points, [*points[1:], points[-1]], strict=True):
        yield point
        if following - point[0] > 1.5 * step:
            yield point[0] + step, nan


def _rectangle(grid: Mapping[str, int], wide: float, high: float) -> tuple[float, float, float, float]:
    """The axes of a panel, with room for its title, scales and legend, as shares of the figure."""
    left, right, top, bottom = 0.85, 0.25, 0.35, 0.75
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
    axes.grid(visible=True, color=GRID)
    axes.set_frame_on(False)
    axes.tick_params(length=0)
    _time_axis(axes, span)
    columns = LEGEND_COLUMNS // (1 + any(len(line.legend) > LONG_LEGEND for line in lines))
    axes.legend(loc="upper left", bbox_to_anchor=(0, -0.14), ncols=columns, fontsize=SMALL, frameon=False, borderpad=0)


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


def _table(axes: Axes, panel: Mapping[str, Any], lines: Sequence[Line], _: Span) -> None:
    """A row for each InferenceDeployment, with the last value of each query."""
    axes.set_axis_off()
    units = {
        one["matcher"]["options"]: one["properties"][0]["value"]
        for one in panel["fieldConfig"]["overrides"]
        if one["properties"][0]["id"] == "unit"
    }
    columns = [one["legendFormat"] for one in panel["targets"]]
    last = {
        (line.of, line.legend): FORMATTERS[units.get(line.legend, "short")](float(f"{line.points[-1][1]:.3g}"))
        for line in lines
    }
    rows = sorted({line.of for line in lines})
    cells = [[row, *(last.get((row, column), "") for column in columns)] for row in rows]
    widths = [1 / (len(columns) + 2)] * (len(columns) + 1)
    head = ["Name", *columns]
    table = axes.table(cells, colLabels=head, colWidths=widths, loc="upper left", cellLoc="left", edges="horizontal")
    table.auto_set_font_size(value=False)
    table.set_fontsize(SMALL + 1)
    table.scale(1, 1.6)


def _states(axes: Axes, _: Mapping[str, Any], lines: Sequence[Line], span: Span) -> None:
    """A row for each line, drawn while it has a value."""
    width = _day(span.end) - _day(span.end - span.step)
    for row, line in enumerate(lines):
        axes.broken_barh(
            [(_day(at), width) for at, _ in line.points], (row - 0.4, 0.8), color=PALETTE[row % len(PALETTE)]
        )
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
KINDS = {"timeseries": _graph, "stat": _numbers, "table": _table, "state-timeline": _states, NO_DATA: _no_data}


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
