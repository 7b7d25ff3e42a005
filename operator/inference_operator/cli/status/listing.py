"""`infd list`: the resources of a namespace or of the cluster, what is wrong with them, or their traffic."""

import argparse
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime

from inference_operator.api.reasons import ConditionType, Reason
from inference_operator.api.resource import resource
from inference_operator.cli.cluster_command import ClusterCommand, resources
from inference_operator.cli.live_resource import LiveResource
from inference_operator.cli.output import table
from inference_operator.cli.parser import UsageError, harmless
from inference_operator.cli.status.readings import Reading, readings
from inference_operator.cli.status.report import StatusReport, status_report, words_of
from inference_operator.cli.status.screen import can_watch, show, watch
from inference_operator.cli.status.traffic import TrafficRow, traffic_row, traffic_table
from inference_operator.engines.registry import EngineRegistry
from inference_operator.kube.client import Api
from inference_operator.kube.cluster import KubeCluster
from inference_operator.manifest import Manifest
from inference_operator.views.raw import mapping, objects, timestamp


def run(options: argparse.Namespace, engines: EngineRegistry) -> int:
    if options.name is not None and options.all_namespaces:
        raise UsageError("Give a name, or --all-namespaces.")
    if options.watch and not options.traffic:
        raise UsageError("--watch needs --traffic.")
    can_watch(options)
    return _traffic(options, engines) if options.traffic else _list(options)


def _list(options: argparse.Namespace) -> int:
    async def read(_: Api, cluster: KubeCluster) -> Sequence[Manifest]:
        return await resources(cluster, options)

    found, at = ClusterCommand(options).run(read), datetime.now(UTC)
    reports = sorted((_report(one, at) for one in found), key=lambda one: (one.namespace, one.name))
    if options.output == "json":
        print(json.dumps([_fields(one) for one in reports], indent=2))
    elif reports:
        print(harmless("\n".join(lines(reports, with_namespace=options.all_namespaces))))
        if line := progress_line(found):
            print(f"\n{line}")
    else:
        print(_none(options))
    return 0


def _none(options: argparse.Namespace) -> str:
    where = "any namespace" if options.all_namespaces else f"the namespace `{options.namespace}`"
    return f"There is no InferenceDeployment in {where}. Create one: infd run NAME MODEL"


def _traffic(options: argparse.Namespace, engines: EngineRegistry) -> int:
    async def work(api: Api, cluster: KubeCluster) -> Sequence[TrafficRow]:
        found = readings(api, cluster, options, engines)
        first = await anext(found)
        if options.watch:
            await watch(traffic_table(rows, with_namespace=options.all_namespaces) async for rows in _rows(found))
        return await anext(_rows(found)) if first.now else []

    rows = ClusterCommand(options).run(work)
    if options.output == "json":
        print(json.dumps([asdict(row) for row in rows], indent=2))
    elif rows:
        show(traffic_table(rows, with_namespace=options.all_namespaces))
    else:
        print(_none(options))
    return 0


async def _rows(found: AsyncIterator[Reading]) -> AsyncIterator[Sequence[TrafficRow]]:
    """The numbers of resources that were there at both of two readings."""
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
    told = [f"{counts[reason]} {words}" for reason, words in _PROGRESS.items() if counts[reason]]
    return f"Changes of the operator's settings: of {len(found)}, {', '.join(told)}." if told else ""


def _report(live: Manifest, at: datetime) -> StatusReport:
    created = timestamp(mapping(live, "metadata").get("creationTimestamp"))
    return status_report(LiveResource(resource(live), created=created), at=at)


def _fields(one: StatusReport) -> Manifest:
    names = ("namespace", "name", "source", "ready", "reason", "message", "engines_ready", "gpus", "url", "seconds")
    return {name: getattr(one, name) for name in names}


def lines(reports: Sequence[StatusReport], *, with_namespace: bool) -> Iterator[str]:
    """The table, and below it the message of each resource with something to say."""
    rows = [("NAME", "READY", "ENGINES", "GPUS", "AGE", "MODEL")]
    rows += [
        (
            _name(one, with_namespace=with_namespace),
            "yes" if one.ready and not one.message else f"yes, {one.reason}" if one.ready else f"no, {one.reason}",
            one.engines_ready,
            one.gpus,
            words_of(one.seconds),
            one.source,
        )
        for one in reports
    ]
    yield from table(rows)
    said = [one for one in reports if one.message]
    yield from ("",) if said else ()
    yield from (f"{_name(one, with_namespace=with_namespace)}: {one.message}" for one in said)


def _name(one: StatusReport, *, with_namespace: bool) -> str:
    return f"{one.namespace}/{one.name}" if with_namespace else one.name
