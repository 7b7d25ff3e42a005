"""Engines that die with requests in their hands: no request is lost whose answer has not begun and whose body fits."""

import asyncio
import json
import ssl
import subprocess
from asyncio.subprocess import DEVNULL, PIPE, create_subprocess_exec
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import aiohttp
import pytest

from e2e.router.loopback import Engine, Loopback
from e2e.said import Say
from inference_operator.api.router import RouterSpec
from inference_operator.router.observe import METRIC_PREFIX, ROUTER_METRICS_PATH
from inference_operator.router.resources import buffered_body_bytes

ENGINES = 3
CLIENTS = 32
AFTER = 0.05
"""Seconds that an engine computes before an answer begins."""
KILLS, KILL_SECONDS = 3, 1.0
REQUESTS = 1000
MANY, MANY_KILLS = 10_000, 8
SOON = 120.0
SOAK_SECONDS, SOAK_KILL_SECONDS = 20 * 60, 30.0

Outcomes = Counter[str]


async def _served(loopback: Loopback, engines: int = ENGINES) -> None:
    await loopback.start_router()
    for _ in range(engines):
        await loopback.start_engine()
    await loopback.until_served(engines)


async def _killed(loopback: Loopback, engine: Engine) -> None:
    """Kill an engine as the kernel does, and start it again at its address, as a container restarts."""
    engine.process.kill()
    await engine.process.wait()
    loopback.engines.remove(engine)
    await loopback._started(engine.address, engine.port)  # noqa: SLF001 - its address is in DNS already


async def _kill(loopback: Loopback, times: int, pause: float) -> None:
    for _ in range(times):
        await asyncio.sleep(pause)
        await _killed(loopback, loopback.engines[0])
        await loopback.until_served(ENGINES)


def _body(size: int) -> bytes:
    head = json.dumps({"after": AFTER})[:-1]
    return f'{head}, "pad": "{"x" * max(0, size - len(head) - 12)}"}}'.encode()


async def _outcome(session: aiohttp.ClientSession, url: str, body: bytes) -> str:
    try:
        async with session.post(url, data=body) as answer:
            await answer.read()
            return f"{answer.status} {'with an ID' if answer.headers.get('X-Request-Id') else 'without an ID'}"
    except (aiohttp.ClientError, OSError) as error:
        return type(error).__name__


async def _load(
    url: str, body: bytes, background: "asyncio.Future[None]", at_least: int, **options: object
) -> Outcomes:
    """The outcomes of all requests that clients send until the background has ended, and at least so many."""
    outcomes: Outcomes = Counter()
    connector = aiohttp.TCPConnector(limit=0, **options)  # type: ignore[arg-type]

    async def work(session: aiohttp.ClientSession) -> None:
        while not background.done() or outcomes.total() < at_least:
            outcomes[await _outcome(session, url, body)] += 1

    async with aiohttp.ClientSession(connector=connector) as session:
        await asyncio.gather(background, *(work(session) for _ in range(CLIENTS)))
    return outcomes


def _url(loopback: Loopback) -> str:
    return f"{loopback.url}/v1/completions"


async def _lost(loopback: Loopback) -> int:
    name = f"{METRIC_PREFIX}lost_requests_total "
    lines = (await loopback.metrics(ROUTER_METRICS_PATH)).splitlines()
    return sum(int(line.removeprefix(name)) for line in lines if line.startswith(name))


FULL = pytest.param(MANY, MANY_KILLS, marks=pytest.mark.full)


@pytest.mark.parametrize(("requests", "kills"), [(REQUESTS, KILLS), FULL])
@pytest.mark.parametrize("strategy", ["LeastOutstanding", "PrefixAffinity"])
@pytest.mark.parametrize("force_close", [False, True], ids=["kept connections", "new connections"])
async def test_of_requests_that_fit_the_buffer_none_is_lost_while_engines_are_killed(
    loopback: Loopback, say: Say, strategy: str, requests: int, kills: int, *, force_close: bool
) -> None:
    loopback.spec = RouterSpec.model_validate({"strategy": strategy})
    await _served(loopback)
    for size in (2 * 1024, buffered_body_bytes(loopback.spec)):
        killing = asyncio.ensure_future(_kill(loopback, kills, KILL_SECONDS))
        outcomes = await _load(_url(loopback), _body(size), killing, requests, force_close=force_close)
        say(f"{strategy}, {size} bytes, {dict(outcomes)}")
        assert set(outcomes) == {"200 with an ID"}
        assert outcomes.total() >= requests
    assert await _lost(loopback) == 0


@pytest.mark.parametrize(("requests", "kills"), [(REQUESTS, KILLS), FULL])
async def test_over_tls_none_is_lost_while_engines_are_killed(
    loopback: Loopback, say: Say, requests: int, kills: int
) -> None:
    loopback.spec = RouterSpec.model_validate({"tls": {"secretName": "router-tls"}})
    loopback.renew_certificate()
    await _served(loopback)
    context = ssl.create_default_context(cafile=str(loopback.authority))
    killing = asyncio.ensure_future(_kill(loopback, kills, KILL_SECONDS))
    url = f"https://localhost:{loopback.tls_port}/v1/completions"
    outcomes = await _load(url, _body(2048), killing, requests, ssl=context)
    say(f"TLS: {dict(outcomes)}")
    assert set(outcomes) == {"200 with an ID"}


