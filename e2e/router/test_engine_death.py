"""Engines that die with requests in their hands: no request is lost whose answer has not begun and whose body fits."""

import asyncio
import io
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from e2e.localkube import debian_packages
from e2e.router.engine_deaths import CLIENTS, ENGINES, KEPT, WAYS, WITH_TLS, EngineDeaths, start
from e2e.router.loopback import POLL_SECONDS, Loopback
from e2e.runs.printed_figures import Say
from inference_operator.api.router import RouterSpec
from inference_operator.router.observe import METRIC_PREFIX, ROUTER_METRICS_PATH
from inference_operator.router.resources import buffered_body_bytes

KILLS, REQUESTS = 2, 1000
MANY_KILLS, MANY = 8, 10_000
SMALL_BYTES = 2 * 1024
ABOUT_BYTES = 64
"""What a body has beside its prompt, at most."""
SOON = 60.0
SOAK_KILLS, SOAK_KILL_SECONDS = 40, 30.0
"""20 minutes."""

FULL = pytest.param(MANY_KILLS, MANY, marks=pytest.mark.full)


async def _lost(loopback: Loopback) -> int:
    """The router's own count of requests that got 502 because their engine ended."""
    name = f"{METRIC_PREFIX}lost_requests_total "
    lines = (await loopback.metrics(ROUTER_METRICS_PATH)).splitlines()
    return sum(int(line.removeprefix(name)) for line in lines if line.startswith(name))


@pytest.mark.parametrize(("kills", "requests"), [(KILLS, REQUESTS), FULL])
@pytest.mark.parametrize("way", WAYS)
async def test_of_requests_that_fit_the_buffer_none_is_lost_while_engines_are_killed(
    loopback: Loopback, say: Say, way: str, kills: int, requests: int
) -> None:
    if way in WITH_TLS:
        loopback.spec = RouterSpec.model_validate({"tls": {"secretRef": {"name": "router-tls"}}})
    await start(loopback)
    for size in (SMALL_BYTES, buffered_body_bytes(loopback.spec) - ABOUT_BYTES):
        deaths = EngineDeaths(loopback, way, size)
        await deaths.run(kills=kills, at_least=requests)
        say(f"{way}, {size} bytes, {deaths.kills} kills: {dict(deaths.statuses)}")
        assert set(deaths.statuses) == {"200"}
        assert deaths.kills == kills
    assert await _lost(loopback) == 0


async def test_with_prefix_affinity_bodies_that_fit_the_buffer_are_not_lost(loopback: Loopback, say: Say) -> None:
    loopback.spec = RouterSpec.model_validate({"strategy": "PrefixAffinity"})
    await start(loopback)
    deaths = EngineDeaths(loopback, KEPT, buffered_body_bytes(loopback.spec) - ABOUT_BYTES)
    await deaths.run(kills=KILLS, at_least=REQUESTS)
    say(f"PrefixAffinity: {dict(deaths.statuses)}")
    assert set(deaths.statuses) == {"200"}


async def test_of_larger_bodies_only_those_at_the_killed_engine_are_lost_and_counted(
    loopback: Loopback, say: Say
) -> None:
    await start(loopback)
    deaths = EngineDeaths(loopback, KEPT, 2 * buffered_body_bytes(loopback.spec))
    await deaths.run(kills=KILLS, at_least=REQUESTS)
    say(f"larger bodies: {dict(deaths.statuses)}")
    assert set(deaths.statuses) <= {"200", "502"}
    assert deaths.statuses["502"] <= KILLS * CLIENTS
    assert await _lost(loopback) == deaths.statuses["502"]


