"""A queue of keys: each at most once, never two of the same key at a time, and failures wait longer each time."""

import asyncio
import random
from collections.abc import Awaitable, Callable

from inference_operator.manifest import Key

FIRST_BACKOFF_SECONDS, LATEST_BACKOFF_SECONDS = 0.5, 120.0
_MOST_DOUBLINGS = 16
JITTER = 0.2
"""A fifth, so that keys that failed together do not come back together."""


class KeyQueue:
    """Keys that want to be looked at.

    A key that is added while it is being worked on is worked on once more afterwards.
    """

    def __init__(self) -> None:
        self._queue: asyncio.Queue[Key] = asyncio.Queue()
        self._waiting: set[Key] = set()
        self._working: set[Key] = set()
        self._again: set[Key] = set()
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self._failures: dict[Key, int] = {}

    def __len__(self) -> int:
        """Keys that wait now."""
        return len(self._waiting)

    def add(self, key: Key) -> None:
        """Ask for a look at a key now."""
        self._cancel_timer(key)
        if key in self._working:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting.add(key)
            self._queue.put_nowait(key)

    def add_after(self, key: Key, seconds: float) -> None:
        """Ask for a look after a time, unless there is one before."""
        loop = asyncio.get_running_loop()
        due = self._timers.get(key)
        if due is None or due.when() > loop.time() + seconds:
            self._cancel_timer(key)
            self._timers[key] = loop.call_later(seconds, self.add, key)

    async def work(
        self, handle: Callable[[Key], Awaitable[float | None]], failed: Callable[[Key, Exception], None]
    ) -> None:
        """Work on keys until cancelled; several workers may do so at a time.

        Args:
            handle: looks at a key and returns after how many seconds it wants another look, or None.
            failed: is told of what went wrong; the key is looked at again after a backoff.
        """
        while True:
            key = await self._queue.get()
            self._waiting.discard(key)
            self._working.add(key)
            try:
                after = await handle(key)
            except Exception as error:  # noqa: BLE001 - what goes wrong with one key must not stop the others
                failed(key, error)
                after = self._backoff(key)
            else:
                self._failures.pop(key, None)
            finally:
                self._working.discard(key)
            self._finish(key, after)

    def _finish(self, key: Key, after: float | None) -> None:
        if key in self._again:
            self._again.discard(key)
            self.add(key)
        elif after is not None:
            self.add_after(key, after)

    def _backoff(self, key: Key) -> float:
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        plain = min(FIRST_BACKOFF_SECONDS * 2.0 ** min(failures, _MOST_DOUBLINGS), LATEST_BACKOFF_SECONDS)
        return plain * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311 - spreads load, guards nothing

    def _cancel_timer(self, key: Key) -> None:
        if timer := self._timers.pop(key, None):
            timer.cancel()
