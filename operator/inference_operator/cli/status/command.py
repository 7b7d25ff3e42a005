"""`infd status`: one screen about a resource, once or live."""

import argparse
import asyncio
import json
import sys
from collections.abc import AsyncIterator
from dataclasses import asdict
from datetime import UTC, datetime

from rich.live import Live

from inference_operator.api.resource import resource
from inference_operator.cli.cluster_command import ClusterCommand
from inference_operator.cli.live_resource import LiveResource, engine_of, live_resource
from inference_operator.cli.parser import EXIT_REFUSED, UsageError
from inference_operator.cli.status.report import StatusReport, status_report
from inference_operator.cli.status.screen import console, screen, show
from inference_operator.engines.registry import EngineRegistry
from inference_operator.kube.client import Api
from inference_operator.kube.cluster import KubeCluster
from inference_operator.manifest import INFERENCE_DEPLOYMENT, Manifest, Ref

BETWEEN_SECONDS = 2.0
"""Between two readings: a shorter time has few requests."""


def run(options: argparse.Namespace, engines: EngineRegistry) -> int:
    if options.watch and (options.output == "json" or not sys.stdout.isatty()):
        raise UsageError("--watch needs a terminal, and no --output=json.")
    return _watched(options, engines) if options.watch else _shown(options, engines)


def _shown(options: argparse.Namespace, engines: EngineRegistry) -> int:
    async def read(api: Api, cluster: KubeCluster, live: Manifest) -> StatusReport:
        return await anext(_reports(api, cluster, live, engines))

    report = ClusterCommand(options).run_for(options.name, read)
    if options.output == "json":
        print(json.dumps(asdict(report), indent=2))
    else:
        show(screen(report, datetime.now(UTC)))
    return 0 if report.ready else EXIT_REFUSED


def _watched(options: argparse.Namespace, engines: EngineRegistry) -> int:
    async def read(api: Api, cluster: KubeCluster, live: Manifest) -> int:
        with Live(console=console(), auto_refresh=False, screen=True) as shown:
            async for report in _reports(api, cluster, live, engines):
                shown.update(screen(report, datetime.now(UTC)), refresh=True)
        print(f"{options.namespace}/{options.name} was deleted.", file=sys.stderr)
        return EXIT_REFUSED

    return ClusterCommand(options).run_for(options.name, read)


async def _reports(
    api: Api, cluster: KubeCluster, live: Manifest, engines: EngineRegistry
) -> AsyncIterator[StatusReport]:
    """A report of each reading, until the resource is deleted."""
    before: LiveResource | None = None
    loop = asyncio.get_running_loop()
    read_at = loop.time()
    ref = Ref(INFERENCE_DEPLOYMENT, live["metadata"]["namespace"], live["metadata"]["name"])
    found: Manifest | None = live
    while found is not None:
        now, last = await live_resource(api, cluster, found, engine_of(resource(found), engines)), read_at
        read_at = loop.time()
        yield status_report(now, at=datetime.now(UTC), before=before, elapsed=read_at - last)
        before = now
        await asyncio.sleep(BETWEEN_SECONDS)
        found = await cluster.get(ref)
