"""A queue of keys: each at most once, never two of the same key at a time, and failures wait longer each time."""

import asyncio
import random
from collections.abc import Awaitable, Callable

from inference_operator.manifest import Key
from inference_operator.reconcile.cluster import ClusterError
from inference_operator.status.report import After

FIRST_BACKOFF_SECONDS, LATEST_BACKOFF_SECONDS = 0.5, 120.0
_MOST_DOUBLINGS = 16
JITTER = 0.2
"""A fifth, so that keys that failed together do not come back together."""

Handle = Callable[[Key], Awaitable[After | None]]
"""Looks at a key; returns when it wants another look."""
Began = Callable[[float], None]
"""Is told, by the worker that begins a round, how many seconds ago it was asked for."""
Failed = Callable[[Key, Exception], None]
"""Is told of what went wrong with a key."""


def _nobody(_seconds: float) -> None:
    """Nobody wants to know."""


class KeyQueue:
    """Keys that want to be looked at.

    A key that is added while it is being worked on is worked on once more afterwards. A key that failed waits, half a
    second at first and twice as long each time; what happens to it meanwhile brings the next look forward, but never
    before the moment that the API server named.

    Args:
        chance: a number from 0 to 1, another one each time; it spreads the waits.
        began: is told of every round that begins.
    """

    def __init__(self, chance: Callable[[], float] = random.random, began: Began = _nobody) -> None:
        self._chance = chance
        self._began = began
        self._queue: asyncio.Queue[Key] = asyncio.Queue()
        self._waiting: set[Key] = set()
        self._working: dict[Key, float] = {}
        self._asked: dict[Key, float] = {}
        """When the next round was asked for first."""
        self._again: set[Key] = set()
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self._failures: dict[Key, int] = {}
        self._not_before: dict[Key, float] = {}
        self._closed = False

    def __len__(self) -> int:
        """Keys that wait now."""
        return len(self._waiting)

    def longest_running(self) -> float:
        """For how many seconds the oldest round that runs has run; 0 where none does."""
        return asyncio.get_running_loop().time() - min(self._working.values()) if self._working else 0.0

    def add(self, key: Key) -> None:
        """Ask for a look at a key as soon as there may be one."""
        self._cancel_timer(key)
        self._asked.setdefault(key, asyncio.get_running_loop().time())
        if key in self._working:
            self._again.add(key)
        elif (wait := self._hold(key)) > 0:
            self.add_after(key, wait)
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

    def close(self) -> None:
        """Begin no more work; what is being worked on is brought to its end."""
        self._closed = True
        for timer in self._timers.values():
            timer.cancel()
        self._queue.put_nowait(Key("", ""))  # wakes who waits for a key

    async def work(self, handle: Handle, failed: Failed) -> None:
        """Work on keys until the queue is closed; several workers may do so at a time."""
        while True:
            key = await self._queue.get()
            if self._closed:
                self._queue.put_nowait(key)  # for the next worker to wake by
                return
            self._waiting.discard(key)
            now = asyncio.get_running_loop().time()
            self._working[key] = now
            self._began(now - self._asked.pop(key, now))
            try:
                after = await handle(key)
            except Exception as error:  # noqa: BLE001 - what goes wrong with one key must not stop the others
                failed(key, error)
                after = After(error.retry_after if isinstance(error, ClusterError) else 0.0, backoff=True)
            finally:
                del self._working[key]
            self._finish(key, after)

    def _finish(self, key: Key, after: After | None) -> None:
        again = key in self._again
        self._again.discard(key)
        wait = after.seconds if after else None
        if after is not None and after.backoff:
            asked = after.seconds or 0.0
            if asked > 0:
                self._not_before[key] = asyncio.get_running_loop().time() + asked
            wait = max(asked, self._backoff(key))
        else:
            self._failures.pop(key, None)
        if self._closed:
            return
        if again:
            self.add(key)
        elif wait is not None:
            self.add_after(key, wait)

    def _backoff(self, key: Key) -> float:
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        plain = min(FIRST_BACKOFF_SECONDS * 2.0 ** min(failures, _MOST_DOUBLINGS), LATEST_BACKOFF_SECONDS)
        return plain * (1 - JITTER + 2 * JITTER * self._chance())

    def _hold(self, key: Key) -> float:
        """Seconds until the API server may be asked about a key again."""
        wait = self._not_before.get(key, 0.0) - asyncio.get_running_loop().time()
        if wait <= 0:
            self._not_before.pop(key, None)
        return wait

    def _cancel_timer(self, key: Key) -> None:
        if timer := self._timers.pop(key, None):
            timer.cancel()
