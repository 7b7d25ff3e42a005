"""The traffic of resources in numbers: `infd list --traffic`."""

import argparse
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from rich.console import Group, RenderableType
from rich.text import Text

from inference_operator.cli.cluster_command import ClusterCommand
from inference_operator.cli.live_resource import LiveResource
from inference_operator.cli.output import NOTHING, TABLES, Columns, dumped, shown
from inference_operator.cli.status.command import Reading, readings
from inference_operator.cli.status.listing import check, nothing_found
from inference_operator.cli.status.report import status_report
from inference_operator.cli.status.screen import show, text_table, watch
from inference_operator.kube.cluster import KubeCluster
from inference_operator.sentences import first_of

MOST_NAMES = 3


@dataclass(frozen=True, slots=True)
class TrafficRow:
    namespace: str
    name: str
    engines_ready: str
    requests_per_second: float | None
    running: int | None
    """Requests at engines that are not in their queues: by the engines; else by the routers, which see no queue."""
    queued: int | None
    """Requests that wait: in routers, for an engine to start, and in the queues of engines."""
    ttft_p50_seconds: float | None
    ttft_p95_seconds: float | None
    tokens_per_second: float | None
    kv_cache_usage: float | None
    """Used part of the KV cache of the fullest engine, from 0 to 1."""
    no_traffic: str = ""


OF_ALL: Columns[TrafficRow] = {"NAMESPACE": lambda row: row.namespace}
COLUMNS: Columns[TrafficRow] = {
    "NAME": lambda row: row.name,
    "ENGINES": lambda row: row.engines_ready or NOTHING,
    "REQ/S": lambda row: shown(row.requests_per_second, "{:,.1f}"),
    "RUN": lambda row: shown(row.running),
    "WAIT": lambda row: shown(row.queued),
    "TTFT50": lambda row: shown(row.ttft_p50_seconds, "{:g}s"),
    "TTFT95": lambda row: shown(row.ttft_p95_seconds, "{:g}s"),
    "TOK/S": lambda row: shown(row.tokens_per_second, "{:,.0f}"),
    "KV": lambda row: shown(row.kv_cache_usage, "{:.0%}"),
}


def run(options: argparse.Namespace) -> int:
    check(options)

    async def work(cluster: KubeCluster) -> Sequence[TrafficRow]:
        found = readings(cluster, options)
        first = await anext(found)
        if options.watch:
            await watch(traffic_table(rows, with_namespace=options.all_namespaces) async for rows in _rows(found))
        return await anext(_rows(found)) if first.now else []

    rows = ClusterCommand(options).run(work)
    if options.output not in TABLES:
        print(dumped(rows, options.output))
    elif rows:
        show(traffic_table(rows, with_namespace=options.all_namespaces))
    else:
        print(nothing_found(options))
    return 0


async def _rows(found: AsyncIterator[Reading]) -> AsyncIterator[Sequence[TrafficRow]]:
    async for reading in found:
        at, both = datetime.now(UTC), [(now, reading.before.get(uid)) for uid, now in reading.now.items()]
        rows = [traffic_row(now, before, elapsed=reading.elapsed, at=at) for now, before in both if before]
        yield sorted(rows, key=lambda row: (row.namespace, row.name))


def traffic_row(now: LiveResource, before: LiveResource, *, elapsed: float, at: datetime) -> TrafficRow:
    report = status_report(now, at=at, before=before, elapsed=elapsed)
    traffic, loads = report.traffic, now.loads.values()
    engines = [one.sample for one in now.samples.engines.values()]
    in_routers = [traffic.queued, traffic.held] if traffic else []
    return TrafficRow(
        namespace=report.namespace,
        name=report.name,
        engines_ready=report.engines_ready,
        requests_per_second=traffic.per_second if traffic else None,
        running=sum(one.running for one in engines) if engines else traffic.running if traffic else None,
        queued=sum((*(one.waiting for one in engines), *in_routers)) if engines or traffic else None,
        ttft_p50_seconds=traffic.first_byte_half if traffic else None,
        ttft_p95_seconds=traffic.first_byte_most if traffic else None,
        tokens_per_second=_tokens_per_second(now, before, elapsed),
        kv_cache_usage=max((load.cache_usage for load in loads), default=None),
        no_traffic=report.no_traffic,
    )


def _tokens_per_second(now: LiveResource, before: LiveResource, elapsed: float) -> float | None:
    """Tokens of all engines that were there at both readings."""
    both = [(load.generated, before.loads[uid].generated) for uid, load in now.loads.items() if uid in before.loads]
    grown = [new - old for new, old in both if new is not None and old is not None]
    return sum(max(0, one) for one in grown) / elapsed if grown and elapsed > 0 else None


def traffic_table(rows: Sequence[TrafficRow], *, with_namespace: bool) -> RenderableType:
    columns = {**(OF_ALL if with_namespace else {}), **COLUMNS}
    cells = ([Text(cell(row)) for cell in columns.values()] for row in rows)
    table = text_table(columns, cells, unbroken=[*columns][1 + with_namespace :])
    silent: dict[str, list[str]] = {}
    for row in rows:
        silent.setdefault(row.no_traffic, []).append(row.name)
    reasons = [Text(f"{first_of(names, MOST_NAMES)}: {cause}.") for cause, names in silent.items() if cause]
    return Group(table, Text(), *reasons) if reasons else table
