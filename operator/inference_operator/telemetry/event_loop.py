"""Stalls of the event loop. All reconciles, probes and the renewal of the Lease share it."""

import asyncio

TICK_SECONDS = 0.05
"""Interval of the ticks. A tick comes late by the time for which the loop stood still, less at most one interval."""
WINDOW_SECONDS = 60.0
"""Length of a window. The longest stall of the last window counts too, so every scrape within a window sees it."""


class StallWatch:
    """The longest stall of this window and of the one before."""

    def __init__(self) -> None:
        self._begin = 0.0
        """Of this window."""
        self._current = 0.0
        self._former = 0.0

    async def run(self) -> None:
        """Tick until cancelled."""
        loop = asyncio.get_running_loop()
        last = loop.time()
        while True:
            await asyncio.sleep(TICK_SECONDS)
            now = loop.time()
            self.add(now - last - TICK_SECONDS, now)
            last = now

    def add(self, seconds: float, now: float) -> None:
        windows = int((now - self._begin) // WINDOW_SECONDS)
        if windows > 0:
            self._former = self._current if windows == 1 else 0.0
            self._current = 0.0
            self._begin += windows * WINDOW_SECONDS
        self._current = max(self._current, seconds)

    def seconds(self) -> float:
        """The longest stall of the last one to two minutes; 0 before the first tick."""
        return max(self._current, self._former)
