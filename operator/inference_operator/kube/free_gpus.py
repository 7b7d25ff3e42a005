"""Counts free GPUs: what nodes offer, less what the pods on them request. Runs only when a lookup needs it."""

import asyncio
from collections.abc import AsyncIterator
from typing import Protocol

from inference_operator.manifest import NODE, POD, Kind, Manifest
from inference_operator.objects.names import MANAGED_SELECTOR
from inference_operator.views.lookups import ClusterGpus, NodeGpus
from inference_operator.views.node import NodeView, node_view
from inference_operator.views.resource_requests import requested_amount

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
    """List the nodes that have GPUs of this resource name, and the pods on them."""
    nodes = [view async for node in reader.each(NODE) if (view := node_view(node)).count(resource)]
    semaphore = asyncio.Semaphore(NODES_AT_A_TIME)

    async def count(node: NodeView) -> NodeGpus:
        async with semaphore:
            taken = await _requested(reader, resource, fields=f"spec.nodeName={node.name},{_ALIVE}")
        return NodeGpus(node, node.count(resource), node.count(resource) - taken)

    pending = await _requested(reader, resource, fields=f"spec.nodeName=,{_ALIVE}", labels=MANAGED_SELECTOR)
    return ClusterGpus(tuple(await asyncio.gather(*(count(node) for node in nodes))), pending)


async def _requested(reader: Reader, resource: str, *, fields: str, labels: str | None = None) -> int:
    """The GPUs that the selected pods request."""
    pods = reader.each(POD, fields=fields, labels=labels)
    return sum([requested_amount(pod.get("spec") or {}, resource) async for pod in pods])
