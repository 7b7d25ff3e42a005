"""How long the event loop stands still is measured by ticks that come late."""

import asyncio
import contextlib

from inference_operator.telemetry.event_loop import TICK_SECONDS, WINDOW_SECONDS, StallWatch
from tests.controller.virtual_time import run


def test_the_longest_stall_of_two_windows_is_shown_and_then_forgotten() -> None:
    watch = StallWatch()
    watch.add(2.0, now=WINDOW_SECONDS - 1)
    watch.add(0.1, now=2 * WINDOW_SECONDS - 1)
    assert watch.seconds() == 2.0
    watch.add(0.0, now=2 * WINDOW_SECONDS)
    assert watch.seconds() == 0.1
    watch.add(0.0, now=10 * WINDOW_SECONDS)
    assert watch.seconds() == 0.0


def test_a_loop_that_runs_freely_has_no_stall_and_work_that_takes_its_thread_is_one() -> None:
    async def script() -> None:
        watch = StallWatch()
        assert watch.seconds() == 0.0
        task = asyncio.create_task(watch.run())
        await asyncio.sleep(10)
        assert watch.seconds() < TICK_SECONDS
        loop = asyncio.get_running_loop()
        late, before = 3.0, loop.time
        loop.time = lambda: before() + late  # type: ignore[method-assign] # work of 3 s, during which no tick comes
        await asyncio.sleep(2 * TICK_SECONDS)
        assert late - TICK_SECONDS <= watch.seconds() <= late + TICK_SECONDS
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    run(script())
