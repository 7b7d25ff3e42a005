"""Readers of every page of every port go away at every moment: no HAProxy ends, and none computes on."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from e2e.helpers.free_ports import free_ports
from e2e.router.loopback import Loopback
from e2e.router.readers import FIRST_BYTES, MOMENTS, Page, abort_many, abort_while_they_wait, pages
from e2e.router.test_keys import ALICE, bearer, line
from inference_operator.api.router import RouterSpec
from inference_operator.router.observe import HELD_PATH, MOST_WAITERS
from inference_operator.router.resources import MOST_BUFFER_BYTES

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
READERS = 16
MORE = 3
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


@pytest.mark.full
async def test_a_hundred_readers_of_each_page_that_go_away_at_each_moment_end_no_router(whole: Loopback) -> None:
    await through_all_states(whole, MANY)


async def test_readers_that_go_away_while_a_process_starts_do_not_end_it(whole: Loopback) -> None:
    await whole.kill_twin()
    second = [page for page in pages(whole).values() if page.port == whole.twin_metrics_port]
    starting = asyncio.create_task(whole.start_twin())
    while not starting.done():
        for moment in MOMENTS.values():
            if moment not in FIRST_BYTES:
                await abort_many(second, moment, AT_ONCE)
    await starting
    workers = whole.workers
    await whole.until_idle()
    assert (whole.workers, len(workers)) == (workers, 2)


async def test_a_client_that_goes_away_while_its_request_is_held_leaves_no_line_in_the_log(loopback: Loopback) -> None:
    loopback.spec = RouterSpec(accessLog="Disabled")
    await loopback.start_router()
    before = loopback.log.read_text()
    for body in (b"{}", b" " * 2 * MOST_BUFFER_BYTES):  # kept, or not
        request = b"POST /v1/completions HTTP/1.1\r\nHost: router\r\nContent-Length: %d\r\n\r\n" % len(body)
        page = Page(request + body, loopback.port)
        for _ in range(FEW):
            await abort_while_they_wait(loopback, page, READERS)
            await abort_many([page], MOMENTS["at once"], READERS)
    await loopback.until_idle()
    assert loopback.log.read_text() == before


async def test_an_address_has_some_pages_that_wait_and_more_are_answered_at_once(loopback: Loopback) -> None:
    """Another address, such as that of the operator, is not kept out."""
    await loopback.start_router()

    async def page(source: str) -> str:
        connector = aiohttp.TCPConnector(local_addr=(source, 0))
        async with aiohttp.ClientSession(connector=connector) as session:
            url = f"http://127.0.0.1:{loopback.metrics_port}{HELD_PATH}"
            async with session.get(url) as answer:
                return await answer.text()

    held = "inference_operator_router_held_requests"
    many = [asyncio.create_task(page("127.0.0.66")) for _ in range(MOST_WAITERS + MORE)]
    for answered in asyncio.as_completed(many, timeout=SOON):
        await answered
        if sum(task.done() for task in many) == MORE:
            break
    operator = asyncio.create_task(page("127.0.0.67"))
    await loopback.until_connected("metrics", MOST_WAITERS + 1)
    assert sum(task.done() for task in many) == MORE
    assert not operator.done()
    asked = asyncio.create_task(loopback.ask())
    async with asyncio.timeout(SOON):
        assert f"{held} 1\n" in await operator
        assert Counter(f"{held} 1\n" in text for text in await asyncio.gather(*many)) == {
            True: MOST_WAITERS,
            False: MORE,
        }
    await loopback.start_engine()
    assert (await asked).status == 200
