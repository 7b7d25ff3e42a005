"""Stalls of the event loop. All reconciles, probes and the renewal of the Lease share it."""

import asyncio
from dataclasses import dataclass

TICK_SECONDS = 0.05
"""Interval of the ticks. A tick comes late by the time for which the loop stood still, less at most one interval."""
WINDOW_SECONDS = 60.0
"""Length of a window. The longest stall of the last window counts too, so every scrape within a window sees it."""


@dataclass(slots=True)
class LongestStall:
    """The longest stall of this window and of the one before."""

    _begin: float = 0.0
    _current: float = 0.0
    _former: float = 0.0

    def add(self, seconds: float, now: float) -> None:
        self._rotate(now)
        self._current = max(self._current, seconds)

    def seconds(self, now: float) -> float:
        self._rotate(now)
        return max(self._current, self._former)

    def _rotate(self, now: float) -> None:
        """Begin the window in which this time is."""
        windows = int((now - self._begin) // WINDOW_SECONDS)
        if windows > 0:
            self._former = self._current if windows == 1 else 0.0
            self._current = 0.0
            self._begin += windows * WINDOW_SECONDS


class StallWatch:
    def __init__(self) -> None:
        self._longest = LongestStall()
        self._now = 0.0

    async def run(self) -> None:
        """Tick until cancelled."""
        loop = asyncio.get_running_loop()
        self._now = loop.time()
        while True:
            await asyncio.sleep(TICK_SECONDS)
            now = loop.time()
            self._longest.add(now - self._now - TICK_SECONDS, now)
            self._now = now

    def seconds(self) -> float:
        """The longest stall of the last one to two minutes; 0 before the first tick."""
        return self._longest.seconds(self._now)
