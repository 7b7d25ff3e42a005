"""A cluster's DNS that answers from a cache, late, or not at all."""

import asyncio
import time
from collections import Counter

import pytest

from e2e.router.loopback import POLL_SECONDS, START_SECONDS, Loopback
from inference_operator.router.deployment import haproxy_command
from inference_operator.settings import Settings

CLIENTS = 8
NODE_LOCAL_SECONDS = 30
"""How long NodeLocal DNSCache keeps an answer (`success 9984 30` of Kubernetes' nodelocaldns.yaml)."""


async def ask_until(loopback: Loopback, stop: asyncio.Event) -> Counter[int]:
    """Ask again and again until told to stop; the numbers of answers by status."""
    answers: Counter[int] = Counter()
    while not stop.is_set():
        answers[(await loopback.ask()).status] += 1
    return answers


@pytest.mark.parametrize(
    ("cached_seconds", "staleness_seconds"),
    [
        pytest.param(3, 8, id="a cache of 3 s"),
        pytest.param(
            NODE_LOCAL_SECONDS, Settings().dns_staleness_seconds, id="NodeLocal DNSCache", marks=pytest.mark.full
        ),
    ],
)
async def test_no_request_is_lost_while_a_cache_names_a_stopping_engine_that_serves_for_the_staleness(
    loopback: Loopback, cached_seconds: int, staleness_seconds: int
) -> None:
    await loopback.start_router()
    going = await loopback.start_engine()
    await loopback.start_engine()
    await loopback.until_served(2)
    loopback.names.cached_seconds = cached_seconds
    await asyncio.sleep(2)  # the cache has just been filled with both, the worst case
    stop = asyncio.Event()
    clients = [asyncio.ensure_future(ask_until(loopback, stop)) for _ in range(CLIENTS)]
    loopback.names.addresses.remove(going.address)
    # What the engine's preStop hook does: it serves until no DNS server names it.
    await asyncio.sleep(staleness_seconds)
    assert loopback.names.addresses == [loopback.engines[1].address]
    before = (await loopback.counts(going))["started"]
    going.refuse()
    await loopback.until_refusing(going.address, going.port)
    await asyncio.sleep(1)
    stop.set()
    answers: Counter[int] = sum(await asyncio.gather(*clients), Counter())
    assert before > 0
    assert set(answers) == {200}
    assert await loopback.metric('haproxy_backend_retry_warnings_total{proxy="engines"}') == 0


async def test_a_dns_server_that_answers_after_two_seconds_is_understood(loopback: Loopback) -> None:
    loopback.names.delay_seconds = 2.0
    await loopback.start_router()
    await loopback.start_engine()
    await loopback.until_served(1)
    assert (await loopback.ask()).status == 200
    await loopback.start_engine()
    await loopback.until_served(2)
    loopback.names.addresses.pop(0)
    await loopback.until_served(1)


@pytest.mark.parametrize("seconds", [12, pytest.param(240, marks=pytest.mark.full)])
async def test_engines_stay_known_while_no_dns_server_answers(loopback: Loopback, seconds: int) -> None:
    await loopback.start_router()
    await loopback.start_engine()
    await loopback.until_served(1)
    loopback.names.silent = True
    stop = asyncio.Event()
    clients = [asyncio.ensure_future(ask_until(loopback, stop)) for _ in range(CLIENTS)]
    await asyncio.sleep(seconds)
    stop.set()
    answers: Counter[int] = sum(await asyncio.gather(*clients), Counter())
    assert set(answers) == {200}
    loopback.names.silent = False
    await loopback.start_engine()
    await loopback.until_served(2)


async def test_many_engines_are_found_over_tcp(loopback: Loopback) -> None:
    """Their addresses do not fit a UDP packet that no network divides."""
    loopback.slots = 128
    loopback.command = haproxy_command(loopback.slots)
    await loopback.start_router()
    assert await loopback.checked_configuration() == ("", "")
    await loopback.start_engine()
    absent = [f"127.0.54.{number}" for number in range(100, 200)]
    loopback.names.addresses += absent
    await loopback.until_served(1)
    deadline = time.monotonic() + START_SECONDS
    while (await loopback.metrics("/stats;csv")).count(",DOWN") < len(absent):
        assert time.monotonic() < deadline
        await asyncio.sleep(POLL_SECONDS)
    assert loopback.names.over_tcp > 0
    assert (await loopback.ask()).status == 200
