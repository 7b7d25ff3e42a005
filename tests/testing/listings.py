"""Listings of objects, by page as the operator reads them and complete for tests."""

from collections.abc import AsyncIterator

from inference_operator.controller.cluster import Cluster, Listing
from inference_operator.manifest import Kind


async def pages(*listings: Listing) -> AsyncIterator[Listing]:
    for one in listings:
        yield one


async def listing(
    cluster: Cluster, kind: Kind, *, namespace: str | None = None, selector: str | None = None
) -> Listing:
    found = [page async for page in cluster.pages(kind, namespace=namespace, selector=selector)]
    return Listing([one for page in found for one in page.items], found[-1].version, namespace)
