"""`infd list`: the resources of a namespace or of the cluster, and what is wrong with them."""

import argparse
import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import UTC, datetime

from inference_operator.api.reasons import ConditionType, Reason
from inference_operator.cli.cluster_command import ClusterCommand, none_of, resources
from inference_operator.cli.main import named
from inference_operator.cli.output import Columns, can_watch, print_found, table_of
from inference_operator.cli.parser import UsageError
from inference_operator.cli.status.summary import Summary, summary, words_of
from inference_operator.kube.cluster import KubeCluster
from inference_operator.manifest import INFERENCE_DEPLOYMENT, Manifest
from inference_operator.views.raw import mapping, objects

BETWEEN_SECONDS = 2.0
"""Between two readings: a shorter time has few requests."""


def check(options: argparse.Namespace) -> None:
    if options.name is not None and (options.all_namespaces or options.selector):
        raise UsageError("Give a name, or --all-namespaces or --selector.")
    can_watch(options)


def run(options: argparse.Namespace) -> int:
    check(options)

    async def read(cluster: KubeCluster) -> Sequence[Manifest]:
        if options.watch:
            await named("status.screen:watch")(_screens(cluster, options))
        return await resources(cluster, options)

    found = ClusterCommand(options).run(read)
    print_found(_summaries(found), options.output, _lines(found, options))
    return 0


async def _screens(cluster: KubeCluster, options: argparse.Namespace) -> AsyncIterator[str]:
    while True:
        found = await resources(cluster, options)
        yield "\n".join(_lines(found, options))
        await asyncio.sleep(BETWEEN_SECONDS)


def _summaries(found: Sequence[Manifest]) -> list[Summary]:
    at = datetime.now(UTC)
    return sorted((summary(live, at) for live in found), key=lambda one: (one.namespace, one.name))


def nothing_found(options: argparse.Namespace) -> str:
    return f"{none_of(INFERENCE_DEPLOYMENT, options)} Create one: infd run NAME MODEL"


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


def _lines(found: Sequence[Manifest], options: argparse.Namespace) -> Iterator[str]:
    if not found:
        yield nothing_found(options)
        return
    yield from lines(_summaries(found), with_namespace=options.all_namespaces, wide=options.output == "wide")
    if line := progress_line(found):
        yield from ("", line)


OF_ALL: Columns[Summary] = {"NAMESPACE": lambda one: one.namespace}
COLUMNS: Columns[Summary] = {
    "NAME": lambda one: one.name,
    "MODEL": lambda one: one.model,
    "READY": lambda one: str(one.ready),
    "REASON": lambda one: one.reason,
    "ENGINES": lambda one: one.engines_ready,
    "GPUS": lambda one: one.gpus,
    "AGE": lambda one: words_of(one.seconds),
}
"""As of `kubectl get infd`, which `api/crd.py` names."""
WIDE: Columns[Summary] = {
    "URL": lambda one: one.url,
    "ENGINE": lambda one: one.kind,
    "CONTEXT": lambda one: str(one.context or ""),
    "SOURCE": lambda one: one.source,
}


def lines(found: Sequence[Summary], *, with_namespace: bool, wide: bool = False) -> Iterator[str]:
    columns = {**(OF_ALL if with_namespace else {}), **COLUMNS, **(WIDE if wide else {})}
    yield from table_of(columns, found)
    said = [one for one in found if one.message]
    yield from ("",) if said else ()
    yield from (f"{f'{one.namespace}/' if with_namespace else ''}{one.name}: {one.message}" for one in said)
