"""What clients get from a router that stops while it holds requests, because no engine is up."""

import asyncio
from collections import Counter

import aiohttp

from e2e.router.loopback import Loopback

HELD = 20
LONG, SHORT = 600, 2
"""Drain times in seconds: one that no test reaches, and one that passes while requests are held."""
SOON = 60.0
"""Limit in seconds for steps that take two on an idle machine."""


async def test_requests_held_by_a_stopping_router_are_served_when_an_engine_comes_up(loopback: Loopback) -> None:
    await loopback.start_router()
    held = [asyncio.ensure_future(loopback.ask()) for _ in range(HELD - 5)]
    held += [asyncio.ensure_future(loopback.ask(chunks=9, gap=0.05)) for _ in range(5)]
    await loopback.until_held(HELD)
    hook = asyncio.ensure_future(loopback.stop_hook(drain_seconds=LONG))
    await asyncio.sleep(2)  # the hook asks several times
    assert not hook.done()
    engine = await loopback.start_engine()
    assert await asyncio.wait_for(hook, SOON) == 0
    loopback.soft_stop()
    answers = await asyncio.gather(*held)
    assert Counter((answer.status, answer.whole) for answer in answers) == {(200, True): HELD}
    assert (await loopback.counts(engine))["started"] == HELD
    assert loopback.router is not None
    assert await asyncio.wait_for(loopback.router.wait(), SOON) == 0


async def test_requests_held_longer_than_the_drain_time_get_503_with_retry_after(loopback: Loopback) -> None:
    await loopback.start_router()
    held = [asyncio.ensure_future(loopback.ask()) for _ in range(HELD)]
    await loopback.until_held(HELD)
    assert await asyncio.wait_for(loopback.stop_hook(drain_seconds=SHORT), SOON) == 0
    loopback.soft_stop()
    answers = await asyncio.gather(*held)
    assert Counter((answer.status, answer.whole, answer.retry_after) for answer in answers) == {(503, True, "5"): HELD}
    assert {answer.error_code for answer in answers} == {"no_engine"}


async def test_a_router_without_held_requests_stops_without_waiting_for_streams(loopback: Loopback) -> None:
    await loopback.start_router()
    engine = await loopback.start_engine()
    await loopback.until_served(1)
    stream = asyncio.ensure_future(loopback.ask(held=1, chunks=3, gap=0.05))
    await loopback.until_counted(engine, started=1)
    assert await asyncio.wait_for(loopback.stop_hook(drain_seconds=LONG), SOON) == 0
    loopback.soft_stop()
    await loopback.release(engine)
    assert (await stream).status == 200


async def test_a_router_that_will_stop_tells_clients_to_close_their_connections_while_it_still_accepts_new_ones(
    loopback: Loopback,
) -> None:
    await loopback.start_router()
    await loopback.start_engine()
    await loopback.until_served(1)
    async with aiohttp.ClientSession() as client:
        assert await _said_of_the_connection(client, loopback) == [None, "close"], "an answer of the router itself"
        assert await asyncio.wait_for(loopback.stop_hook(drain_seconds=LONG), SOON) == 0
        assert await _said_of_the_connection(client, loopback) == ["close", "close"]
        answer = await loopback.ask(client, chunks=3, gap=0)
    assert (answer.status, answer.whole) == (200, True)


async def _said_of_the_connection(client: aiohttp.ClientSession, loopback: Loopback) -> list[str | None]:
    """The header `Connection` of an engine's answer, and of one that the router gives itself."""
    said = []
    for path, status in (("/v1/models", 200), ("/metrics", 404)):
        async with client.get(f"{loopback.url}{path}") as response:
            assert response.status == status
            said.append(response.headers.get("Connection"))
    return said
