"""Prompts that engines send through a router to the engines that compute prompts."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

import pytest
from aiohttp import web

from e2e.helpers.free_ports import free_ports
from e2e.router.loopback import Loopback
from inference_operator.router.inputs import Upstream
from inference_operator.router.stats import SAMPLE_PATH, router_sample

KEY = "k" * 43
HOST = "loopback-prefill.default.svc.cluster.local"
PATH = "/v1/completions"
BEARER = {"Authorization": f"Bearer {KEY}"}


@dataclass
class Prefills:
    """A router, and prefill engines that answer as they are told."""

    loopback: Loopback
    port: int
    stack: AsyncExitStack
    seen: dict[str, list[dict[str, str]]] = field(default_factory=dict)

    async def start(self, address: str, *, status: int = 200) -> None:
        self.seen[address] = []

        async def answer(request: web.Request) -> web.Response:
            self.seen[address].append({name.lower(): value for name, value in request.headers.items()})
            return web.json_response({"engine": address}, status=status)

        async def healthy(_: web.Request) -> web.Response:
            return web.Response()

        app = web.Application()
        app.add_routes([web.get("/health", healthy), web.post(PATH, answer)])
        runner = web.AppRunner(app)
        await runner.setup()
        self.stack.push_async_callback(runner.cleanup)
        await web.TCPSite(runner, address, self.port).start()
        self.loopback.names.others[HOST].append(address)

    async def ask(self, headers: dict[str, str], path: str = PATH, method: str = "POST") -> tuple[int, str]:
        url = f"http://127.0.0.1:{self.loopback.prefill_port}{path}"
        async with self.loopback.session.request(method, url, json={"prompt": "long"}, headers=headers) as answer:
            return answer.status, await answer.text()


@pytest.fixture
async def prefills(loopback: Loopback) -> AsyncIterator[Prefills]:
    (port,) = free_ports(1)
    loopback.write_configuration()
    (engines,) = loopback.upstreams
    loopback.prefill = Upstream("prefill", HOST, port, "/health", 32, ("chat",), engines.api_paths, weight=0)
    loopback.engine_key, loopback.names.others[HOST] = KEY, []
    await loopback.start_router()
    async with AsyncExitStack() as stack:
        yield Prefills(loopback, port, stack)


async def test_only_prompts_of_engines_with_their_key_pass(prefills: Prefills) -> None:
    assert await prefills.loopback.checked_configuration() == ("", "")
    status, text = await prefills.ask(BEARER)
    assert (status, '"no_engine"' in text) == (503, True), "at once, and without waiting for an engine"
    await prefills.start("127.0.56.1")
    await prefills.loopback.until_prefills(1)
    for headers, path, method, expected in (
        ({}, PATH, "POST", 401),
        ({"Authorization": f"Bearer {KEY[1:]}"}, PATH, "POST", 401),
        ({"Authorization": f"Basic {KEY}"}, PATH, "POST", 401),
        (BEARER, PATH, "GET", 404),
        (BEARER, "/metrics", "POST", 404),
        (BEARER, "/v1/completions/../load", "POST", 404),
        ({**BEARER, "X-KV-Revision": "5f2c"}, PATH, "POST", 200),
    ):
        assert (await prefills.ask(headers, path, method))[0] == expected, (headers, path, method)
    sample = router_sample(await prefills.loopback.metrics(SAMPLE_PATH))
    assert sample
    assert (sample.prompts, sample.prompts_queued, sample.prompts_failed) == (2, 0, 1), "what scales prefill engines"
    (seen,) = prefills.seen["127.0.56.1"]
    assert (seen["x-kv-revision"], seen["authorization"]) == ("5f2c", BEARER["Authorization"])


async def test_an_engine_of_another_revision_is_passed_over(prefills: Prefills) -> None:
    await prefills.start("127.0.56.1", status=425)
    await prefills.start("127.0.56.2")
    await prefills.loopback.until_prefills(2)
    answers = [await prefills.ask(BEARER) for _ in range(8)]
    assert answers == [(200, '{"engine": "127.0.56.2"}')] * 8
    assert len(prefills.seen["127.0.56.2"]) == 8


async def test_where_all_have_another_revision_the_engine_that_asks_learns_it(prefills: Prefills) -> None:
    for number in (1, 2, 3, 4):
        await prefills.start(f"127.0.56.{number}", status=425)
    await prefills.loopback.until_prefills(4)
    assert (await prefills.ask(BEARER))[0] == 425
    assert sum(map(len, prefills.seen.values())) == 3, "three engines, as for any request"


async def test_clients_reach_no_prefill_engine_and_set_no_header_of_theirs(prefills: Prefills) -> None:
    await prefills.start("127.0.56.1")
    engine = await prefills.loopback.start_engine()
    await prefills.loopback.until_prefills(1)
    await prefills.loopback.until_served(1)
    headers = {"X-KV-Revision": "5f2c", "X-Data-Parallel-Rank": "3"}
    async with prefills.loopback.session.post(f"{prefills.loopback.url}{PATH}", json={}, headers=headers) as answer:
        assert answer.status == 200
    assert (await prefills.loopback.counts(engine))["started"] == 1
    assert prefills.seen["127.0.56.1"] == []
