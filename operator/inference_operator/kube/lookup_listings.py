"""Lists what lookups need, and nothing watches: the free GPUs of nodes, and the Events of one object."""

import asyncio
from collections.abc import AsyncIterator
from typing import Protocol

from inference_operator.manifest import NODE, POD, Kind, Manifest
from inference_operator.objects.names import MANAGED_SELECTOR
from inference_operator.views.lookups import ClusterGpus, EventsLookup, EventSummary, NodeGpus, ObjectEvents
from inference_operator.views.node import NodeView, node_view, requested_amount
from inference_operator.views.untrusted_text import one_line

NODES_AT_A_TIME = 8
"""Listings that run at a time: enough to hide the API server's latency."""

_ALIVE = "status.phase!=Succeeded,status.phase!=Failed"


class Reader(Protocol):
    """Lists objects without caching them. May raise `ClusterError`."""

    def each(
        self, kind: Kind, *, namespace: str | None = None, labels: str | None = None, fields: str | None = None
    ) -> AsyncIterator[Manifest]:
        """Every object of a kind that the selectors match, in one namespace or (None) in all of them."""


async def free_gpus(reader: Reader, resource: str) -> ClusterGpus:
    nodes = [view async for node in reader.each(NODE) if (view := node_view(node)).count(resource)]
    semaphore = asyncio.Semaphore(NODES_AT_A_TIME)

    async def count(node: NodeView) -> NodeGpus:
        async with semaphore:
            taken = await _requested(reader, resource, fields=f"spec.nodeName={node.name},{_ALIVE}")
        return NodeGpus(node, node.count(resource), node.count(resource) - taken)

    pending = await _requested(reader, resource, fields=f"spec.nodeName=,{_ALIVE}", labels=MANAGED_SELECTOR)
    return ClusterGpus(tuple(await asyncio.gather(*(count(node) for node in nodes))), pending)


async def _requested(reader: Reader, resource: str, *, fields: str, labels: str | None = None) -> int:
    pods = reader.each(POD, fields=fields, labels=labels)
    return sum([requested_amount(pod.get("spec") or {}, resource) async for pod in pods])


EVENT = Kind("v1", "Event")
"""Only the older API selects by `involvedObject` (Kubernetes 1.36, pkg/apis/core/v1/conversion.go)."""

MOST_EVENTS = 20
"""Events that are kept. Each has another text, because the kubelet counts repeats in one Event."""


async def events_of(reader: Reader, look: EventsLookup) -> ObjectEvents:
    """The latest Events of an object, each text once, the latest first."""
    listed = reader.each(EVENT, namespace=look.namespace, fields=f"involvedObject.uid={look.uid}")
    found = [event async for event in listed]
    # Times are mostly whole seconds; the name ends with nanoseconds, which grow (client-go, tools/record/util).
    events = sorted(found, key=lambda event: (last_time(event), event["metadata"]["name"]), reverse=True)
    summaries = dict.fromkeys(EventSummary(str(e.get("reason") or ""), one_line(e.get("message"))) for e in events)
    return ObjectEvents(tuple(summaries)[:MOST_EVENTS])


def last_time(event: Manifest) -> str:
    """When the Event happened last. Reporters fill different fields, all in the same format."""
    series = event.get("series") or {}
    times = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    return next((str(time) for time in times if time), "")
