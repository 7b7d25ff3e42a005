"""Slow, idle and odd clients: a thousand honest requests beside each attack are all answered, and so is the probe."""

import asyncio
import re
from collections import Counter

import aiohttp
import pytest

from e2e.router.attacks import (
    ATTACKERS,
    BEGIN,
    DEEP,
    DEEP_ATTACKERS,
    DEEP_JSON,
    NO_BODY,
    ON_METRICS,
    ON_THE_API,
    Attack,
    attacked,
    sent,
    start_small,
)
from e2e.router.loopback import Loopback
from inference_operator.api.router import RouterSpec
from inference_operator.router.clients import (
    BODY_SECONDS,
    HEADERS_SECONDS,
    PAUSE_SECONDS,
    READ_SECONDS,
    SHARE,
    unfinished_bodies,
)
from inference_operator.router.long_bodies import SEARCHED_BYTES
from inference_operator.router.observe import ROUTER_METRICS_PATH
from inference_operator.router.process import HEALTH_PATH
from inference_operator.router.resources import LIMITS, MOST_BUFFER_BYTES

HONEST, AT_ONCE = 1_000, 8
HONEST_SECONDS = 30.0
"""Honest requests need two seconds on an idle machine; a client that gets no answer until then has lost its request."""
REFUSED = 5
SHORT_SECONDS = 1
"""What tests that wait for the end of these times make of them."""


@pytest.fixture
async def small(loopback: Loopback) -> Loopback:
    """A small router with one engine."""
    await start_small(loopback)
    return loopback


@pytest.fixture
def short(loopback: Loopback) -> None:
    """The times for bodies are short."""
    loopback.change = shortened


