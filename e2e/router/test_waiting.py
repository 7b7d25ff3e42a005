"""Requests that wait in a router: how many, how long, and what is answered without an engine."""

import asyncio
import io
from collections import Counter
from collections.abc import Sequence

import aiohttp
import pytest
from yarl import URL

from e2e.router.loopback import POLL_SECONDS, Answer, Loopback
from inference_operator.api.router import RouterSpec
from inference_operator.router.stats import SAMPLE_PATH, router_sample
from inference_operator.views.samples import RouterSample

SOON = 60.0
"""Limit in seconds for steps that take two on an idle machine."""
CLIENTS, LIMIT = 150, 100
SIX_MINUTES = 360.0

Asked = list[asyncio.Task[Answer]]


def _spec(**fields: object) -> RouterSpec:
    return RouterSpec.model_validate(fields)


def _statuses(answers: Sequence[Answer]) -> dict[int, int]:
    assert all(answer.whole for answer in answers)
    return Counter(answer.status for answer in answers)


async def _sample(loopback: Loopback, *, port: int = 0) -> RouterSample:
    sample = router_sample(await loopback.metrics(SAMPLE_PATH, port=port))
    assert sample is not None
    return sample


async def _until_waiting(loopback: Loopback, number: int) -> None:
    """Wait until both processes of the router together hold this many requests."""
    async with asyncio.timeout(SOON):
        while True:
            samples = [await _sample(loopback, port=port) for port in _ports(loopback)]
            if sum(sample.held for sample in samples) == number:
                return
            await asyncio.sleep(POLL_SECONDS)


def _ports(loopback: Loopback) -> list[int]:
    return [port for port in (loopback.metrics_port, loopback.twin_metrics_port) if port]


def _renewing() -> aiohttp.ClientSession:
    """A session that makes a connection for each request, as many separate clients do."""
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True, limit=0))


async def test_of_150_clients_at_a_limit_of_100_the_two_processes_hold_80_to_100_and_refuse_the_others(
    loopback: Loopback,
) -> None:
    loopback.spec = _spec(queue={"maxSize": LIMIT})
    await loopback.start_router()
    await loopback.start_twin()
    async with _renewing() as clients:
        asked = [asyncio.ensure_future(loopback.ask(clients)) for _ in range(CLIENTS)]
        done: set[asyncio.Task[Answer]] = set()
        async with asyncio.timeout(SOON):
            while True:
                done = {one for one in asked if one.done()}
                held = [(await _sample(loopback, port=port)).held for port in _ports(loopback)]
                if len(done) + sum(held) == CLIENTS:
                    break
                await asyncio.sleep(POLL_SECONDS)
        assert 80 <= sum(held) <= LIMIT, held
        assert max(held) <= LIMIT / 2, "each process has half of the limit"
        refused = [one.result() for one in done]
        assert {(one.status, one.error_code, one.retry_after) for one in refused} == {(429, "queue_full", "2")}
        engine = await loopback.start_engine()
        answers = await asyncio.wait_for(asyncio.gather(*asked), SOON)
        assert _statuses(answers) == {200: sum(held), 429: len(refused)}
        assert (await loopback.counts(engine))["started"] == sum(held)


async def test_held_requests_of_clients_that_leave_are_dropped_and_never_reach_an_engine(loopback: Loopback) -> None:
    await loopback.start_router()
    await loopback.start_twin()
    async with _renewing() as clients:
        leaving = [asyncio.ensure_future(loopback.ask(clients)) for _ in range(30)]
        staying = [asyncio.ensure_future(loopback.ask(clients)) for _ in range(10)]
        await _until_waiting(loopback, 40)
        for one in leaving:
            one.cancel()
        await _until_waiting(loopback, 10)
        engine = await loopback.start_engine()
        assert _statuses(await asyncio.wait_for(asyncio.gather(*staying), SOON)) == {200: 10}
        assert (await loopback.counts(engine))["started"] == 10


async def test_queued_requests_of_clients_that_leave_are_dropped_and_never_reach_an_engine(loopback: Loopback) -> None:
    loopback.engine_max_concurrency = 1
    await loopback.start_router()
    engine = await loopback.start_engine()
    await loopback.until_served(1)
    running = asyncio.ensure_future(loopback.ask(held=1))
    await loopback.until_counted(engine, started=1)
    leaving = [asyncio.ensure_future(loopback.ask()) for _ in range(9)]
    await loopback.until_queued(9)
    for one in leaving:
        one.cancel()
    await loopback.until_queued(0)
    await loopback.release(engine)
    assert (await running).status == 200
    assert (await loopback.ask()).status == 200
    assert (await loopback.counts(engine))["started"] == 2


async def test_max_wait_ends_a_hold_and_not_a_wait_in_the_queue(loopback: Loopback) -> None:
    loopback.engine_max_concurrency = 1
    loopback.spec = _spec(coldStart={"timeout": "3s"})
    await loopback.start_router()
    held = await asyncio.wait_for(loopback.ask(), SOON)
    assert (held.status, held.error_code, held.retry_after) == (503, "no_engine", "5")
    engine = await loopback.start_engine()
    await loopback.until_served(1)
    running = asyncio.ensure_future(loopback.ask(held=1))
    await loopback.until_counted(engine, started=1)
    queued = asyncio.ensure_future(loopback.ask())
    await loopback.until_queued(1)
    await asyncio.sleep(5)  # more than `coldStart.timeout`
    assert not queued.done()
    await loopback.release(engine)
    assert _statuses(await asyncio.gather(running, queued)) == {200: 2}


