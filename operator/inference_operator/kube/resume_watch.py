"""Lets kopf's watches start where the operator's own listing ended, so that a start lists everything once.

kopf lists before it watches, and turns each listed object into an event, a task and a record. The operator has listed
before: its listing also shows deletions, and keeps only what the operator reads.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from http import HTTPStatus

from aiohttp import ClientHandlerType, ClientRequest, ClientResponse

_NOTHING = {"fieldSelector": "metadata.name=-"}
"""Selects nothing: no object has this name, because names are DNS subdomains."""
_REFUSED = (HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND)
"""The kind has gone, or the right to it. kopf ends all watches after such an answer."""

log = logging.getLogger(__name__)


class ResumeWatch:
    """A middleware of kopf's client session (aiohttp, client middlewares).

    1. kopf's listings return only a resourceVersion.
    2. The first watch of each collection starts at the resourceVersion of the operator's listing.
    3. A request that is refused reports lost events, and waits until the operator has listed. It is then sent again as
       a first one, unless the collection is watched no more: kopf cancels it.

    Args:
        versions: the resourceVersion of the operator's last listing, by the URL path of each collection.
        on_events_lost: called when a watch starts anew and events may be lost, for example after 410 Gone. The operator
            then has to list again.
    """

    def __init__(self, versions: Mapping[str, int], on_events_lost: Callable[[], None]) -> None:
        self._versions = versions
        self._watched: AbstractSet[str] = frozenset()
        """The collections that are watched."""
        self._started: set[str] = set()
        """Those of them whose first watch has started."""
        self._listed: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        """For each collection with requests that wait: whether the operator has listed it since."""
        self._on_events_lost = on_events_lost

    async def __call__(self, request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
        """Send a request, changed where it lists or watches one of the collections."""
        path = request.url.path
        if path not in self._versions:
            return await handler(request)
        send = self._watch if "watch" in request.url.query else self._list
        while (response := await send(request, handler)).status in _REFUSED:
            response.close()
            self._started.discard(path)
            if path in self._watched:
                log.warning("The API server refuses %s with HTTP %d: listing again", path, response.status)
                self._on_events_lost()
            await self._listed[path].wait()
        return response

    def revise(self, watched: AbstractSet[str]) -> None:
        """Watch these collections from the operator's last listing on. Those that go on are left alone."""
        self._watched = watched
        self._started &= watched
        for path in watched & self._listed.keys():
            self._listed.pop(path).set()

    async def _list(self, request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
        request.url = request.url.update_query(_NOTHING)
        response = await handler(request)
        if request.url.path in self._started and response.status not in _REFUSED:
            self._on_events_lost()  # after the response, so that the operator's listing is younger than the new watch
        return response

    async def _watch(self, request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
        path = request.url.path
        if path not in self._started:
            request.url = request.url.update_query(resourceVersion=str(self._versions[path]))
        response = await handler(request)
        if response.ok and path in self._watched:  # after a refusal the next watch starts at the operator's listing
            self._started.add(path)
        return response
