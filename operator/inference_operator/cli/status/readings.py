"""Readings of resources that follow one another: for rates, and for screens that live."""

import argparse
import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

from inference_operator.cli.cluster_command import resources
from inference_operator.cli.live_resource import LiveResource, live_resource
from inference_operator.cli.parser import RefusedError, UsageError
from inference_operator.engines.registry import EngineRegistry
from inference_operator.kube.client import Api
from inference_operator.kube.cluster import KubeCluster
from inference_operator.manifest import Manifest

BETWEEN_SECONDS = 2.0
"""Between two readings: a shorter time has few requests."""
AT_ONCE = 4
"""Resources that are read at once, each with `PAGES_AT_ONCE` requests."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Resources by their uids, as they are and as they were in the reading before, of which the first has none."""

    now: Mapping[str, LiveResource]
    before: Mapping[str, LiveResource]
    elapsed: float
    """Seconds between the two."""


async def readings(
    api: Api, cluster: KubeCluster, options: argparse.Namespace, engines: EngineRegistry
) -> AsyncIterator[Reading]:
    """Raises `RefusedError` once the resource that is named was deleted."""
    few, loop = asyncio.Semaphore(AT_ONCE), asyncio.get_running_loop()
    before: Mapping[str, LiveResource] = {}
    read_at = loop.time()

    async def read(live: Manifest) -> LiveResource:
        async with few:
            return await live_resource(api, cluster, live, engines)

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