async def honest(router: Loopback) -> Counter[int]:
    """The statuses of honest requests of some clients, which connect now and keep their connections if they may."""
    statuses: Counter[int] = Counter()

    async def client() -> None:
        async with aiohttp.ClientSession() as session:
            for _ in range(HONEST // AT_ONCE):
                statuses[(await router.ask(session, gap=0)).status] += 1

    clients = [asyncio.create_task(client()) for _ in range(AT_ONCE)]
    _, lost = await asyncio.wait(clients, timeout=HONEST_SECONDS)
    for task in lost:
        task.cancel()
    await asyncio.gather(*lost, return_exceptions=True)
    return statuses


async def probes(router: Loopback) -> Counter[int]:
    """The statuses of probes, each on a connection of its own."""
    statuses: Counter[int] = Counter()
    for _ in range(AT_ONCE):
        url = f"http://127.0.0.1:{router.metrics_port}{HEALTH_PATH}"
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            statuses[answer.status] += 1
    return statuses


def shortened(text: str) -> str:
    """A configuration whose times for bodies are short."""
    text = text.replace(f"wait-for-body time {BODY_SECONDS}s", f"wait-for-body time {SHORT_SECONDS}s")
    return re.sub(rf"timeout client ({PAUSE_SECONDS}|{READ_SECONDS})s", f"timeout client {SHORT_SECONDS}s", text)


async def survives(router: Loopback, port: int, attack: Attack, attackers: int = ATTACKERS) -> None:
    """Check that an attack takes nothing from honest clients."""
    async with attacked(port, attack, attackers):
        assert await honest(router) == {200: HONEST}
        async with asyncio.timeout(HONEST_SECONDS):
            assert await probes(router) == {200: AT_ONCE}


@pytest.mark.parametrize("name", ON_THE_API)
async def test_no_honest_request_is_lost_beside(small: Loopback, name: str) -> None:
    await survives(small, small.port, ON_THE_API[name])


@pytest.mark.parametrize("name", ON_METRICS)
async def test_no_honest_request_is_lost_beside_on_the_metrics_port(small: Loopback, name: str) -> None:
    await survives(small, small.metrics_port, ON_METRICS[name])


async def test_no_honest_request_is_lost_beside_deep_json_in_requests_that_are_read_for_their_prefix(
    loopback: Loopback,
) -> None:
    await start_small(loopback, strategy="PrefixAffinity", resources={"limits": LIMITS})
    assert len(DEEP) < SEARCHED_BYTES, "the script reads all of it"
    await survives(loopback, loopback.port, sent(DEEP_JSON), DEEP_ATTACKERS)


@pytest.mark.usefixtures("short")
async def test_a_body_that_does_not_come_takes_no_place_at_an_engine_and_gets_408(small: Loopback) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", small.port)
    writer.write(NO_BODY)
    assert (await honest(small), await small.metric('haproxy_backend_sessions_total{proxy="engines"}')) == (
        {200: HONEST},
        HONEST,
    )
    assert (await reader.read()).startswith(b"HTTP/1.1 408 ")
    writer.close()


@pytest.mark.usefixtures("short")
async def test_an_answer_may_take_longer_than_a_client_may_pause(small: Loopback) -> None:
    stream = asyncio.create_task(small.ask(chunks=2, gap=2 * SHORT_SECONDS))
    whole = asyncio.create_task(small.ask(held=1))
    assert len((await stream).lags) == 2
    await small.release(small.engines[0])
    assert (await whole).status == 200


@pytest.mark.usefixtures("short")
async def test_a_long_body_that_pauses_gives_its_place_back(small: Loopback) -> None:
    """The buffer is full, so an engine has the request."""
    reader, writer = await asyncio.open_connection("127.0.0.1", small.port)
    size = 8 * MOST_BUFFER_BYTES
    writer.write(BEGIN + b"Content-Length: %d\r\n\r\n" % size + b" " * (size // 2))
    await small.until_held(1)
    assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
    writer.close()
    await small.until_held(0)


@pytest.mark.usefixtures("short")
async def test_an_address_has_so_many_bodies_on_their_way_and_then_gets_429(loopback: Loopback) -> None:
    await start_small(loopback, strategy="PrefixAffinity")
    most = SHARE * unfinished_bodies(loopback.spec) // (SHARE + 1)

    async def status() -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", loopback.port)
        writer.write(NO_BODY)
        answer = await reader.read()
        writer.close()
        return answer[9:12]

    async with asyncio.timeout(HONEST_SECONDS):
        answers = Counter(await asyncio.gather(*(status() for _ in range(most + REFUSED))))
        assert answers == {b"408": most, b"429": REFUSED}
        assert f'refused_requests_total{{reason="body"}} {REFUSED}\n' in await loopback.metrics(ROUTER_METRICS_PATH)
        answers = Counter(await asyncio.gather(*(status() for _ in range(most + REFUSED))))
    assert answers == {b"408": most, b"429": REFUSED}, "those that have ended do not count"


async def test_only_answers_of_engines_keep_a_connection(small: Loopback) -> None:
    asked = {HEALTH_PATH: 200, "/nothing": 404, "/v1/models": 200}
    told: dict[str, tuple[int, str | None]] = {}
    for path in asked:
        async with aiohttp.ClientSession() as session, session.get(f"{small.url}{path}") as answer:
            told[path] = (answer.status, answer.headers.get("Connection"))
    assert told == {HEALTH_PATH: (200, "close"), "/nothing": (404, "close"), "/v1/models": (200, None)}


async def test_a_tls_handshake_that_does_not_come_ends_its_connection(loopback: Loopback) -> None:
    handshake = f"timeout client-hs {HEADERS_SECONDS}s"
    loopback.spec = RouterSpec.model_validate({"tls": {"secretRef": {"name": "llm-tls"}}})
    loopback.change = lambda text: text.replace(handshake, f"timeout client-hs {SHORT_SECONDS}s")
    loopback.renew_certificate()
    await loopback.start_router()
    reader, writer = await asyncio.open_connection("127.0.0.1", loopback.tls_port)
    async with asyncio.timeout(HONEST_SECONDS):
        assert await reader.read() == b""
    writer.close()
