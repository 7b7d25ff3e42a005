"""Answers of a router while engines are busy, absent, starting or killed, and while the router stops."""

import asyncio
import json
import time
from collections import Counter
from statistics import median

import aiohttp
import pytest
from yarl import URL

from e2e.router.loopback import ENGINES_HOST, Answer, Engine, Loopback
from inference_operator.api.container import ResourcesSpec
from inference_operator.api.router import RouterSpec
from inference_operator.router.clients import process_connections
from inference_operator.router.resources import PROCESSES

QUEUE = 20
AT_AN_ENGINE = 4
SOON = 60.0
"""Limit in seconds for steps that take two on an idle machine; the router's own timeouts are longer."""

Asked = list[asyncio.Task[Answer]]


@pytest.fixture(autouse=True)
def _small(loopback: Loopback) -> None:
    """Set limits that a test reaches with few requests."""
    loopback.spec = queue_of(QUEUE)
    loopback.engine_max_concurrency = AT_AN_ENGINE


def queue_of(size: int) -> RouterSpec:
    """The router section whose HAProxy processes hold or queue this many requests each."""
    return RouterSpec.model_validate({"queue": {"maxSize": PROCESSES * size}})


def statuses(answers: list[Answer]) -> dict[int, int]:
    assert all(answer.whole for answer in answers)
    return Counter(answer.status for answer in answers)


async def test_haproxy_accepts_the_configuration_without_a_warning(loopback: Loopback) -> None:
    await loopback.start_router()
    assert await loopback.checked_configuration() == ("", "")


@pytest.mark.parametrize(
    "path",
    [
        "/metrics",
        "/docs",
        "/v1/load_lora_adapter",
        "/v1",
        "/v1/completionsx",
        "//metrics",
        "/%6detrics",
        "/V1/completions",
        "/sleep",
    ],
)
async def test_only_paths_of_the_api_are_forwarded(loopback: Loopback, path: str) -> None:
    await loopback.start_router()
    async with loopback.session.get(URL(f"http://127.0.0.1:{loopback.port}{path}", encoded=True)) as answer:
        assert answer.status == 404
        assert (await answer.json())["error"]["code"] == "unknown_url"


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
    assert (refused[0].error_code, refused[0].retry_after) == ("queue_full", "2")
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


async def test_a_request_that_waited_too_long_gets_503(loopback: Loopback) -> None:
    loopback.spec = RouterSpec.model_validate({"coldStart": {"timeout": "3s"}, "queue": {"timeout": "3s"}})
    await loopback.start_router()
    begin = time.monotonic()
    held = await asyncio.wait_for(loopback.ask(), SOON)
    assert time.monotonic() - begin > 2.5
    assert (held.status, held.error_code, held.retry_after) == (503, "no_engine", "5")
    engine = await loopback.start_engine()
    await loopback.until_served(1)
    at_the_engine = [asyncio.ensure_future(loopback.ask(held=1)) for _ in range(AT_AN_ENGINE)]
    await loopback.until_counted(engine, started=AT_AN_ENGINE)
    assert statuses(await asyncio.gather(*(loopback.ask() for _ in range(2)))) == {503: 2}
    await loopback.release(engine)
    assert statuses(await asyncio.gather(*at_the_engine)) == {200: AT_AN_ENGINE}


async def test_a_killed_engine_loses_only_its_answers_that_had_begun(loopback: Loopback) -> None:
    await loopback.start_router()
    # Later requests of a kept connection: HAProxy closes it without an answer if it keeps those to engines too.
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
        again, broken = await asked(first)
        second = await loopback.start_engine()
        await loopback.until_served(2)
        answered, whole = await asked(second)
        first.process.kill()
        await first.process.wait()  # until then its port may still accept connections, and lose them
        assert [stream.whole for stream in await asyncio.gather(*broken)] == [False, False]
        await loopback.release(second)
        assert statuses(await asyncio.gather(*again, *answered, *whole)) == {200: 6}
        assert statuses([await loopback.ask(kept) for _ in range(50)]) == {200: 50}