async def test_the_timeout_of_the_queue_ends_a_wait_in_the_queue_and_not_a_hold(loopback: Loopback) -> None:
    loopback.engine_max_concurrency = 1
    loopback.spec = _spec(queue={"timeout": "3s"})
    await loopback.start_router()
    held = asyncio.ensure_future(loopback.ask(held=1))
    await loopback.until_held(1)
    await asyncio.sleep(5)  # more than the timeout of the queue
    assert not held.done()
    engine = await loopback.start_engine()
    await loopback.until_counted(engine, started=1)
    queued = await asyncio.wait_for(loopback.ask(), SOON)
    assert (queued.status, queued.error_code, queued.retry_after) == (503, "no_engine", "5")
    await loopback.release(engine)
    assert (await held).status == 200


@pytest.mark.full
async def test_a_request_held_for_six_minutes_is_served(loopback: Loopback) -> None:
    loopback.spec = _spec(coldStart={"timeout": "10m"})
    await loopback.start_router()
    body = b"x" * 2_000_000
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as patient:
        small = [asyncio.ensure_future(loopback.ask(patient)) for _ in range(20)]
        large = asyncio.ensure_future(_echoed(patient, loopback.url, body))
        await loopback.until_held(21)
        await asyncio.sleep(SIX_MINUTES)
        await loopback.until_held(21)
        await loopback.start_engine()
        assert _statuses(await asyncio.wait_for(asyncio.gather(*small), SOON)) == {200: 20}
        assert await asyncio.wait_for(large, SOON) == body


@pytest.mark.full
async def test_500_requests_held_for_90_seconds_by_two_processes_are_all_served(loopback: Loopback) -> None:
    loopback.engine_max_concurrency = 256
    loopback.spec = _spec(queue={"maxSize": 800})  # the kernel gives one process more than half of the connections
    await loopback.start_router()
    await loopback.start_twin()
    async with _renewing() as clients:
        asked = [asyncio.ensure_future(loopback.ask(clients)) for _ in range(500)]
        await _until_waiting(loopback, len(asked))
        await asyncio.sleep(90)
        await _until_waiting(loopback, len(asked))
        engine = await loopback.start_engine()
        assert _statuses(await asyncio.wait_for(asyncio.gather(*asked), SOON)) == {200: len(asked)}
        assert (await loopback.counts(engine))["started"] == len(asked)


async def _echoed(session: aiohttp.ClientSession, url: str, body: bytes) -> bytes:
    async with session.post(f"{url}/v1/embeddings", data=io.BytesIO(body)) as answer:
        assert answer.status == 200
        return await answer.read()


async def _models(loopback: Loopback, path: str = "", method: str = "GET") -> tuple[int, dict[str, object]]:
    url = URL(f"{loopback.url}/v1/models{path}", encoded=True)
    async with loopback.session.request(method, url) as answer:
        return answer.status, await answer.json() if method == "GET" else {}


@pytest.mark.parametrize("strategy", ["LeastOutstanding", "PrefixAffinity"])
async def test_without_an_engine_the_router_lists_the_models_and_holds_and_counts_nothing(
    loopback: Loopback, strategy: str
) -> None:
    loopback.spec = _spec(strategy=strategy, coldStart={"timeout": "3s"})
    loopback.model_names = ("chat", "org/Chat-8B")
    await loopback.start_router()
    status, listed = await _models(loopback)
    assert (status, listed["object"]) == (200, "list")
    models = listed["data"]
    assert isinstance(models, list)
    assert [sorted(model) for model in models] == [["created", "id", "object", "owned_by"]] * 2
    assert [model["id"] for model in models] == ["chat", "org/Chat-8B"]
    for path, name in (("/chat", "chat"), ("/org/Chat-8B", "org/Chat-8B"), ("/org%2FChat-8B", "org/Chat-8B")):
        status, model = await _models(loopback, path)
        assert (status, model["id"], sorted(model)) == (200, name, sorted(models[0]))
    assert (await _models(loopback, method="HEAD"))[0] == 200
    status, unknown = await _models(loopback, "/an-adapter")
    assert (status, unknown["error"]["code"]) == (404, "model_not_found")  # type: ignore[index]
    assert await _sample(loopback) == RouterSample({}, queued=0, held=0, is_older=not loopback.reads_long_bodies)
    assert await loopback.metric('haproxy_backend_sessions_total{proxy="engines"}') == 0
    held = asyncio.ensure_future(loopback.ask())
    await loopback.until_held(1)
    assert (await _models(loopback))[0] == 200, "also while requests are held"
    assert (await _sample(loopback)).held == 1
    assert (await held).status == 503


async def test_with_an_engine_the_list_of_models_is_the_engine_s(loopback: Loopback) -> None:
    loopback.engine_max_concurrency = 1
    await loopback.start_router()
    assert (await _models(loopback))[1]["object"] == "list"
    engine = await loopback.start_engine()
    await loopback.until_served(1)
    assert "Host" in (await _models(loopback))[1], "the stand-in answers with the headers of the request"
    busy = asyncio.ensure_future(loopback.ask(held=1))
    await loopback.until_counted(engine, started=1)
    queued = asyncio.ensure_future(_models(loopback))
    await loopback.until_queued(1)
    await loopback.release(engine)
    assert "Host" in (await queued)[1], "a busy engine is up"
    assert (await busy).status == 200
