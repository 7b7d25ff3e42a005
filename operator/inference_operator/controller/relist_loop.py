"""Decides when to list, and has the watches follow each listing.

1. At the start: until a listing works.
2. Everything: in intervals, and at once when watches lost events; the more often they do, the later.
3. The optional kinds that the cluster does not have: every half minute.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from math import inf, nan

from inference_operator.controller.lister import Lister
from inference_operator.manifest import Kind
from inference_operator.settings import Settings

RETRY_SECONDS = 5.0
"""Between two attempts at the first listing."""

UNREADABLE_SECONDS = 30.0
"""Between two attempts at what cannot be listed: a namespace, for example because its Role is missing, or a kind whose
CustomResourceDefinition is not installed. Also the longest time for which a listing after lost events is put off."""

FIRST_PAUSE_SECONDS = 1.0
"""Between the first two listings after lost events; it doubles with each one, until a listing comes in its turn. So a
CustomResourceDefinition that comes and goes all the time does not keep the operator busy."""

STALE_PERIODS = 3
"""After this many intervals without a finished listing, whether it worked or not, the process counts as stuck."""

log = logging.getLogger(__name__)

Revise = Callable[[Collection[Kind], Collection[str | None]], Awaitable[None]]
"""Has these kinds watched in these namespaces, from the last listing on."""


class RelistLoop:
    """Lists in intervals, and with `search_seconds` between two attempts at what cannot be listed."""

    def __init__(self, lister: Lister, settings: Settings, search_seconds: float = UNREADABLE_SECONDS) -> None:
        self._lister = lister
        self._search_seconds = search_seconds
        self._interval = settings.resync_seconds
        self._events_lost = asyncio.Event()
        self._pause = 0.0
        """The least time between the last listing and one after lost events."""
        self._listed_at: float | None = None
        self._tried_at: float | None = None

    def on_events_lost(self) -> None:
        """List at once, because a watch lost events."""
        self._events_lost.set()

    def age(self) -> float:
        """Seconds since the last successful listing; NaN before the first one."""
        return nan if self._listed_at is None else asyncio.get_running_loop().time() - self._listed_at

    def is_overdue(self) -> bool:
        """Whether no listing has finished for `STALE_PERIODS` intervals; false before the first one has finished."""
        tried = self._tried_at
        return tried is not None and asyncio.get_running_loop().time() - tried > STALE_PERIODS * self._interval

    async def begin(self, stop: asyncio.Event) -> None:
        """List until it succeeds for the first time, or until `stop` is set."""
        while not stop.is_set() and not await self._list(stop):
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), RETRY_SECONDS)

    async def work(self, stop: asyncio.Event, revise: Revise) -> None:
        """List until cancelled, and revise the watches after each listing.

        Set `stop` when the cluster's state was restored from a backup: the versions in the cache do not exist any more.
        """
        lister = self._lister
        while True:
            await revise(lister.watchable, lister.readable)
            if await self._is_complete_due():
                await self._list(stop)
            else:
                await lister.find_kinds()
                self._stop_if_restored(stop)

    async def _is_complete_due(self) -> bool:
        now = asyncio.get_running_loop().time()
        last = now if self._tried_at is None else self._tried_at
        unreadable = bool(self._lister.unreadable)
        due = last + (min(self._interval, self._search_seconds) if unreadable else self._interval)
        search = now + self._search_seconds if self._lister.missing_kinds and not unreadable else inf
        try:
            async with asyncio.timeout_at(min(due, search)):  # `wait_for` of Python 3.11 can lose a cancellation
                await self._events_lost.wait()
                await asyncio.sleep(last + self._pause - asyncio.get_running_loop().time())
        except TimeoutError:
            if search < due:
                return False
            self._pause = 0.0
        else:
            self._pause = min(max(FIRST_PAUSE_SECONDS, 2 * self._pause), UNREADABLE_SECONDS)
        self._events_lost.clear()
        return True

    async def _list(self, stop: asyncio.Event) -> bool:
        succeeded = await self._lister.list_all()
        self._stop_if_restored(stop)
        self._tried_at = asyncio.get_running_loop().time()
        if succeeded:
            self._listed_at = self._tried_at
        return succeeded

    def _stop_if_restored(self, stop: asyncio.Event) -> None:
        if self._lister.history_went_back and not stop.is_set():
            log.warning("Restarting: the state of the API server is older than before, as after a restore of etcd")
            stop.set()