async def slow_health_keeps_all(loopback: Loopback, *, seconds: float, requests: int) -> None:
    """Engines whose health path takes this long keep their requests, and get new ones."""
    loopback.engine_max_concurrency = requests
    await loopback.start_router()
    engines = [await loopback.start_engine(), await loopback.start_engine()]
    await loopback.until_served(2)
    for engine in engines:
        await loopback.slow_down(engine, seconds)
    asked = [asyncio.ensure_future(loopback.ask(held=1)) for _ in range(requests)]
    for engine in engines:
        await loopback.until_counted(engine, **{"slow health checks": 1})
    started = [(await loopback.counts(engine))["started"] for engine in engines]
    assert sum(started) == requests, "none is held in the router"
    await asyncio.gather(*(loopback.release(engine) for engine in engines))
    assert statuses(await asyncio.gather(*asked, *(loopback.ask() for _ in range(10)))) == {200: requests + 10}
    assert await loopback.metric("haproxy_server_check_failures_total") == 0
    assert "DOWN" not in loopback.log.read_text()


async def test_engines_that_answer_health_checks_late_lose_no_request_and_stay_in_use(loopback: Loopback) -> None:
    await slow_health_keeps_all(loopback, seconds=3, requests=100)


@pytest.mark.full
async def test_engines_that_answer_health_checks_after_20_s_under_400_requests_stay_in_use(loopback: Loopback) -> None:
    await slow_health_keeps_all(loopback, seconds=20, requests=400)


async def test_one_failed_connection_takes_a_killed_engine_out(loopback: Loopback) -> None:
    await loopback.start_router()
    killed, other = [await loopback.start_engine(), await loopback.start_engine()]
    await loopback.until_served(2)
    killed.process.kill()
    await killed.process.wait()
    assert statuses([await loopback.ask() for _ in range(50)]) == {200: 50}
    counts = await loopback.counts(other)
    again = [await loopback.metric(f"haproxy_backend_{kind}_warnings_total") for kind in ("retry", "redispatch")]
    assert (counts["started"], sum(again)) == (50, 1), "only one request met the killed engine"


async def test_running_requests_do_not_count_as_held_while_all_engines_are_down(loopback: Loopback) -> None:
    loopback.spec = RouterSpec()
    loopback.engine_max_concurrency = 256
    await loopback.start_router()
    engines = [await loopback.start_engine(), await loopback.start_engine()]
    await loopback.until_served(2)
    running = [asyncio.ensure_future(loopback.ask(held=1, chunks=2, gap=0)) for _ in range(300)]
    for engine in engines:
        await loopback.until_counted(engine, started=150)
    for engine in engines:
        engine.refuse()
        await loopback.until_refusing(engine.address, engine.port)
    held = [asyncio.ensure_future(loopback.ask()) for _ in range(100)]
    await loopback.until_held(len(running) + len(held))
    for engine in engines:
        engine.accept()
    assert statuses(await asyncio.wait_for(asyncio.gather(*held), SOON)) == {200: 100}
    await asyncio.gather(*(loopback.release(engine) for engine in engines))
    assert statuses(await asyncio.gather(*running)) == {200: 300}


async def test_beside_running_requests_at_most_queue_size_are_held_while_all_engines_are_down(
    loopback: Loopback,
) -> None:
    loopback.engine_max_concurrency = 2 * QUEUE
    await loopback.start_router()
    engine = await loopback.start_engine()
    await loopback.until_served(1)
    running = [asyncio.ensure_future(loopback.ask(held=1, chunks=2, gap=0)) for _ in range(2 * QUEUE - 1)]
    await loopback.until_counted(engine, started=len(running))
    engine.refuse()
    await loopback.until_refusing(engine.address, engine.port)
    held = [asyncio.ensure_future(loopback.ask()) for _ in range(QUEUE)]
    await loopback.until_held(len(running) + QUEUE)
    assert statuses(await asyncio.gather(*(loopback.ask() for _ in range(30)))) == {429: 30}
    engine.accept()
    assert statuses(await asyncio.wait_for(asyncio.gather(*held), SOON)) == {200: QUEUE}
    await loopback.release(engine)
    assert statuses(await asyncio.gather(*running)) == {200: 2 * QUEUE - 1}


async def test_connections_are_kept_to_clients_and_to_engines(loopback: Loopback) -> None:
    await loopback.start_router()
    await loopback.start_engine()
    await loopback.until_served(1)
    assert statuses([await loopback.ask() for _ in range(20)]) == {200: 20}
    made = await loopback.metric('haproxy_frontend_connections_total{proxy="api"}')
    reused = await loopback.metric('haproxy_server_connection_reuses_total{proxy="engines",server="e1"}')
    assert (made, reused) == (1, 19)


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
    assert await loopback.counts(engine) == {"started": 2, "left": 2, "slow health checks": 0}


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
    assert await loopback.counts(first) == {"started": 2, "left": 0, "slow health checks": 0}
    assert await loopback.counts(second) == {"started": 10, "left": 0, "slow health checks": 0}


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


