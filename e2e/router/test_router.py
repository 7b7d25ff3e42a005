"""Answers of a router while engines are busy, absent, starting or killed, and while the router stops."""

import asyncio
import json
import subprocess
import time
from collections import Counter
from statistics import median

import aiohttp
import pytest

from e2e.router.loopback import Answer, Engine, Loopback
from inference_operator.router import haproxy

QUEUE = 20
AT_AN_ENGINE = 4
SOON = 60.0
"""Limit in seconds for steps that take two on an idle machine; the router's own timeouts are longer."""

Asked = list[asyncio.Task[Answer]]


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch, loopback: Loopback) -> None:
    """Set limits that a test reaches with few requests."""
    monkeypatch.setattr(haproxy, "QUEUE_SIZE", QUEUE)
    loopback.engine_max_concurrency = AT_AN_ENGINE * len(haproxy.METRICS_PORTS)


def statuses(answers: list[Answer]) -> dict[int, int]:
    assert all(answer.whole for answer in answers)
    return Counter(answer.status for answer in answers)


async def test_haproxy_accepts_the_configuration_without_a_warning(loopback: Loopback) -> None:
    await loopback.start_router()
    check = [*loopback.chrooted("haproxy", "-c", "-f", "/etc/haproxy/haproxy.cfg")]
    answer = await asyncio.to_thread(subprocess.run, check, capture_output=True, text=True, check=True)
    assert (answer.stdout, answer.stderr) == ("", "")


async def test_chunks_of_a_stream_do_not_wait_for_each_other(loopback: Loopback) -> None:
    await loopback.start_router()
    await loopback.start_engine()
    await loopback.until_served(1)
    gap = 0.05
    answers = await asyncio.gather(*(loopback.ask(chunks=30, gap=gap) for _ in range(AT_AN_ENGINE)))
    assert statuses(answers) == {200: AT_AN_ENGINE}
    assert median(lag for answer in answers for lag in answer.lags) < gap, "100 ms where chunks are batched"


async def test_requests_beyond_engines_and_queue_get_429_at_once(loopback: Loopback) -> None:
    await loopback.start_router()
    engine = await loopback.start_engine()
    await loopback.until_served(1)
    taken = [asyncio.ensure_future(loopback.ask(held=1)) for _ in range(AT_AN_ENGINE + QUEUE)]
    await loopback.until_queued(QUEUE)
    refused = await asyncio.gather(*(loopback.ask() for _ in range(6)))
    assert statuses(refused) == {429: 6}
    assert (refused[0].error_code, refused[0].retry_after) == (429, "2")
    await loopback.release(engine)
    assert statuses(await asyncio.gather(*taken)) == {200: AT_AN_ENGINE + QUEUE}


async def test_without_engines_the_router_holds_at_most_queue_size_requests(loopback: Loopback) -> None:
    await loopback.start_router()
    held = [asyncio.ensure_future(loopback.ask()) for _ in range(QUEUE)]
    await loopback.until_held(QUEUE)
    for _ in range(60):  # HAProxy retries held requests once a second: requests arrive at all moments of that second
        assert (await loopback.ask()).status == 429
        await asyncio.sleep(0.05)
    assert not any(answer.done() for answer in held)
    await loopback.start_engine()
    assert statuses(await asyncio.wait_for(asyncio.gather(*held), SOON)) == {200: QUEUE}


