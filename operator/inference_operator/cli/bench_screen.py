"""The screen of `infd bench`: a row for each level, a plot on a terminal, and the verdict."""

from collections.abc import Iterator, Sequence

from plotille import Figure

from inference_operator.cli.bench_levels import BenchReport, LevelResult, at_once

NOTHING = "-"
COLUMNS = ("AT ONCE", "REQ/S", "TOKENS/S", "TTFT P50", "TTFT P95", "ITL P50", "ITL P95", "FAILED")
WIDTHS = tuple(max(9, len(title) + 1) for title in COLUMNS)
PLOT_ROWS = 12
AXIS_COLUMNS = 21
"""Of a plot: the labels of its vertical axis, and a margin."""
FEW_LEVELS = 2
"""With fewer there is no line to plot."""


def titles() -> str:
    """The titles of the columns."""
    return _line(COLUMNS)


def row(level: LevelResult) -> str:
    """The line of a level.

    Examples:
        >>> row(LevelResult(4, 20.0, 9, 0, 0.45, 60.0, 0.2, 2.5, 0.01, 0.03, 0.012))
        '       4     0.45       60    0.20s    2.50s     10ms     30ms        0'
    """
    return _line(
        (
            f"{level.concurrency:,}",
            f"{level.requests_per_second:,.2f}",
            f"{level.tokens_per_second:,.0f}",
            _seconds(level.ttft_p50_seconds),
            _seconds(level.ttft_p95_seconds),
            _milliseconds(level.itl_p50_seconds),
            _milliseconds(level.itl_p95_seconds),
            f"{level.failed:,}",
        )
    )


def verdict(report: BenchReport) -> Iterator[str]:
    """What the levels mean."""
    goal, best = report.objective, report.best
    wanted = f"TTFT {goal.ttft:g} s for 95 of 100 requests, {1000 * goal.tpot:g} ms per output token"
    if best is None:
        yield f"{report.name} does not keep its objective ({wanted}): {report.stopped}."
        return
    yield (
        f"{report.name} keeps its objective ({wanted}) with {at_once(best.concurrency)}:"
        f" {best.requests_per_second:,.2f} requests/s, {best.tokens_per_second:,.0f} tokens/s."
    )
    yield f"Stopped: {report.stopped}."


def plot(report: BenchReport, columns: int) -> str:
    """TTFT over the number of requests at once, with the objective; empty with one level."""
    shown = [
        (level.concurrency, level.ttft_p95_seconds) for level in report.levels if level.ttft_p95_seconds is not None
    ]
    if len(shown) < FEW_LEVELS:
        return ""
    figure = Figure()
    figure.width, figure.height = max(20, columns - AXIS_COLUMNS), PLOT_ROWS
    figure.x_label, figure.y_label, figure.with_colors = "", "", False
    most = shown[-1][0]
    figure.set_x_limits(min_=0, max_=most)
    figure.set_y_limits(min_=0, max_=1.1 * max(report.objective.ttft, *(seconds for _, seconds in shown)))
    figure.register_label_formatter(float, _label)
    figure.register_label_formatter(int, _label)
    figure.plot([at for at, _ in shown], [seconds for _, seconds in shown])
    figure.plot([0, most], [report.objective.ttft] * 2)
    drawn: str = figure.show()
    lines = [line.replace("()", "").rstrip() for line in drawn.splitlines()]  # the labels of the axes
    title = f"TTFT P95 in seconds over requests at once, and the objective of {report.objective.ttft:g} s:"
    return "\n".join((title, *lines))


def _label(value: float, chars: int, delta: float, left: bool = False) -> str:  # noqa: ARG001, FBT001, FBT002 - the library's
    return f"{value:.3g}".ljust(chars) if left else f"{value:.3g}".rjust(chars)


def _line(cells: Sequence[str]) -> str:
    return "".join(cell.rjust(width) for cell, width in zip(cells, WIDTHS, strict=True))[1:]


def _seconds(value: float | None) -> str:
    return NOTHING if value is None else f"{value:,.2f}s"


def _milliseconds(value: float | None) -> str:
    return NOTHING if value is None else f"{1000 * value:,.0f}ms"