@pytest.mark.parametrize(("requests", "kills"), [(REQUESTS, KILLS), FULL])
async def test_over_http_2_none_is_lost_while_engines_are_killed(
    loopback: Loopback, say: Say, requests: int, kills: int
) -> None:
    loopback.spec = RouterSpec.model_validate({"tls": {"secretName": "router-tls"}})
    loopback.renew_certificate()
    await _served(loopback)
    killing = asyncio.ensure_future(_kill(loopback, kills, KILL_SECONDS))
    codes: Counter[str] = Counter()
    while not killing.done() or codes.total() < requests:
        url = f"https://localhost:{loopback.tls_port}/v1/completions?[1-500]"
        options = ["--silent", "--parallel", f"--parallel-max={CLIENTS}", "--http2", f"--cacert={loopback.authority}"]
        options = [word for option in options for word in option.split("=", 1)]
        written = ["--output", "/dev/null", "--write-out", "%{http_version} %{http_code}\n"]
        curl = await create_subprocess_exec(
            "curl", *options, *written, "--data-binary", _body(2048).decode(), url, stdout=PIPE, stderr=DEVNULL
        )
        printed, _ = await curl.communicate()
        codes.update(printed.decode().splitlines())
    await killing
    say(f"HTTP/2: {dict(codes)}")
    assert set(codes) == {"2 200"}


async def test_of_larger_bodies_only_those_at_the_killed_engine_are_lost_each_a_502_with_its_id(
    loopback: Loopback, say: Say
) -> None:
    await _served(loopback)
    body = _body(2 * buffered_body_bytes(loopback.spec))
    killing = asyncio.ensure_future(_kill(loopback, KILLS, KILL_SECONDS))
    outcomes = await _load(_url(loopback), body, killing, REQUESTS)
    say(f"larger bodies: {dict(outcomes)}")
    assert set(outcomes) <= {"200 with an ID", "502 with an ID"}
    assert outcomes["502 with an ID"] <= KILLS * CLIENTS
    assert await _lost(loopback) == outcomes["502 with an ID"]


async def test_a_request_of_the_only_engine_waits_until_that_engine_is_back(loopback: Loopback) -> None:
    await _served(loopback, engines=1)
    (engine,) = loopback.engines
    asked = [asyncio.ensure_future(loopback.ask(held=1)) for _ in range(20)]
    await loopback.until_counted(engine, started=len(asked))
    await _killed(loopback, engine)
    await loopback.until_counted(loopback.engines[0], started=len(asked))
    await loopback.release(loopback.engines[0])
    assert {answer.status for answer in await asyncio.wait_for(asyncio.gather(*asked), SOON)} == {200}


@contextmanager
def _cut_off(address: str) -> Iterator[None]:
    """Drop every packet from and to an address, as where a node loses its network."""
    table = "engine_death"
    chain = f"type filter hook input priority 0; ip daddr {address} drop; ip saddr {address} drop;"
    subprocess.run(["nft", f"table inet {table} {{ chain input {{ {chain} }} }}"], check=True)
    try:
        yield
    finally:
        subprocess.run(["nft", "delete", "table", "inet", table], check=True)


async def test_requests_of_a_node_that_is_cut_off_are_answered_by_other_engines(loopback: Loopback) -> None:
    await _served(loopback)
    engine = loopback.engines[0]
    asked = [asyncio.ensure_future(loopback.ask(after=5)) for _ in range(CLIENTS)]
    await loopback.until_counted(engine, started=CLIENTS // ENGINES)
    with _cut_off(engine.address):
        later = [asyncio.ensure_future(loopback.ask(after=0)) for _ in range(CLIENTS)]
        answers = await asyncio.wait_for(asyncio.gather(*asked, *later), SOON)
    assert Counter(answer.status for answer in answers) == {200: 2 * CLIENTS}


@asynccontextmanager
async def _leaving(loopback: Loopback, engine: Engine) -> AsyncIterator[None]:
    """Take an engine out of DNS, as at the begin of its end."""
    loopback.names.addresses.remove(engine.address)
    await loopback.until_served(ENGINES - 1)
    yield
    loopback.names.addresses.append(engine.address)
    await loopback.until_served(ENGINES)


async def test_while_engines_are_rolled_none_is_lost(loopback: Loopback, say: Say) -> None:
    await _served(loopback)

    async def roll() -> None:
        for _ in range(ENGINES):
            engine = loopback.engines[0]
            async with _leaving(loopback, engine):
                await _killed(loopback, engine)

    outcomes = await _load(_url(loopback), _body(2048), asyncio.ensure_future(roll()), REQUESTS)
    say(f"rolled: {dict(outcomes)}")
    assert set(outcomes) == {"200 with an ID"}


@pytest.mark.full
async def test_a_soak_with_a_kill_every_30_seconds_loses_nothing(loopback: Loopback, say: Say) -> None:
    await _served(loopback)
    kills = int(SOAK_SECONDS / SOAK_KILL_SECONDS)
    killing = asyncio.ensure_future(_kill(loopback, kills, SOAK_KILL_SECONDS))
    outcomes = await _load(_url(loopback), _body(16 * 1024), killing, MANY)
    say(f"{kills} kills: {dict(outcomes)}")
    assert set(outcomes) == {"200 with an ID"}
