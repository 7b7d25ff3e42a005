"""What clients get from a router that stops while it holds requests, because no engine is up."""

import asyncio
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import aiohttp

from e2e.router.loopback import POLL_SECONDS, Loopback
from inference_operator.objects.names import ROUTER, headless_service_name, service_host
from inference_operator.router.dns import DNS_UDP_SLOTS
from inference_operator.router.process import METRICS_PORTS

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


async def test_silent_routers_neither_hide_those_that_come_in_their_place_nor_keep_a_router_that_ends(
    loopback: Loopback,
) -> None:
    host = service_host(headless_service_name("loopback", ROUTER), "default", cluster_domain="cluster.local")
    with ExitStack() as until:
        for router in ("127.0.55", "127.0.56"):
            # As many as there are slots: each slot gets a new address while its question to the former one is open.
            addresses = {f"{router}.{number}" for number in range(1, DNS_UDP_SLOTS + 1)}
            for address in addresses:
                for port in METRICS_PORTS:
                    until.enter_context(_silent(address, port))
            loopback.names.others[host] = sorted(addresses)
            if not loopback.router:
                await loopback.start_router()
            await _until_asked(addresses)
        loopback.soft_stop()
        assert loopback.router is not None
        assert await asyncio.wait_for(loopback.router.wait(), SOON) == 0


@contextmanager
def _silent(address: str, port: int) -> Iterator[None]:
    """An address that answers nothing to whoever connects: its queue is full."""
    with socket.create_server((address, port), backlog=0), socket.create_connection((address, port)):
        yield


async def _until_asked(addresses: set[str]) -> None:
    """Wait until a connection to each is on its way (state 2 in proc(5), `/proc/net/tcp`)."""
    wanted = {socket.inet_aton(address)[::-1].hex().upper() for address in addresses}
    async with asyncio.timeout(SOON):
        while wanted:
            wanted -= _asked()
            await asyncio.sleep(POLL_SECONDS)


def _asked() -> set[str]:
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {line[2].partition(":")[0] for line in lines if line[3] == "02"}


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
