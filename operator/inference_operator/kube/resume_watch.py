"""Lets kopf's watches start where the operator's own listing ended, so that a start lists everything once.

kopf lists before it watches, and turns each listed object into an event, a task and a record. The operator has listed
before: its listing also shows deletions, and keeps only what the operator reads.
"""

from collections.abc import Callable, Mapping

from aiohttp import ClientHandlerType, ClientRequest, ClientResponse

_NOTHING = {"fieldSelector": "metadata.name=-"}
"""Selects nothing: no object has this name, because names are DNS subdomains."""


class ResumeWatch:
    """A middleware of kopf's client session (aiohttp, client middlewares).

    It changes kopf's listings so that they return only a resourceVersion, and kopf's first watch of each collection so
    that it starts at the resourceVersion of the operator's listing.

    Args:
        versions: the resourceVersion of the operator's listing, by the URL path of each watched collection.
        on_events_lost: called when a watch starts anew and events may be lost, for example after 410 Gone. The operator
            then has to list again.
    """

    def __init__(self, versions: Mapping[str, int], on_events_lost: Callable[[], None]) -> None:
        self._paths = frozenset(versions)
        self._not_started = dict(versions)
        """The versions of the collections whose first watch has not started."""
        self._on_events_lost = on_events_lost

    async def __call__(self, request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
        """Send a request, changed where it lists or watches one of the collections."""
        path = request.url.path
        if path not in self._paths:
            return await handler(request)
        if "watch" in request.url.query:
            return await self._watch(request, handler)
        request.url = request.url.update_query(_NOTHING)
        response = await handler(request)
        if path not in self._not_started:
            self._on_events_lost()  # after the response, so that the operator's listing is younger than the new watch
        return response

    async def _watch(self, request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
        path = request.url.path
        if path in self._not_started:
            request.url = request.url.update_query(resourceVersion=str(self._not_started[path]))
        response = await handler(request)
        if response.ok:  # a watch that was refused has not started: the next one starts at the same version
            self._not_started.pop(path, None)
        return response
