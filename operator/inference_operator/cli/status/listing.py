"""`infd list`: resources and what is wrong with them, from their raw objects: the API's models take time to import."""

import argparse
import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from inference_operator.api.reasons import ConditionType, Reason
from inference_operator.cli.cluster_command import ClusterCommand, none_of, resources
from inference_operator.cli.main import named
from inference_operator.cli.output import Columns, can_watch, print_found, table_of
from inference_operator.cli.parser import UsageError, harmless
from inference_operator.kube.cluster import KubeCluster
from inference_operator.manifest import INFERENCE_DEPLOYMENT, Manifest
from inference_operator.views.raw import condition, mapping, objects, timestamp

BETWEEN_SECONDS = 2.0
"""Between two readings: a shorter time has few requests."""


@dataclass(frozen=True, slots=True)
class Summary:
    namespace: str
    name: str
    model: str
    source: str
    ready: bool
    reason: str
    message: str
    """What is wrong and what helps, or what goes on; empty if nothing is to be said."""
    engines_ready: str
    gpus: str
    """Those of one engine."""
    url: str
    kind: str
    context: int | None
    seconds: int | None


def summary(live: Manifest, at: datetime) -> Summary:
    metadata, status = mapping(live, "metadata"), mapping(live, "status")
    ready = condition(status, ConditionType.READY)
    is_ready = ready.get("status") == "True"
    context = mapping(status, "plan").get("maxModelLen")
    return Summary(
        namespace=_text(metadata, "namespace"),
        name=_text(metadata, "name"),
        model=_text(status, "model"),
        source=_text(mapping(live, "spec", "model"), "source"),
        ready=is_ready,
        reason=_text(status, "reason") or _text(ready, "reason") or "WaitingForOperator",
        message=harmless(_text(status, "message")) if not is_ready or _is_in_trouble(status) else "",
        engines_ready=_text(status, "ready"),
        gpus=_text(status, "gpus"),
        url=_text(status, "url"),
        kind=_text(mapping(status, "engine"), "kind"),
        context=context if isinstance(context, int) else None,
        seconds=seconds_since(timestamp(metadata.get("creationTimestamp")), at),
    )


def _is_in_trouble(status: Manifest) -> bool:
    """Whether a resource is not as it should be, or is left as it is."""
    wrong = (condition(status, kind) for kind in (ConditionType.STALLED, ConditionType.RECONCILING))
    is_paused = condition(status, ConditionType.READY).get("reason") == Reason.PAUSED
    return is_paused or any(one.get("status") == "True" for one in wrong)


def _text(parent: Manifest, name: str) -> str:
    return str(parent.get(name) or "")


def seconds_since(moment: datetime | None, at: datetime) -> int | None:
    return max(0, int((at - moment) / timedelta(seconds=1))) if moment else None


def words_of(seconds: int | None) -> str:
    """An age in the unit that fits, as kubectl writes it."""
    if seconds is None:
        return ""
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= size * (2 if unit != "m" else 1):
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


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
