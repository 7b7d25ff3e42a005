"""Decides when to list: at the start until it works, then in intervals, and at once when watches lost events."""

import asyncio
import logging
from contextlib import suppress
from math import nan

from inference_operator.controller.lister import Lister
from inference_operator.settings import Settings

RETRY_SECONDS = 5.0
"""Between two attempts at the first listing."""

UNREADABLE_SECONDS = 30.0
"""Between two attempts at a namespace that cannot be listed, for example because its Role is missing."""

STALE_PERIODS = 3
"""After this many intervals without a finished listing, whether it worked or not, the process counts as stuck."""

log = logging.getLogger(__name__)


class RelistLoop:
    """Lists in intervals.

    Args:
        lister: carries out each listing.
        settings: the interval.
    """

    def __init__(self, lister: Lister, settings: Settings) -> None:
        self._lister = lister
        self._interval = settings.resync_seconds
        self._events_lost = asyncio.Event()
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

    async def work(self, stop: asyncio.Event) -> None:
        """List in intervals until cancelled; set `stop` when the watches can no longer be right.

        That is so when other namespaces or kinds can be read than are watched, and when the cluster's state was
        restored from a backup: watches begin at versions that do not exist any more.
        """
        lister = self._lister
        watched = (lister.readable, lister.watchable)
        while True:
            wait = min(self._interval, UNREADABLE_SECONDS) if lister.unreadable else self._interval
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):  # `wait_for` of Python 3.11 can lose a cancellation
                    await self._events_lost.wait()
            self._events_lost.clear()
            await self._list(stop)
            if (lister.readable, lister.watchable) != watched:
                log.info("Restarting: the namespaces or kinds that can be read have changed")
                stop.set()

    async def _list(self, stop: asyncio.Event) -> bool:
        succeeded = await self._lister.list_all()
        if self._lister.history_went_back:
            log.warning("Restarting: the state of the API server is older than before, as after a restore of etcd")
            stop.set()
        self._tried_at = asyncio.get_running_loop().time()
        if succeeded:
            self._listed_at = self._tried_at
        return succeeded