async def test_a_stopping_router_ends_kept_connections_with_an_answer_more_often_than_while_they_are_idle(
    loopback: Loopback,
) -> None:
    await loopback.start_router()
    await loopback.start_engine()
    await loopback.until_served(1)

    async def last_header() -> str:
        """`Connection` of the last answer on a kept connection; empty if it was closed without an announcement."""
        header = ""
        async with aiohttp.ClientSession() as kept:
            while True:
                try:
                    async with kept.post(f"{loopback.url}/v1/completions", json={}) as response:
                        header = response.headers.get("Connection", "")
                        assert response.status == 200
                except aiohttp.ClientError:
                    return header
                await asyncio.sleep(0.01)

    clients = [asyncio.ensure_future(last_header()) for _ in range(20)]
    await asyncio.sleep(0.5)  # each has a kept connection by then
    loopback.soft_stop()
    headers = await asyncio.wait_for(asyncio.gather(*clients), SOON)
    assert headers.count("close") > len(clients) / 2, headers


async def test_engines_are_asked_by_the_name_of_their_service(loopback: Loopback) -> None:
    await loopback.start_router()
    await loopback.start_engine()
    await loopback.until_served(1)
    seen = []
    for given in ({"Host": "models.example"}, {"Host": "models.example", "X-Forwarded-Host": "outer.example"}):
        async with loopback.session.get(f"{loopback.url}/v1/models", headers=given) as response:
            headers = await response.json()
            seen.append((headers["Host"], headers["X-Forwarded-Host"]))
    assert seen == [(ENGINES_HOST, "models.example"), (ENGINES_HOST, "outer.example")]


async def test_a_router_with_an_ipv6_address_serves_both_families_and_finds_engines_by_aaaa_records(
    loopback: Loopback,
) -> None:
    loopback.pod_ips = "127.0.0.1,::1"
    await loopback.start_router()
    await loopback.start_engine("::1")
    await loopback.until_served(1)
    for host in ("[::1]", "127.0.0.1"):
        async with loopback.session.post(f"http://{host}:{loopback.port}/v1/completions", json={}) as response:
            assert response.status == 200
    await asyncio.sleep(3)  # three more rounds of DNS queries
    await loopback.until_served(1)
    assert "DOWN" not in loopback.log.read_text()


async def test_threads_and_connections_of_a_process_come_from_the_resources_of_the_router(loopback: Loopback) -> None:
    loopback.spec = RouterSpec(resources=ResourcesSpec(limits={"cpu": "4", "memory": "1Gi"}))
    await loopback.start_router()
    assert await loopback.metric("haproxy_process_nbthread") == 2
    assert await loopback.metric("haproxy_process_max_connections") == process_connections(loopback.spec)


async def test_when_one_of_two_haproxy_processes_dies_the_other_takes_new_requests(loopback: Loopback) -> None:
    await loopback.start_router()
    await loopback.start_twin()
    await loopback.start_engine()
    await loopback.until_served(1)
    # A kept connection would stay with one process.
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as renewing:
        while '"status": 200' not in loopback.twin_log.read_text():
            assert (await loopback.ask(renewing)).status == 200
        await loopback.kill_twin()
        assert statuses([await loopback.ask(renewing) for _ in range(200)]) == {200: 200}


async def test_the_router_logs_each_request_as_one_json_line_and_no_probe(loopback: Loopback) -> None:
    await loopback.start_router()
    engine = await loopback.start_engine()
    await loopback.until_served(1)
    await loopback.ask()
    async with loopback.session.get(f'http://127.0.0.1:{loopback.port}/v1/responses/"odd"name') as response:
        assert response.status == 404
    loopback.soft_stop()
    assert loopback.router is not None
    await loopback.router.wait()
    lines = [json.loads(line) for line in loopback.log.read_text().splitlines() if line.startswith("{")]
    assert [(line["status"], line["engine"]) for line in lines] == [(200, engine.address), (404, engine.address)]
