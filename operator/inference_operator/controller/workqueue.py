"""The work queue: each key at most once, never two workers on the same key, exponential backoff per key."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from enum import IntEnum, auto

from inference_operator.backoff import exponential_backoff
from inference_operator.controller.cluster import ClusterError
from inference_operator.manifest import Key
from inference_operator.status.report import Requeue

FIRST_BACKOFF_SECONDS, LATEST_BACKOFF_SECONDS = 0.5, 120.0
JITTER = 0.2
"""Each backoff differs by up to a fifth, so that keys that failed together do not come back together."""

LOW_AT_ONCE, BUT_HIGH_AT_ONCE = 1, 2
"""Workers that handle keys of low priority at a time, and those of low and normal priority. All share one core, and
each step of an edit waits for a step of every other worker. With 4 and 12 an edit during a resync of 1,000 resources
took 2.9 s (p99), with 2 and 4 1.7 s, with 1 and 2 0.9 s, and the resync no longer (`bench/reconcile.py`)."""
SLOW_SECONDS, MOST_BUT_HIGH = 5.0, 6
"""A reconcile that takes longer waits for the API server, for example for a webhook of another controller that does not
answer (8 s for each write), and hardly uses the core. It does not count among those above. But so many keys of other
than high priority are handled at most: two workers (`WORKERS` in app.py) are always there for edits, and one of these
for what the cluster does."""
LOW_EVERY, NORMAL_EVERY = 8, 2
"""Of so many keys that workers take, one has this priority if one waits, so that none waits for ever."""


class Priority(IntEnum):
    """Which keys a worker takes first: those with the smallest number."""

    HIGH = auto()
    """Somebody or something asks for a change: an edit, a stall, a change of the load, a moment that has come."""
    NORMAL = auto()
    """The cluster has done something: the status of a child or a pod has changed. Each write of ours causes some."""
    LOW = auto()
    """All resources are looked at: a start of the operator, a listing, changed nodes, a window of the owner."""


_TURNS = ((Priority.LOW, LOW_EVERY), (Priority.NORMAL, NORMAL_EVERY))
Handle = Callable[[Key], Awaitable[Requeue | None]]
"""Reconciles a key; returns when to reconcile it again."""
OnStarted = Callable[[float], None]
"""Called by the worker that starts a reconcile, with the seconds since the key was added."""
OnFailed = Callable[[Key, Exception], None]


class WorkQueue:
    """Keys that wait for a reconcile.

    - A key that is added while a worker handles it is handled once more afterwards.
    - A key that failed waits: half a second at first, and twice as long after each failure in a row.
    - An event of that key ends the wait, but not before the time that the API server gave (`Retry-After`).
    - Between two keys everything else of the process has its turn, such as answers to probes and the Lease: after a
      start, thousands of reconciles send no request for which they would wait.
    - Workers take keys of high priority first, but of two keys one of normal priority. A key that is added with a
      higher priority moves up.
    - At most `LOW_AT_ONCE` workers handle keys of low priority, and `BUT_HIGH_AT_ONCE` those of low or normal priority.
      Those that have worked on one for `SLOW_SECONDS` do not count.
    - A key that is due at a time with a high priority stays due then while it waits with a lower one.
    - A key that failed keeps its priority while it waits, and gets the higher one of an event meanwhile.

    Args:
        chance: a random number from 0 to 1, for the jitter of the backoff.
    """

    def __init__(self, chance: Callable[[], float] = random.random, on_started: OnStarted | None = None) -> None:
        self._chance = chance
        self._on_started = on_started
        self._lanes: dict[Priority, dict[Key, None]] = {priority: {} for priority in Priority}
        """The keys that wait for a worker, in their order."""
        self._available = asyncio.Semaphore(0)
        """Has as many permits as keys may be taken now."""
        self._permits = 0
        self._taken = 0
        self._working: dict[Key, tuple[float, Priority]] = {}
        """The keys that workers handle, with the time at which they started and the priority they had."""
        self._slow: set[Key] = set()
        """Those of them that have been handled for long."""
        self._added: dict[Key, float] = {}
        """When a key was added first since its last reconcile started."""
        self._dirty: dict[Key, Priority] = {}
        """The keys that were added while a worker handled them."""
        self._timers: dict[Key, tuple[asyncio.TimerHandle, Priority]] = {}
        self._failures: dict[Key, int] = {}
        self._not_before: dict[Key, float] = {}
        self._closed = False

    def __len__(self) -> int:
        return sum(map(len, self._lanes.values()))

    def longest_running(self) -> float:
        """Seconds for which the oldest running reconcile has run; 0 if none runs."""
        if not self._working:
            return 0.0
        return asyncio.get_running_loop().time() - min(begun for begun, _ in self._working.values())

    def add(self, key: Key, priority: Priority = Priority.HIGH) -> None:
        _, held = self._timers.get(key, (None, None))
        if key in self._failures:
            priority = _higher(priority, held)
        if held is None or priority <= held:
            self._cancel_timer(key)
        self._added.setdefault(key, asyncio.get_running_loop().time())
        waits_with = next((lane for lane, keys in self._lanes.items() if key in keys), None)
        if key in self._working:
            self._dirty[key] = _higher(priority, self._dirty.get(key))
        elif (wait := self._seconds_to_hold(key)) > 0:
            self.add_after(key, wait, priority)
        elif waits_with is None or priority < waits_with:
            if waits_with is not None:
                del self._lanes[waits_with][key]
            self._lanes[priority][key] = None
        self._permit()

    def add_after(self, key: Key, seconds: float, priority: Priority = Priority.HIGH) -> None:
        loop = asyncio.get_running_loop()
        due, _ = self._timers.get(key, (None, None))
        if due is None or due.when() > loop.time() + seconds:
            self._cancel_timer(key)
            self._timers[key] = loop.call_later(seconds, self.add, key, priority), priority

    def close(self) -> None:
        self._closed = True
        for timer, _ in self._timers.values():
            timer.cancel()
        self._available.release()  # wakes a worker that waits for a key

    async def work(self, handle: Handle, on_failed: OnFailed) -> None:
        """Handle keys until the queue is closed; several workers may run at a time."""
        while True:
            await self._available.acquire()
            if self._closed:
                self._available.release()  # wakes the next worker
                return
            key, priority = self._take()
            self._cancel_timer(key)
            loop = asyncio.get_running_loop()
            now, slow = loop.time(), loop.call_later(SLOW_SECONDS, self._find_slow, key)
            self._working[key] = now, priority
            added = self._added.pop(key, now)
            if self._on_started:
                self._on_started(now - added)
            try:
                after = await handle(key)
            except Exception as error:  # noqa: BLE001 - a failure of one key must not stop the others
                on_failed(key, error)
                after = Requeue(error.retry_after if isinstance(error, ClusterError) else 0.0, backoff=True)
            finally:
                slow.cancel()
                self._slow.discard(key)
                del self._working[key]
            self._finish(key, after, priority)
            self._permit()
            await asyncio.sleep(0)

    def _take(self) -> tuple[Key, Priority]:
        """Remove the key that is next; at least one may be taken."""
        self._taken += 1
        self._permits -= 1
        waiting, free = self._waiting(), self._but_high_free()
        may_take = [
            priority
            for priority, keys in zip(Priority, waiting, strict=True)
            if keys and (free or priority is Priority.HIGH)
        ]
        due = (priority for priority, every in _TURNS if priority in may_take and self._taken % every == 0)
        priority = next(due, may_take[0])
        key = next(iter(self._lanes[priority]))
        del self._lanes[priority][key]
        return key, priority

    def _waiting(self) -> tuple[int, int, int]:
        """The keys that wait, by priority; of low priority as many as may be handled beside those that are."""
        high, normal, low = (len(self._lanes[priority]) for priority in Priority)
        handled, quick = self._handled(Priority.LOW)
        return high, normal, min(low, LOW_AT_ONCE - quick, MOST_BUT_HIGH - 1 - handled)

    def _but_high_free(self) -> int:
        """How many keys of other than high priority may be taken now."""
        handled, quick = self._handled(Priority.NORMAL)
        return min(BUT_HIGH_AT_ONCE - quick, MOST_BUT_HIGH - handled)

    def _handled(self, highest: Priority) -> tuple[int, int]:
        """How many keys of this or a lower priority workers handle, and how many of them not yet for long."""
        handled = [key for key, (_, priority) in self._working.items() if priority >= highest]
        return len(handled), sum(key not in self._slow for key in handled)

    def _find_slow(self, key: Key) -> None:
        self._slow.add(key)
        self._permit()

    def _permit(self) -> None:
        """Let as many workers take a key as keys may be taken."""
        high, normal, low = self._waiting()
        while self._permits < high + min(normal + low, self._but_high_free()):
            self._permits += 1
            self._available.release()

    def _finish(self, key: Key, after: Requeue | None, priority: Priority) -> None:
        dirty = self._dirty.pop(key, None)
        wait = after.seconds if after else None
        if after is not None and after.backoff:
            requested = after.seconds or 0.0
            if requested > 0:
                self._not_before[key] = asyncio.get_running_loop().time() + requested
            wait = max(requested, self._backoff(key))
        else:
            self._failures.pop(key, None)
            priority = Priority.LOW if after is not None and after.with_all else Priority.HIGH
        if self._closed:
            return
        if wait is not None:
            self.add_after(key, wait, priority)
        if dirty is not None:
            self.add(key, dirty)

    def _backoff(self, key: Key) -> float:
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        wait = exponential_backoff(failures + 1, first=FIRST_BACKOFF_SECONDS, longest=LATEST_BACKOFF_SECONDS)
        return wait * (1 - JITTER + 2 * JITTER * self._chance())

    def _seconds_to_hold(self, key: Key) -> float:
        """Seconds until the API server accepts requests for a key again (`Retry-After`)."""
        wait = self._not_before.get(key, 0.0) - asyncio.get_running_loop().time()
        if wait <= 0:
            self._not_before.pop(key, None)
        return wait

    def _cancel_timer(self, key: Key) -> None:
        timer, _ = self._timers.pop(key, (None, None))
        if timer:
            timer.cancel()


def _higher(priority: Priority, other: Priority | None) -> Priority:
    return priority if other is None else min(priority, other)