async def test_a_request_that_waited_too_long_in_the_queue_gets_503(
    loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(haproxy, "MAX_WAIT_SECONDS", 3)
    await loopback.start_router()
    begin = time.monotonic()
    held = await asyncio.wait_for(loopback.ask(), SOON)
    assert time.monotonic() - begin > 2.5
    assert (held.status, held.error_code, held.retry_after) == (503, 503, "5")
    engine = await loopback.start_engine()
    await loopback.until_served(1)
    at_the_engine = [asyncio.ensure_future(loopback.ask(held=1)) for _ in range(AT_AN_ENGINE)]
    await loopback.until_counted(engine, started=AT_AN_ENGINE)
    assert statuses(await asyncio.gather(*(loopback.ask() for _ in range(2)))) == {503: 2}
    await loopback.release(engine)
    assert statuses(await asyncio.gather(*at_the_engine)) == {200: AT_AN_ENGINE}


async def test_a_killed_engine_loses_only_its_own_requests_and_clients_get_an_error(loopback: Loopback) -> None:
    await loopback.start_router()
    # Later requests of a kept connection: by default HAProxy closes it without an answer if one of them fails.
    async with aiohttp.ClientSession() as kept:

        async def asked(engine: Engine) -> tuple[Asked, Asked]:
            """Fill the only engine with free capacity: so it does not depend on balancing which engine gets them."""
            before = (await loopback.counts(engine))["started"]
            waiting = [asyncio.ensure_future(loopback.ask(kept, held=1)) for _ in range(AT_AN_ENGINE // 2)]
            streams = [asyncio.ensure_future(loopback.ask(held=1, chunks=9, gap=0)) for _ in range(AT_AN_ENGINE // 2)]
            await loopback.until_counted(engine, started=before + AT_AN_ENGINE)
            return waiting, streams

        first = await loopback.start_engine()
        await loopback.until_served(1)
        await asyncio.gather(*(loopback.ask(kept) for _ in range(4)))
        lost, broken = await asked(first)
        second = await loopback.start_engine()
        await loopback.until_served(2)
        answered, whole = await asked(second)
        first.process.kill()
        await first.process.wait()  # until then its port may still accept connections, and lose them
        answers = await asyncio.gather(*lost)
        assert statuses(answers) == {502: 2}
        assert {answer.error_code for answer in answers} == {502}
        assert [stream.whole for stream in await asyncio.gather(*broken)] == [False, False]
        await loopback.release(second)
        assert statuses(await asyncio.gather(*answered, *whole)) == {200: 4}
        assert statuses([await loopback.ask(kept) for _ in range(50)]) == {200: 50}


async def test_a_client_that_disconnects_frees_capacity_at_the_engine(loopback: Loopback) -> None:
    await loopback.start_router()
    left_before = [asyncio.ensure_future(loopback.ask()) for _ in range(5)]
    await loopback.until_held(5)
    for request in left_before:
        request.cancel()
    engine = await loopback.start_engine()
    await loopback.until_served(1)
    waiting = asyncio.ensure_future(loopback.ask(held=1))
    stream = asyncio.ensure_future(loopback.ask(chunks=100_000, gap=0.05))
    await loopback.until_counted(engine, started=2)
    waiting.cancel()
    stream.cancel()
    await loopback.until_counted(engine, left=2)
    await asyncio.sleep(1.5)  # longer than the second after which HAProxy retries held requests
    assert await loopback.counts(engine) == {"started": 2, "left": 2}


async def test_an_engine_removed_from_dns_finishes_its_streams_and_gets_no_new_requests(loopback: Loopback) -> None:
    await loopback.start_router()
    first = await loopback.start_engine()
    await loopback.until_served(1)
    streams = [asyncio.ensure_future(loopback.ask(held=1, chunks=9, gap=0.05)) for _ in range(2)]
    await loopback.until_counted(first, started=2)
    second = await loopback.start_engine()
    await loopback.until_served(2)
    loopback.names.addresses.remove(first.address)
    await loopback.until_served(1)
    assert statuses(await asyncio.gather(*(loopback.ask() for _ in range(10)))) == {200: 10}
    await loopback.release(first)
    assert statuses(await asyncio.gather(*streams)) == {200: 2}
    assert await loopback.counts(first) == {"started": 2, "left": 0}
    assert await loopback.counts(second) == {"started": 10, "left": 0}


async def test_a_silent_name_server_loses_no_request(loopback: Loopback) -> None:
    await loopback.start_router()
    await loopback.start_engine()
    await loopback.until_served(1)
    loopback.names.silent = True
    for _ in range(20):
        assert (await loopback.ask()).status == 200
        await asyncio.sleep(0.25)


async def test_a_stopping_router_finishes_its_requests_and_ends(loopback: Loopback) -> None:
    await loopback.start_router()
    engine = await loopback.start_engine()
    await loopback.until_served(1)
    async with aiohttp.ClientSession() as kept:
        await loopback.ask(kept)
        # Fewer than the engine's limit, so that the probes of `until_refused` do not queue behind them.
        in_flight = [asyncio.ensure_future(loopback.ask(held=1))]
        in_flight += [asyncio.ensure_future(loopback.ask(held=1, chunks=9, gap=0.05))]
        await loopback.until_counted(engine, started=3)
        loopback.soft_stop()
        await loopback.until_refused()  # in a cluster, other routers get the new connections
        await loopback.release(engine)
        assert statuses(await asyncio.gather(*in_flight)) == {200: 2}
        assert loopback.router is not None
        assert await asyncio.wait_for(loopback.router.wait(), SOON) == 0


async def test_when_one_of_two_haproxy_processes_dies_the_other_takes_new_requests(loopback: Loopback) -> None:
    await loopback.start_router()
    await loopback.start_twin()
    await loopback.start_engine()
    await loopback.until_served(1)
    while '"status": 200' not in loopback.twin_log.read_text():
        assert (await loopback.ask()).status == 200
    await loopback.kill_twin()
    assert statuses([await loopback.ask() for _ in range(200)]) == {200: 200}


async def test_the_router_logs_each_request_as_one_json_line_and_no_probe(loopback: Loopback) -> None:
    await loopback.start_router()
    await loopback.start_engine()
    await loopback.until_served(1)
    await loopback.ask()
    async with loopback.session.get(f'http://127.0.0.1:{loopback.port}/v1/"odd\\name') as response:
        assert response.status == 404
    loopback.soft_stop()
    assert loopback.router is not None
    await loopback.router.wait()
    lines = [json.loads(line) for line in loopback.log.read_text().splitlines() if line.startswith("{")]
    assert [(line["status"], line["engine"]) for line in lines] == [(200, "e1"), (404, "e1")]
