"""`infd status`: one screen about a resource, once or live; and readings that follow one another, for rates."""

import argparse
import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from inference_operator.cli.cluster_command import ClusterCommand, resources
from inference_operator.cli.live_resource import LiveResource, live_resource
from inference_operator.cli.output import can_watch, dumped
from inference_operator.cli.parser import EXIT_REFUSED, RefusedError, UsageError
from inference_operator.cli.status.listing import BETWEEN_SECONDS
from inference_operator.cli.status.report import StatusReport, status_report
from inference_operator.cli.status.screen import screen, show, watch
from inference_operator.engines.registry import ENGINES
from inference_operator.kube.cluster import KubeCluster
from inference_operator.manifest import Manifest

AT_ONCE = 4
"""Resources that are read at once, each with `PAGES_AT_ONCE` requests."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Resources by their uids, as they are and as they were in the reading before, of which the first has none."""

    now: Mapping[str, LiveResource]
    before: Mapping[str, LiveResource]
    elapsed: float
    """Seconds between the two."""


async def readings(cluster: KubeCluster, options: argparse.Namespace) -> AsyncIterator[Reading]:
    """Raises `RefusedError` once the resource that is named was deleted."""
    few, loop = asyncio.Semaphore(AT_ONCE), asyncio.get_running_loop()
    before: Mapping[str, LiveResource] = {}
    read_at = loop.time()

    async def read(live: Manifest) -> LiveResource:
        async with few:
            return await live_resource(cluster, live, options.engines or ENGINES)

    while True:
        try:
            found = await resources(cluster, options)
        except UsageError as error:
            raise (RefusedError(f"{options.namespace}/{options.name} was deleted.") if before else error) from None
        now = {reading.found.uid: reading for reading in await asyncio.gather(*map(read, found))}
        last, read_at = read_at, loop.time()
        yield Reading(now, before, read_at - last)
        before = now
        await asyncio.sleep(BETWEEN_SECONDS)


def run(options: argparse.Namespace) -> int:
    can_watch(options)
    _, report = live_report(options)
    show(screen(report, datetime.now(UTC))) if options.output == "table" else print(dumped(report, options.output))
    return 0 if report.ready else EXIT_REFUSED


def live_report(options: argparse.Namespace) -> tuple[LiveResource, StatusReport]:
    """A reading and its facts; with `--watch` they are shown, until the resource is deleted."""

    async def work(cluster: KubeCluster) -> tuple[LiveResource, StatusReport]:
        found = _reports(readings(cluster, options))
        if options.watch:
            await watch(screen(report, datetime.now(UTC)) async for _, report in found)
        return await anext(found)

    return ClusterCommand(options).run(work)


async def _reports(found: AsyncIterator[Reading]) -> AsyncIterator[tuple[LiveResource, StatusReport]]:
    async for reading in found:
        for uid, now in reading.now.items():
            before = reading.before.get(uid)
            yield now, status_report(now, at=datetime.now(UTC), before=before, elapsed=reading.elapsed)
