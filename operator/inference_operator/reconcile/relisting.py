"""When everything is listed: at the start until that works, then from time to time, and where watches lost events."""

import asyncio
import logging
from contextlib import suppress
from math import nan

from inference_operator.reconcile.resync import Resync
from inference_operator.settings import Settings

RETRY_SECONDS = 5.0
"""Between two attempts to reach the API server at the start."""

UNREADABLE_SECONDS = 30.0
"""Between two attempts at a namespace that cannot be read, such as one whose Role is missing."""

STALE_PERIODS = 3
"""Periods without a listing, good or bad, after which the process counts as stuck."""

log = logging.getLogger(__name__)


class Relisting:
    """Lists again and again.

    Args:
        resync: what is listed.
        settings: how often.
    """

    def __init__(self, resync: Resync, settings: Settings) -> None:
        self._resync = resync
        self._period = settings.resync_seconds
        self._missed = asyncio.Event()
        self._listed_at: float | None = None
        self._tried_at: float | None = None

    def miss(self) -> None:
        """Take note that events were lost: a listing is due at once."""
        self._missed.set()

    def age(self) -> float:
        """Seconds since the last listing that ended well; NaN before the first one."""
        return nan if self._listed_at is None else asyncio.get_running_loop().time() - self._listed_at

    def is_overdue(self) -> bool:
        """Whether listings no longer come to an end, not to a bad one either; before the first one nothing is due."""
        tried = self._tried_at
        return tried is not None and asyncio.get_running_loop().time() - tried > STALE_PERIODS * self._period

    async def begin(self, stop: asyncio.Event) -> None:
        """List until that succeeds for the first time, or until told to stop."""
        while not stop.is_set() and not await self._list():
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), RETRY_SECONDS)

    async def work(self, stop: asyncio.Event) -> None:
        """List anew until cancelled; stop the process where other things can be read by now than are watched."""
        resync = self._resync
        watched = (resync.readable, resync.watchable)
        while True:
            wait = min(self._period, UNREADABLE_SECONDS) if resync.unreadable else self._period
            with suppress(TimeoutError):
                await asyncio.wait_for(self._missed.wait(), wait)
            self._missed.clear()
            await self._list()
            if (resync.readable, resync.watchable) != watched:
                log.info("Ends, to start anew with what can be read now")
                stop.set()

    async def _list(self) -> bool:
        listed = await self._resync.list_all()
        self._tried_at = asyncio.get_running_loop().time()
        if listed:
            self._listed_at = self._tried_at
        return listed
