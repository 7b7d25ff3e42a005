"""`infd top`: the traffic of resources in numbers, once or live."""

import argparse
import asyncio
import json
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime

from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from inference_operator.api.resource import resource
from inference_operator.cli.cluster_command import ClusterCommand
from inference_operator.cli.live_resource import LiveResource, engine_of, live_resource
from inference_operator.cli.parser import UsageError, harmless
from inference_operator.cli.status_screen import DIM, console, show
from inference_operator.cli.top_rows import TopRow, lines, notes, top_row
from inference_operator.engines.registry import EngineRegistry
from inference_operator.kube.client import Api
from inference_operator.kube.cluster import KubeCluster
from inference_operator.manifest import INFERENCE_DEPLOYMENT, Manifest, Ref

BETWEEN_SECONDS = 2.0
"""Between two readings, as in `infd status`."""
AT_ONCE = 4
"""Resources that are read at once, each with `PAGES_AT_ONCE` requests."""


def run(options: argparse.Namespace, engines: EngineRegistry) -> int:
    """Print the numbers."""
    if options.name and options.all_namespaces:
        raise UsageError("Give a name, or --all-namespaces.")
    if options.watch and (options.output == "json" or not sys.stdout.isatty()):
        raise UsageError("--watch needs a terminal, and no --output=json.")

    async def every(api: Api, cluster: KubeCluster) -> int:
        return await _show(_rows(api, cluster, options, engines), options)

    async def one(api: Api, cluster: KubeCluster, _: Manifest) -> int:
        return await every(api, cluster)

    command = ClusterCommand(options)
    return command.run_for(options.name, one) if options.name else command.run(every)


async def _show(found: AsyncIterator[Sequence[TopRow]], options: argparse.Namespace) -> int:
    if options.watch:
        with Live(console=console(), auto_refresh=False, screen=True) as shown:
            async for rows in found:
                shown.update(top_table(rows, with_namespace=options.all_namespaces), refresh=True)
    rows = await anext(found)
    if options.output == "json":
        print(json.dumps([asdict(one) for one in rows], indent=2))
    elif rows:
        show(top_table(rows, with_namespace=options.all_namespaces))
    else:
        print("There is no InferenceDeployment here. Create one: infd run NAME MODEL")
    return 0


def top_table(rows: Sequence[TopRow], *, with_namespace: bool) -> RenderableType:
    """The table, names left and numbers right."""
    titles, *cells = lines(rows, with_namespace=with_namespace)
    table = Table(box=None, padding=(0, 2, 0, 0), header_style=DIM, pad_edge=False)
    for number, title in enumerate(titles):
        is_name = number <= with_namespace
        table.add_column(title, justify="left" if is_name else "right", no_wrap=not is_name, overflow="fold")
    for row in cells:
        table.add_row(*(Text(harmless(cell)) for cell in row))
    reasons = [Text(note) for note in notes(rows)]
    return Group(table, Text(), *reasons) if reasons else table


async def _rows(
    api: Api, cluster: KubeCluster, options: argparse.Namespace, engines: EngineRegistry
) -> AsyncIterator[Sequence[TopRow]]:
    """The numbers of each two readings that follow one another."""
    loop = asyncio.get_running_loop()
    before, read_at = await _readings(api, cluster, options, engines), loop.time()
    while True:
        await asyncio.sleep(BETWEEN_SECONDS if before or options.watch else 0)
        now, last, read_at = await _readings(api, cluster, options, engines), read_at, loop.time()
        at = datetime.now(UTC)
        yield [top_row(one, before[uid], elapsed=read_at - last, at=at) for uid, one in now.items() if uid in before]
        before = now


async def _readings(
    api: Api, cluster: KubeCluster, options: argparse.Namespace, engines: EngineRegistry
) -> dict[str, LiveResource]:
    """A reading of each resource, by its uid."""
    if options.name:
        live = await cluster.get(Ref(INFERENCE_DEPLOYMENT, options.namespace, options.name))
        if live is None:
            raise UsageError(f"{options.namespace}/{options.name} was deleted.")
        found = [live]
    else:
        namespace = None if options.all_namespaces else options.namespace
        found = [one async for one in cluster.each(INFERENCE_DEPLOYMENT, namespace=namespace)]
    few = asyncio.Semaphore(AT_ONCE)

    async def reading(live: Manifest) -> LiveResource:
        async with few:
            return await live_resource(api, cluster, live, engine_of(resource(live), engines))

    read = await asyncio.gather(*map(reading, found))
    return {one.found.uid: one for one in read}
