"""What users get from a router while engines are busy, absent, starting, dying, and while it stops itself."""

import asyncio
import json
import subprocess
import time
from collections import Counter
from statistics import median

import aiohttp
import pytest

from e2e.router.loopback import Answer, Loopback
from inference_operator.router import haproxy

QUEUE = 20
AT_AN_ENGINE = 4


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits that a test reaches with few requests."""
    monkeypatch.setattr(haproxy, "QUEUE_SIZE", QUEUE)
    monkeypatch.setattr(haproxy, "SERVER_MAX_CONNECTIONS", AT_AN_ENGINE)


def statuses(answers: list[Answer]) -> dict[int, int]:
    assert all(answer.whole for answer in answers)
    return Counter(answer.status for answer in answers)


async def test_haproxy_has_nothing_to_say_about_the_configuration(loopback: Loopback) -> None:
    await loopback.start_router()
    check = [*loopback.chrooted("haproxy", "-c", "-f", "/etc/haproxy/haproxy.cfg")]
    answer = await asyncio.to_thread(subprocess.run, check, capture_output=True, text=True, check=True)
    assert (answer.stdout, answer.stderr) == ("", "")


async def test_chunks_of_a_stream_do_not_wait_for_each_other(loopback: Loopback) -> None:
    await loopback.start_router()
    await loopback.start_engine()
    await loopback.until_served(1)
    answers = await asyncio.gather(*(loopback.ask(chunks=50, gap=0.02) for _ in range(AT_AN_ENGINE)))
    assert statuses(answers) == {200: AT_AN_ENGINE}
    assert median(lag for answer in answers for lag in answer.lags) < 0.02, "100 ms where chunks are batched"


async def test_what_does_not_fit_into_engines_and_queue_is_refused_at_once(loopback: Loopback) -> None:
    await loopback.start_router()
    await loopback.start_engine()
    await loopback.until_served(1)
    answers = await asyncio.gather(*(loopback.ask(delay=0.5) for _ in range(AT_AN_ENGINE + QUEUE + 6)))
    assert statuses(answers) == {200: AT_AN_ENGINE + QUEUE, 429: 6}
    refused = next(answer for answer in answers if answer.status == 429)
    assert (refused.error_code, refused.retry_after) == (429, "2")


async def test_without_engines_no_more_are_held_than_the_queue_takes(loopback: Loopback) -> None:
    await loopback.start_router()
    asked = [asyncio.ensure_future(loopback.ask()) for _ in range(QUEUE + 5)]
    for _ in range(60):  # arrivals at every moment of the one-second rhythm in which held requests are tried
        await asyncio.sleep(0.05)
        asked.append(asyncio.ensure_future(loopback.ask()))
    await asyncio.sleep(0.5)
    assert sum(not answer.done() for answer in asked) == QUEUE
    await loopback.start_engine()
    begin = time.monotonic()
    assert statuses(await asyncio.gather(*asked)) == {200: QUEUE, 429: 65}
    assert time.monotonic() - begin < 5


async def test_who_waited_long_enough_is_told_so(loopback: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(haproxy, "MAX_WAIT_SECONDS", 3)
    await loopback.start_router()
    begin = time.monotonic()
    held = await loopback.ask()
    assert 2.5 < time.monotonic() - begin < 6
    assert (held.status, held.error_code, held.retry_after) == (503, 503, "5")
    await loopback.start_engine()
    await loopback.until_served(1)
    answers = await asyncio.gather(*(loopback.ask(delay=6) for _ in range(AT_AN_ENGINE + 2)))
    assert statuses(answers) == {200: AT_AN_ENGINE, 503: 2}


async def test_only_what_a_dying_engine_had_is_lost_and_every_client_hears_of_it(loopback: Loopback) -> None:
    await loopback.start_router()
    first, _second = await loopback.start_engine(), await loopback.start_engine()
    await loopback.until_served(2)
    # Not their connections' first requests: those are the ones that HAProxy would leave without an answer.
    async with aiohttp.ClientSession() as kept:
        await asyncio.gather(*(loopback.ask(kept) for _ in range(4)))
        waiting = [asyncio.ensure_future(loopback.ask(kept, delay=2)) for _ in range(4)]
        streams = [asyncio.ensure_future(loopback.ask(chunks=40, gap=0.05)) for _ in range(4)]
        await asyncio.sleep(1)
        first.process.kill()
        answers = await asyncio.gather(*waiting)
        assert statuses(answers) == {200: 2, 502: 2}
        assert {answer.error_code for answer in answers if answer.status == 502} == {502}
        assert Counter(stream.whole for stream in await asyncio.gather(*streams)) == {True: 2, False: 2}
        assert statuses([await loopback.ask(kept) for _ in range(50)]) == {200: 50}


async def test_a_client_that_leaves_frees_its_engine(loopback: Loopback) -> None:
    await loopback.start_router()
    left_before = [asyncio.ensure_future(loopback.ask()) for _ in range(5)]
    await asyncio.sleep(0.5)
    for request in left_before:
        request.cancel()
    engine = await loopback.start_engine()
    await loopback.until_served(1)
    waiting = asyncio.ensure_future(loopback.ask(delay=60))
    stream = asyncio.ensure_future(loopback.ask(chunks=1000, gap=0.05))
    await asyncio.sleep(1)
    waiting.cancel()
    stream.cancel()
    await asyncio.sleep(1)
    assert await loopback.counts(engine) == {"started": 2, "left": 2}


async def test_an_engine_that_leaves_finishes_its_streams_and_gets_no_more(loopback: Loopback) -> None:
    await loopback.start_router()
    first, second = await loopback.start_engine(), await loopback.start_engine()
    await loopback.until_served(2)
    streams = [asyncio.ensure_future(loopback.ask(chunks=80, gap=0.05)) for _ in range(4)]
    await asyncio.sleep(0.5)
    loopback.names.addresses.remove(first.address)
    await loopback.until_served(1)
    before = await loopback.counts(first)
    assert statuses(await asyncio.gather(*(loopback.ask() for _ in range(10)))) == {200: 10}
    assert await loopback.counts(first) == before
    assert statuses(await asyncio.gather(*streams)) == {200: 4}
    assert (await loopback.counts(second))["started"] == 12


async def test_a_silent_name_server_loses_nothing(loopback: Loopback) -> None:
    await loopback.start_router()
    await loopback.start_engine()
    await loopback.until_served(1)
    loopback.names.silent = True
    for _ in range(20):
        assert (await loopback.ask()).status == 200
        await asyncio.sleep(0.25)


async def test_a_router_that_stops_finishes_what_it_has_and_leaves(loopback: Loopback) -> None:
    await loopback.start_router()
    await loopback.start_engine()
    await loopback.until_served(1)
    async with aiohttp.ClientSession() as kept:
        await loopback.ask(kept)
        in_flight = [asyncio.ensure_future(loopback.ask(chunks=40, gap=0.05)) for _ in range(2)]
        in_flight += [asyncio.ensure_future(loopback.ask(delay=2)) for _ in range(2)]
        await asyncio.sleep(0.5)
        loopback.soft_stop()
        await asyncio.sleep(0.5)
        assert (await loopback.ask()).status == 0, "others get the new connection"
        assert statuses(await asyncio.gather(*in_flight)) == {200: 4}
        assert loopback.router is not None
        assert await asyncio.wait_for(loopback.router.wait(), 5) == 0


async def test_each_request_is_one_line_of_json_and_probes_are_none(loopback: Loopback) -> None:
    await loopback.start_router()
    await loopback.start_engine()
    await loopback.until_served(1)
    await loopback.ask()
    async with loopback.session.get(f'http://127.0.0.1:{loopback.port}/v1/"odd\\name') as response:
        assert response.status == 404
    await asyncio.sleep(0.5)
    lines = [json.loads(line) for line in loopback.log.read_text().splitlines() if line.startswith("{")]
    assert [(line["status"], line["engine"]) for line in lines] == [(200, "e1"), (404, "e1")]
