"""Which GPUs are free, from the nodes that offer them and the pods that are on those; asked for only when wanted."""

import asyncio
from collections.abc import AsyncIterator
from typing import Protocol

from inference_operator.manifest import NODE, POD, Kind, Manifest
from inference_operator.observed.look import Gpus, NodeGpus
from inference_operator.observed.node import NodeView, node_view
from inference_operator.observed.reserved import reserved
from inference_operator.resources.names import MANAGED_SELECTOR

NODES_AT_A_TIME = 8
"""Listings that are under way together: enough to hide the API server's latency."""

_ALIVE = "status.phase!=Succeeded,status.phase!=Failed"


class Reader(Protocol):
    """What can be listed without keeping it. May raise `ClusterError`."""

    def each(
        self, kind: Kind, *, namespace: str | None = None, labels: str | None = None, fields: str | None = None
    ) -> AsyncIterator[Manifest]:
        """Every object of a kind, in one namespace or (None) in all of them, that the selectors select."""


async def free_gpus(reader: Reader, resource: str) -> Gpus:
    """Look at the nodes that have GPUs of this resource name, and at the pods on them."""
    nodes = [view async for node in reader.each(NODE) if (view := node_view(node)).count(resource)]
    turns = asyncio.Semaphore(NODES_AT_A_TIME)

    async def look(node: NodeView) -> NodeGpus:
        async with turns:
            taken = await _asked_for(reader, resource, fields=f"spec.nodeName={node.name},{_ALIVE}")
        return NodeGpus(node, node.count(resource), node.count(resource) - taken)

    awaited = await _asked_for(reader, resource, fields=f"spec.nodeName=,{_ALIVE}", labels=MANAGED_SELECTOR)
    return Gpus(tuple(await asyncio.gather(*(look(node) for node in nodes))), awaited)


async def _asked_for(reader: Reader, resource: str, *, fields: str, labels: str | None = None) -> int:
    pods = reader.each(POD, fields=fields, labels=labels)
    return sum([reserved(pod.get("spec") or {}, resource) async for pod in pods])
