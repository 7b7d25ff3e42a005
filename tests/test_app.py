"""The operator as a process: a loop that ends takes the process with it."""

import asyncio
import logging

import pytest

from inference_operator.app import stop_after


async def ends() -> None:
    """A loop that should not have ended."""


async def breaks() -> None:
    """A loop with a bug."""
    raise ZeroDivisionError


@pytest.mark.parametrize("loop", [ends, breaks])
def test_a_loop_that_ends_stops_the_process_and_its_log_says_why(
    loop: object, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene() -> None:
        stop = asyncio.Event()
        work = ends() if loop is ends else breaks()
        asyncio.create_task(work, name="scrapes").add_done_callback(lambda ended: stop_after(ended, stop))
        await asyncio.wait_for(stop.wait(), 30)

    with caplog.at_level(logging.CRITICAL):
        asyncio.run(scene())
    (record,) = caplog.records
    assert record.getMessage() == "Restarting: the loop scrapes has ended"
    assert bool(record.exc_info) is (loop is breaks)


def test_a_loop_that_is_cancelled_at_the_stop_is_no_news(caplog: pytest.LogCaptureFixture) -> None:
    async def scene() -> None:
        stop = asyncio.Event()
        task = asyncio.create_task(asyncio.Event().wait())
        task.add_done_callback(lambda ended: stop_after(ended, stop))
        stop.set()
        task.cancel()
        await asyncio.wait([task])
        await asyncio.sleep(0)  # callbacks run in the next turn of the loop

    asyncio.run(scene())
    assert not caplog.records