async def test_a_lost_request_has_its_id(loopback: Loopback) -> None:
    await start(loopback)
    url, body = f"{loopback.url}/v1/completions", b'{"after": 3600, "prompt": "%s"}' % (b"x" * 2**20)
    asked = asyncio.ensure_future(loopback.session.post(url, data=io.BytesIO(body), headers={"X-Request-Id": "mine"}))
    async with asyncio.timeout(SOON):
        while not sum([(await loopback.counts(engine))["started"] for engine in loopback.engines]):  # noqa: ASYNC110 - engines tell nothing by themselves
            await asyncio.sleep(POLL_SECONDS)
    for engine in loopback.engines:
        engine.process.kill()
    async with await asyncio.wait_for(asked, SOON) as answer:
        assert (answer.status, answer.headers["X-Request-Id"]) == (502, "mine")


async def test_requests_of_the_only_engine_wait_until_it_is_back(loopback: Loopback) -> None:
    await loopback.start_router()
    engine = await loopback.start_engine()
    await loopback.until_served(1)
    asked = [asyncio.ensure_future(loopback.ask(held=1)) for _ in range(20)]
    await loopback.until_counted(engine, started=len(asked))
    engine.process.kill()
    await engine.process.wait()
    await loopback.until_served(0)
    loopback.engines.remove(engine)
    await loopback.restart_engine(engine)
    await loopback.release(loopback.engines[0])  # those that come later too
    answers = await asyncio.wait_for(asyncio.gather(*asked), SOON)
    assert {answer.status for answer in answers} == {200}


@contextmanager
def _cut_off(address: str) -> Iterator[None]:
    """Drop every packet from and to an address, as where a node loses its network."""
    if shutil.which("nft") is None and debian_packages.can_install():
        debian_packages.install(["nftables"])
    chain = f"type filter hook input priority 0; ip daddr {address} drop; ip saddr {address} drop;"
    subprocess.run(["nft", f"table inet engine_death {{ chain input {{ {chain} }}; }}"], check=True)
    try:
        yield
    finally:
        subprocess.run(["nft", "delete", "table", "inet", "engine_death"], check=True)


async def test_requests_of_a_node_that_is_cut_off_are_answered_by_other_engines(loopback: Loopback) -> None:
    await start(loopback)
    asked = [asyncio.ensure_future(loopback.ask(after=5)) for _ in range(CLIENTS)]
    await loopback.until_held(CLIENTS)
    with _cut_off(loopback.engines[0].address):
        later = [asyncio.ensure_future(loopback.ask()) for _ in range(CLIENTS)]
        answers = await asyncio.wait_for(asyncio.gather(*asked, *later), SOON)
    assert Counter(answer.status for answer in answers) == {200: 2 * CLIENTS}


async def test_while_engines_are_drained_and_replaced_none_is_lost(loopback: Loopback, say: Say) -> None:
    await start(loopback)
    deaths = EngineDeaths(loopback, KEPT, SMALL_BYTES)
    load = asyncio.ensure_future(deaths.run(kills=0, at_least=REQUESTS))
    for engine in list(loopback.engines):
        loopback.names.addresses.remove(engine.address)
        await loopback.until_served(ENGINES - 1)
        engine.process.terminate()
        await engine.process.wait()
        loopback.engines.remove(engine)
        await loopback.restart_engine(engine)
        loopback.names.addresses.append(engine.address)
        await loopback.until_served(ENGINES)
    await load
    say(f"replaced: {dict(deaths.statuses)}")
    assert set(deaths.statuses) == {"200"}


@pytest.mark.full
async def test_a_soak_with_a_kill_every_30_seconds_loses_nothing(loopback: Loopback, say: Say) -> None:
    await start(loopback)
    deaths = EngineDeaths(loopback, KEPT, buffered_body_bytes(loopback.spec) // 4)
    for _ in range(SOAK_KILLS):
        deaths.stopped = False
        pause = asyncio.ensure_future(asyncio.sleep(SOAK_KILL_SECONDS))
        await deaths.run(kills=1, at_least=deaths.statuses.total() + REQUESTS)
        await pause
    say(f"{deaths.kills} kills: {dict(deaths.statuses)}")
    assert set(deaths.statuses) == {"200"}
