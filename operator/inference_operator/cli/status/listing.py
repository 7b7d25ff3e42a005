"""`infd list`: the resources of a namespace or of the cluster, what is wrong with them, or their traffic."""

import argparse
import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import UTC, datetime

from rich.text import Text

from inference_operator.api.reasons import ConditionType, Reason
from inference_operator.api.resource import resource
from inference_operator.api.status import json_name
from inference_operator.cli.cluster_command import ClusterCommand, none_of, resources
from inference_operator.cli.live_resource import LiveResource
from inference_operator.cli.output import TABLES, Columns, dumped, print_found, table_of
from inference_operator.cli.parser import UsageError
from inference_operator.cli.status.command import BETWEEN_SECONDS, Reading, readings
from inference_operator.cli.status.report import StatusReport, status_report, words_of
from inference_operator.cli.status.screen import can_watch, show, watch
from inference_operator.cli.status.traffic import TrafficRow, traffic_row, traffic_table
from inference_operator.engines.registry import EngineRegistry
from inference_operator.kube.cluster import KubeCluster
from inference_operator.manifest import INFERENCE_DEPLOYMENT, Manifest
from inference_operator.views.raw import mapping, objects, timestamp


def run(options: argparse.Namespace, engines: EngineRegistry) -> int:
    if options.name is not None and (options.all_namespaces or options.selector):
        raise UsageError("Give a name, or --all-namespaces or --selector.")
    can_watch(options)
    return _traffic(options, engines) if options.traffic else _list(options)


def _list(options: argparse.Namespace) -> int:
    async def read(cluster: KubeCluster) -> Sequence[Manifest]:
        if options.watch:
            await watch(_screens(cluster, options))
        return await resources(cluster, options)

    found = ClusterCommand(options).run(read)
    print_found([_fields(one) for one in _reports(found)], options.output, _lines(found, options))
    return 0


async def _screens(cluster: KubeCluster, options: argparse.Namespace) -> AsyncIterator[Text]:
    while True:
        found = await resources(cluster, options)
        yield Text("\n".join(_lines(found, options)))
        await asyncio.sleep(BETWEEN_SECONDS)


def _reports(found: Sequence[Manifest]) -> list[StatusReport]:
    at = datetime.now(UTC)
    created = [timestamp(mapping(live, "metadata").get("creationTimestamp")) for live in found]
    each = zip(map(resource, found), created, strict=True)
    reports = [status_report(LiveResource(one, created=then), at=at) for one, then in each]
    return sorted(reports, key=lambda one: (one.namespace, one.name))


def _none(options: argparse.Namespace) -> str:
    return f"{none_of(INFERENCE_DEPLOYMENT, options)} Create one: infd run NAME MODEL"


def _traffic(options: argparse.Namespace, engines: EngineRegistry) -> int:
    async def work(cluster: KubeCluster) -> Sequence[TrafficRow]:
        found = readings(cluster, options, engines)
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
        print(_none(options))
    return 0


async def _rows(found: AsyncIterator[Reading]) -> AsyncIterator[Sequence[TrafficRow]]:
    async for reading in found:
        at, both = datetime.now(UTC), [(now, reading.before.get(uid)) for uid, now in reading.now.items()]
        rows = [traffic_row(now, before, elapsed=reading.elapsed, at=at) for now, before in both if before]
        yield sorted(rows, key=lambda row: (row.namespace, row.name))


_PROGRESS = {
    Reason.WAITING_FOR_TURN: "wait for their turn",
    Reason.ROLLING_OUT: "replace pods",
    Reason.ROLLOUT_STOPPED: "are not healthy with new pods, so all others wait",
}


def progress_line(found: Sequence[Manifest]) -> str:
    """How far changes of the operator's settings are, in a sentence; empty if they have reached all."""
    conditions = [one for live in found for one in objects(mapping(live, "status"), "conditions")]
    counts = Counter(one.get("reason") for one in conditions if one.get("type") == ConditionType.RENEWED)
    parts = [f"{counts[reason]} {words}" for reason, words in _PROGRESS.items() if counts[reason]]
    return f"Changes of the operator's settings: of {len(found)}, {', '.join(parts)}." if parts else ""


def _fields(one: StatusReport) -> Manifest:
    names = (
        *("namespace", "name", "model", "source", "ready", "reason", "message", "engines_ready", "gpus", "url"),
        *("kind", "context", "seconds"),
    )
    return {json_name(name): getattr(one, name) for name in names}


def _lines(found: Sequence[Manifest], options: argparse.Namespace) -> Iterator[str]:
    if not found:
        yield _none(options)
        return
    yield from lines(_reports(found), with_namespace=options.all_namespaces, wide=options.output == "wide")
    if line := progress_line(found):
        yield from ("", line)


OF_ALL: Columns[StatusReport] = {"NAMESPACE": lambda one: one.namespace}
COLUMNS: Columns[StatusReport] = {
    "NAME": lambda one: one.name,
    "MODEL": lambda one: one.model,
    "READY": lambda one: str(one.ready),
    "REASON": lambda one: one.reason,
    "ENGINES": lambda one: one.engines_ready,
    "GPUS": lambda one: one.gpus,
    "AGE": lambda one: words_of(one.seconds),
}
"""As of `kubectl get infd`, which `api/crd.py` names."""
WIDE: Columns[StatusReport] = {
    "URL": lambda one: one.url,
    "ENGINE": lambda one: one.kind,
    "CONTEXT": lambda one: str(one.context or ""),
    "SOURCE": lambda one: one.source,
}


def lines(reports: Sequence[StatusReport], *, with_namespace: bool, wide: bool = False) -> Iterator[str]:
    columns = {**(OF_ALL if with_namespace else {}), **COLUMNS, **(WIDE if wide else {})}
    yield from table_of(columns, reports)
    said = [one for one in reports if one.message]
    yield from ("",) if said else ()
    yield from (f"{f'{one.namespace}/' if with_namespace else ''}{one.name}: {one.message}" for one in said)
