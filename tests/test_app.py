"""The operator as a process: a loop that ends takes the process with it."""

import asyncio
import logging
from datetime import UTC, datetime
from typing import cast

import pytest

from inference_operator.app import Operator, stop_after
from inference_operator.engines.registry import ENGINES
from inference_operator.kube.cluster import KubeCluster
from inference_operator.kube.watch import Watches
from inference_operator.roles.spec import requested_roles
from tests.testing.builders import SETTINGS
from tests.testing.memory_cluster import MemoryCluster

LOOPS = {
    "events": "_events.work",
    "listings": "_relist_loop.work",
    "scrapes": "_scraper.run",
    "lookups": "_looks.work",
    "reconciles": "_queue.work",
}
"""The loops of an operator, and the method of each."""


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


@pytest.mark.parametrize("name", LOOPS)
def test_an_operator_ends_with_the_reason_when_one_of_its_loops_breaks(
    name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def run(_: Watches, stop: asyncio.Event) -> None:
        await stop.wait()

    async def breaks(*_: object) -> None:
        raise ZeroDivisionError

    async def scene() -> bool:
        cluster = cast("KubeCluster", MemoryCluster())
        operator = Operator(SETTINGS, cluster, lambda: datetime.now(UTC), ENGINES, requested_roles)
        owner, _, method = LOOPS[name].partition(".")
        monkeypatch.setattr(type(getattr(operator, owner)), method, breaks)
        return await asyncio.wait_for(operator.run(asyncio.Event(), ""), 30)

    monkeypatch.setattr(Watches, "run", run)
    monkeypatch.setattr(Operator, "_measure", lambda *_: None)  # the metrics are those of the whole process
    assert asyncio.run(scene()), "no reconcile was cancelled"
    ended = {record.getMessage() for record in caplog.records if record.levelno == logging.CRITICAL}
    assert ended == {f"Restarting: the loop {name} has ended"}


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
