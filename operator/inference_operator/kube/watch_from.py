"""Lets kopf watch from where the operator's own listing ended, so that nothing is listed twice.

kopf lists before it watches, and turns each object of the listing into an event, a task and a record. The operator has
listed by then: its listing tells of deletions too, and keeps of each object only what it reads.
"""

from collections.abc import Callable, Mapping

from aiohttp import ClientHandlerType, ClientRequest, ClientResponse

_NOTHING = {"fieldSelector": "metadata.name=-"}
"""Selects nothing: no object has this name (Kubernetes, object names are DNS subdomains)."""


class WatchFrom:
    """A middleware of kopf's client session (aiohttp, client middlewares): it narrows kopf's listings to their version.

    Args:
        versions: the resourceVersion of the operator's listing, by the URL path of each collection that is watched.
        missed: is told where a watch begins anew and events may be lost, such as after 410 Gone: a listing is due.
    """

    def __init__(self, versions: Mapping[str, int], missed: Callable[[], None]) -> None:
        self._paths = frozenset(versions)
        self._ahead = dict(versions)
        """Of watches that have not begun."""
        self._missed = missed

    async def __call__(self, request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
        """Send a request as it is meant."""
        path = request.url.path
        if path not in self._paths:
            return await handler(request)
        if "watch" in request.url.query:
            return await self._watch(request, handler)
        request.url = request.url.update_query(_NOTHING)
        response = await handler(request)
        if path not in self._ahead:
            self._missed()  # after the answer, so that the listing is younger than what is watched from now on
        return response

    async def _watch(self, request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
        path = request.url.path
        if path in self._ahead:
            request.url = request.url.update_query(resourceVersion=str(self._ahead[path]))
        response = await handler(request)
        if response.ok:  # one that was not answered has not begun, and the next one begins there too
            self._ahead.pop(path, None)
        return response
