"""`infd bench`: loads one service step by step until its latency objective is broken."""

import argparse
import shutil
import sys
from collections.abc import Iterable, Iterator

from plotille import Figure

from inference_operator.api.resource import Resource, resource
from inference_operator.cli.bench.levels import BenchLoad, BenchReport, LevelResult, at_once, goal_of
from inference_operator.cli.chat.answers import AnswerBrokenError, AnswerRefusedError
from inference_operator.cli.chat.client import refusal_words, served_model, service_client
from inference_operator.cli.chat.command import cannot_answer, no_ready_engine
from inference_operator.cli.cluster_command import ClusterCommand, is_agreed
from inference_operator.cli.output import Columns, document, dumped, shown
from inference_operator.cli.parser import EXIT_REFUSED, RefusedError, UsageError
from inference_operator.kube.cluster import KubeCluster
from inference_operator.manifest import Manifest
from inference_operator.sentences import counted


def run(options: argparse.Namespace) -> int:
    if not options.yes and not sys.stdin.isatty():
        raise UsageError("It loads a live service. Add --yes, because there is no terminal to ask at.")

    async def work(cluster: KubeCluster, live: Manifest) -> int:
        found = resource(live)
        if problem := cannot_answer(found) or ("" if found.status.ready_replicas else no_ready_engine(found.key.name)):
            raise RefusedError(problem)
        name = f"{found.key.namespace}/{found.key.name} ({counted(found.status.ready_replicas, 'engine')})"
        question = f"This loads {name} until its objective is broken. Its users get slower answers.\nGo on?"
        if not options.yes and not await is_agreed(question):
            raise RefusedError("Nothing was sent.")
        return await _measure(cluster, found, options)

    return ClusterCommand(options).run_for(options.name, work)


async def _measure(cluster: KubeCluster, found: Resource, options: argparse.Namespace) -> int:
    model = options.model or served_model(found)
    async with service_client(cluster, found, options.key_from, keeps_connections=True) as client:
        load = BenchLoad(client, model, options.prompt_tokens, options.max_tokens, options.seconds)
        try:
            await load.warm_up()
        except AnswerRefusedError as error:
            raise RefusedError(refusal_words(error, found, model)) from error
        except (AnswerBrokenError, TimeoutError) as error:  # no answer at all
            name = found.key.name
            raise RefusedError(f"{name} did not answer the first request. `infd status {name}` shows more.") from error
        return await _rise(load, found, options)


async def _rise(load: BenchLoad, found: Resource, options: argparse.Namespace) -> int:
    goal, levels = goal_of(found), []
    as_table = options.output == "table"
    if as_table:
        print(aligned(COLUMNS), flush=True)
    async for level in load.levels(goal, options.max_concurrency):
        levels.append(level)
        if as_table:
            print(row(level), flush=True)
    broken = levels[-1].broken(goal)
    stopped = f"with {at_once(levels[-1].concurrency)}, {broken}" if broken else "--max-concurrency is reached"
    report = BenchReport(
        found.key.namespace, found.key.name, goal, options.prompt_tokens, options.max_tokens, tuple(levels), stopped
    )
    _print(report, options.output)
    return 0 if report.best else EXIT_REFUSED


def _print(report: BenchReport, form: str) -> None:
    if form != "table":
        best = report.best
        print(dumped(document(report) | {"bestConcurrency": best.concurrency if best else None}, form))
        return
    if sys.stdout.isatty() and (text := plot(report, shutil.get_terminal_size().columns)):
        print(f"\n{text}")
    print("", *verdict(report), sep="\n")


COLUMNS: Columns[LevelResult] = {
    "AT ONCE": lambda level: f"{level.concurrency:,}",
    "REQ/S": lambda level: f"{level.requests_per_second:,.2f}",
    "TOKENS/S": lambda level: f"{level.tokens_per_second:,.0f}",
    "TTFT P50": lambda level: shown(level.ttft_p50_seconds, "{:,.2f}s"),
    "TTFT P95": lambda level: shown(level.ttft_p95_seconds, "{:,.2f}s"),
    "ITL P50": lambda level: shown(level.itl_p50_seconds and 1000 * level.itl_p50_seconds, "{:,.0f}ms"),
    "ITL P95": lambda level: shown(level.itl_p95_seconds and 1000 * level.itl_p95_seconds, "{:,.0f}ms"),
    "FAILED": lambda level: f"{level.failed:,}",
}
PLOT_ROWS = 12
AXIS_COLUMNS = 21
FEW_LEVELS = 2


def aligned(cells: Iterable[str]) -> str:
    return "".join(cell.rjust(max(9, len(title) + 1)) for cell, title in zip(cells, COLUMNS, strict=True))[1:]


def row(level: LevelResult) -> str:
    return aligned(cell(level) for cell in COLUMNS.values())


def verdict(report: BenchReport) -> Iterator[str]:
    goal, best = report.objective, report.best
    wanted = f"TTFT {goal.ttft:g} s, {1000 * goal.tpot:g} ms per output token, p{goal.percentile}"
    if best is None:
        yield f"{report.name} does not meet its objective ({wanted}): {report.stopped}."
        return
    yield (
        f"{report.name} meets its objective ({wanted}) with {at_once(best.concurrency)}:"
        f" {best.requests_per_second:,.2f} requests/s, {best.tokens_per_second:,.0f} tokens/s."
    )
    yield f"Stopped: {report.stopped}."


def plot(report: BenchReport, columns: int) -> str:
    """TTFT over the number of requests at once, with the objective; empty with one level."""
    times = ((level.concurrency, level.ttft_objective_seconds) for level in report.levels)
    shown = [(at, seconds) for at, seconds in times if seconds is not None]
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
    lines = [line.replace("()", "").rstrip() for line in figure.show().splitlines()]  # the labels of the axes
    goal = report.objective
    title = f"TTFT P{goal.percentile} in seconds over requests at once, and the objective of {goal.ttft:g} s:"
    return "\n".join((title, *lines))


def _label(value: float, chars: int, delta: float, left: bool = False) -> str:  # noqa: ARG001, FBT001, FBT002 - the library's
    return f"{value:.3g}".ljust(chars) if left else f"{value:.3g}".rjust(chars)
