"""Limits of users at real HAProxy processes that ask each other."""

import asyncio
import re
import time
from collections.abc import AsyncIterator
from contextlib import suppress

import aiohttp
import pytest

from e2e.helpers.free_ports import free_ports
from e2e.router.fleet import Fleet
from e2e.router.loopback import START_SECONDS, Loopback
from e2e.router.test_keys import ALICE, BOB, METRICS_OF_USERS, bearer, line, status
from inference_operator.api.router import KeysSecretRef, RouterKeysSpec, RouterSpec
from inference_operator.router.observe import ROUTER_METRICS_PATH
from inference_operator.router.process import METRICS_PORTS

MOST = 20
CLIENTS = 120
KNOWN_SECONDS = 4
"""After its start, a process allows the whole limit until the others have answered."""


async def _start(loopback: Loopback, spec: RouterKeysSpec) -> None:
    (loopback.twin_metrics_port,) = free_ports(1)
    ports = ",".join(map(str, METRICS_PORTS))

    def change(text: str) -> str:
        text = text.replace(f" {ports}\n", f" {loopback.metrics_port},{loopback.twin_metrics_port}\n")
        return re.sub(r"server-template r .*", "server r1 127.0.0.1:1", text)

    loopback.change = change
    loopback.spec = RouterSpec(keys=spec, metrics=METRICS_OF_USERS)
    loopback.write_keys(line("alice", ALICE) + line("bob", BOB))
    await loopback.start_router()
    await loopback.start_twin()
    await loopback.start_engine()
    await loopback.until_served(1)
    await loopback.until_twin_served(1)
    await asyncio.sleep(KNOWN_SECONDS)


async def _total(loopback: Loopback, pattern: str) -> int:
    pages = [
        await loopback.metrics(ROUTER_METRICS_PATH, port=p) for p in (loopback.metrics_port, loopback.twin_metrics_port)
    ]
    return sum(int(n) for page in pages for n in re.findall(pattern, page))


async def test_requests_in_flight_of_a_user_are_limited_over_both_processes(loopback: Loopback) -> None:
    await _start(loopback, RouterKeysSpec(secretRef=KeysSecretRef(name="keys"), maxConcurrent=MOST))
    assert await loopback.checked_configuration() == ("", "")
    refused: list[tuple[str | None, dict[str, str]]] = []

    async def client() -> None:
        while True:
            async with (
                aiohttp.ClientSession() as own,
                own.post(f"{loopback.url}/v1/completions", json={"held": 1}, headers=bearer(ALICE)) as answer,
            ):
                if answer.status == 200:
                    return
                assert answer.status == 429
                refused.append((answer.headers.get("Retry-After"), (await answer.json())["error"]))
            await asyncio.sleep(0.2)

    clients = [asyncio.create_task(client()) for _ in range(CLIENTS)]
    deadline = time.monotonic() + START_SECONDS
    while len(refused) < 20 * CLIENTS:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.2)
    started = (await loopback.counts(loopback.engines[0]))["started"]
    assert 0.8 * MOST <= started <= 1.2 * MOST
    assert {(after, error["type"]) for after, error in refused} == {("1", "rate_limit_error")}
    assert await status(loopback, bearer(BOB)) == 200
    assert await _total(loopback, r'limited_requests_total\{user="alice",reason="concurrency"\} (\d+)') >= 20 * CLIENTS
    await loopback.release(loopback.engines[0])
    await asyncio.gather(*clients)


PER_MINUTE, IN_FLIGHT = 1200, 40
SPREADS = {"all at one": [1, *[0] * 31], "nine to one": [27, *[1] * 31], "even": [1] * 32}
"""Parts of a user's requests that each process gets."""
SETTLED_SECONDS, FORGOTTEN_SECONDS, MEASURED_SECONDS = 8, 16, 10
"""Until shares follow the requests; until who does not answer does not count any more; and of a measurement."""


@pytest.fixture
async def fleet(loopback: Loopback) -> AsyncIterator[Fleet]:
    """Two users' keys; the test sets limits and starts routers."""
    loopback.write_keys(line("alice", ALICE) + line("bob", BOB))
    fleet = Fleet(loopback)
    yield fleet
    await fleet.close()


async def _loaded(
    fleet: Fleet, weights: list[int], clients: int = 24, pause: float = 0.15, **body: float
) -> list[asyncio.Task[None]]:
    tasks = [asyncio.create_task(fleet.load(bearer(ALICE), weights, body, pause)) for _ in range(clients)]
    await asyncio.sleep(SETTLED_SECONDS)
    return tasks


