"""`infd status`: one screen about a resource, once or live."""

import argparse
from collections.abc import AsyncIterator
from datetime import UTC, datetime

from inference_operator.cli.cluster_command import ClusterCommand
from inference_operator.cli.live_resource import LiveResource
from inference_operator.cli.output import dumped
from inference_operator.cli.parser import EXIT_REFUSED
from inference_operator.cli.status.readings import Reading, readings
from inference_operator.cli.status.report import StatusReport, status_report
from inference_operator.cli.status.screen import can_watch, screen, show, watch
from inference_operator.engines.registry import EngineRegistry
from inference_operator.kube.client import Api
from inference_operator.kube.cluster import KubeCluster


def run(options: argparse.Namespace, engines: EngineRegistry) -> int:
    can_watch(options)
    _, report = live_report(options, engines)
    show(screen(report, datetime.now(UTC))) if options.output == "table" else print(dumped(report, options.output))
    return 0 if report.ready else EXIT_REFUSED


def live_report(options: argparse.Namespace, engines: EngineRegistry) -> tuple[LiveResource, StatusReport]:
    """A reading and its facts; with `--watch` they are shown, until the resource is deleted."""

    async def work(api: Api, cluster: KubeCluster) -> tuple[LiveResource, StatusReport]:
        found = _reports(readings(api, cluster, options, engines))
        if options.watch:
            await watch(screen(report, datetime.now(UTC)) async for _, report in found)
        return await anext(found)

    return ClusterCommand(options).run(work)


async def _reports(found: AsyncIterator[Reading]) -> AsyncIterator[tuple[LiveResource, StatusReport]]:
    async for reading in found:
        for uid, now in reading.now.items():
            before = reading.before.get(uid)
            yield now, status_report(now, at=datetime.now(UTC), before=before, elapsed=reading.elapsed)
