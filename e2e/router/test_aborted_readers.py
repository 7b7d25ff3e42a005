"""Readers of every page of every port go away at every moment: no HAProxy ends, and none computes on."""

import asyncio
import signal
from asyncio.subprocess import DEVNULL, create_subprocess_exec
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from e2e.free_ports import free_ports
from e2e.router.loopback import Loopback
from e2e.router.readers import FIRST_BYTES, MOMENTS, abort_many, abort_while_they_wait, pages
from e2e.router.test_keys import ALICE, bearer, line
from inference_operator.api.router import RouterSpec

FEW, MANY = 5, 100
SPEC = {
    "keys": {"secretRef": {"name": "users"}, "maxConcurrent": 10_000},
    "tls": {"secretRef": {"name": "certificate"}},
    "usage": "Enabled",
    "accessLog": "Disabled",
}
ADAPTERS = 255
"""Their list is longer than a buffer: it waits for who reads it slowly."""
AT_ONCE = 4
PACE_SECONDS = 0.02
REFUSED = 3
SOON = 30.0
"""Limit in seconds for steps that take one on an idle machine."""


@pytest.fixture
async def whole(loopback: Loopback) -> Loopback:
    """A router with all pages, whose two processes run, and no engine."""
    loopback.spec = RouterSpec.model_validate(SPEC)
    loopback.has_adapters = True
    loopback.write_adapters("".join(f"{'long-' * 40}{number}\n" for number in range(ADAPTERS)))
    loopback.write_keys(line("alice", ALICE))
    loopback.renew_certificate()
    (loopback.twin_metrics_port,) = free_ports(1)
    await loopback.start_router()
    await loopback.start_twin()
    return loopback


async def aborted(router: Loopback, readers: int, *, answers_wait: bool) -> None:
    """So many readers of each page at each moment; the same processes run after them."""
    workers, every = router.workers, pages(router).values()
    for name, moment in MOMENTS.items():
        asked = [page for page in every if not (page.may_wait and answers_wait and moment in FIRST_BYTES)]
        await abort_many(asked, moment, readers)
        assert router.workers == workers, name
    for page in every:
        if page.may_wait and answers_wait:
            await abort_while_they_wait(router, page, readers)
    assert router.workers == workers


@asynccontextmanager
async def asking(router: Loopback, statuses: Counter[int]) -> AsyncIterator[None]:
    """Some clients, each of which asks again and again on the connection that it keeps."""
    ended = asyncio.Event()

    async def client() -> None:
        async with aiohttp.ClientSession(headers=bearer(ALICE)) as session:
            while not ended.is_set():
                statuses[(await router.ask(session, gap=0)).status] += 1
                await asyncio.sleep(PACE_SECONDS)

    clients = [asyncio.create_task(client()) for _ in range(AT_ONCE)]
    try:
        yield
    finally:
        ended.set()
        async with asyncio.timeout(SOON):
            await asyncio.gather(*clients)


async def through_all_states(router: Loopback, readers: int) -> None:
    """At zero, while requests are held for the first engine, and under load."""
    workers, statuses = router.workers, Counter[int]()
    await aborted(router, readers, answers_wait=True)
    await router.until_idle()
    async with asking(router, statuses):
        await aborted(router, readers, answers_wait=False)
        await router.start_engine()
        await router.until_served(1)
        await router.until_twin_served(1)
        await aborted(router, readers, answers_wait=False)
    assert set(statuses) == {200}
    await router.until_idle()
    assert router.workers == workers


async def test_no_reader_that_goes_away_ends_a_router_or_keeps_it_busy(whole: Loopback) -> None:
    await through_all_states(whole, FEW)
    print(whole.log.read_text(), whole.twin_log.read_text())