async def _end(fleet: Fleet, tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    for ended in await asyncio.gather(*tasks, return_exceptions=True):
        assert isinstance(ended, asyncio.CancelledError), ended
    assert fleet.others == 0


async def _rate(fleet: Fleet) -> float:
    """Admitted requests, as a part of the limit of one process for the time that it took."""
    admitted, since = fleet.admitted, time.monotonic()
    await asyncio.sleep(MEASURED_SECONDS)
    seconds = time.monotonic() - since
    return (fleet.admitted - admitted) / (seconds * PER_MINUTE / 60)


@pytest.mark.parametrize(
    ("routers", "spread"),
    [
        (2, "nine to one"),
        pytest.param(2, "all at one", marks=pytest.mark.full),
        pytest.param(2, "even", marks=pytest.mark.full),
        pytest.param(16, "even", marks=pytest.mark.full),
        pytest.param(16, "nine to one", marks=pytest.mark.full),
    ],
)
async def test_the_rate_of_a_user_is_within_a_fifth_of_the_limit_over_routers_found_by_dns(
    fleet: Fleet, routers: int, spread: str
) -> None:
    fleet.loopback.spec = RouterSpec(
        keys=RouterKeysSpec(secretRef=KeysSecretRef(name="keys"), requestsPerMinute=PER_MINUTE)
    )
    await fleet.start(routers)
    tasks = await _loaded(fleet, SPREADS[spread])
    assert 0.8 <= await _rate(fleet) <= 1.2
    await _end(fleet, tasks)


@pytest.mark.full
@pytest.mark.parametrize(("routers", "spread"), [*((2, spread) for spread in SPREADS), (16, "even")])
async def test_a_users_requests_in_flight_are_within_a_fifth_of_the_limit_over_routers_found_by_dns(
    fleet: Fleet, routers: int, spread: str
) -> None:
    fleet.loopback.spec = RouterSpec(keys=RouterKeysSpec(secretRef=KeysSecretRef(name="keys"), maxConcurrent=IN_FLIGHT))
    await fleet.start(routers)
    tasks = await _loaded(fleet, SPREADS[spread], clients=100, pause=0.3, chunks=1, gap=4)
    seen = []
    for _ in range(4 * MEASURED_SECONDS):
        seen.append(fleet.running)
        await asyncio.sleep(0.25)
    assert 0.8 * IN_FLIGHT <= sum(seen) / len(seen) <= 1.2 * IN_FLIGHT
    assert 0 < min(seen) <= max(seen) <= 1.5 * IN_FLIGHT
    await _end(fleet, tasks)


@pytest.mark.full
async def test_the_rate_of_a_user_holds_when_a_router_dies_and_joins_and_is_finite_while_no_router_knows_another(
    fleet: Fleet,
) -> None:
    fleet.loopback.spec = RouterSpec(
        keys=RouterKeysSpec(secretRef=KeysSecretRef(name="keys"), requestsPerMinute=PER_MINUTE)
    )
    await fleet.start(2)
    tasks = await _loaded(fleet, SPREADS["even"], clients=48)
    await fleet.kill("127.0.60.2")
    await asyncio.sleep(FORGOTTEN_SECONDS)
    assert 0.8 <= await _rate(fleet) <= 1.2
    await fleet.join("127.0.60.2")
    await asyncio.sleep(SETTLED_SECONDS)
    assert 0.8 <= await _rate(fleet) <= 1.2
    fleet.hide()
    await asyncio.sleep(FORGOTTEN_SECONDS)
    assert 0.8 * 4 <= await _rate(fleet) <= 1.2 * 4
    fleet.name()
    await asyncio.sleep(SETTLED_SECONDS)
    assert 0.8 <= await _rate(fleet) <= 1.2
    await _end(fleet, tasks)


async def _stranger(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer as something that is no router: without an end, one byte after the other, or with a broken page."""
    address, port = writer.get_extra_info("sockname")
    piece = {("127.0.60.98", 9100): b"a" * 65536, ("127.0.60.98", 9101): b"process a\nalice 1 1\n" * 4096}.get(
        (address, port), b"a"
    )
    with suppress(OSError):
        writer.write(b"HTTP/1.0 200 OK\r\n\r\n")
        while address != "127.0.60.99":
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0 if len(piece) > 1 else 0.5)
        writer.write(b"process b\nalice 1000000 1000000\nen")
    writer.close()


@pytest.mark.full
async def test_the_rate_of_a_user_holds_while_dns_names_pods_that_are_no_routers(fleet: Fleet) -> None:
    strangers = [f"127.0.60.{number}" for number in (97, 98, 99)]
    servers = [await asyncio.start_server(_stranger, one, port) for one in strangers for port in METRICS_PORTS]
    fleet.loopback.spec = RouterSpec(
        keys=RouterKeysSpec(secretRef=KeysSecretRef(name="keys"), requestsPerMinute=PER_MINUTE)
    )
    await fleet.start(1)
    fleet.name(*strangers)
    await fleet.until_known(4)
    tasks = await _loaded(fleet, SPREADS["even"])
    assert 0.8 <= await _rate(fleet) <= 1.2
    await _end(fleet, tasks)
    for server in servers:
        server.close()
