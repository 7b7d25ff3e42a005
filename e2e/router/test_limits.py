"""Limits of users at two real HAProxy processes that ask each other."""

import asyncio
import re
import time

import aiohttp

from e2e.router.loopback import START_SECONDS, Loopback, _free_ports
from e2e.router.test_keys import ALICE, BOB, bearer, line, status
from inference_operator.api.router import RouterSpec
from inference_operator.api.router_keys import RouterKeysSpec
from inference_operator.router.haproxy import METRICS_PORTS
from inference_operator.router.observe import ROUTER_METRICS_PATH

MOST = 20
CLIENTS = 120


async def _start(loopback: Loopback, spec: RouterKeysSpec) -> None:
    (loopback.twin_metrics_port,) = _free_ports(1)
    ports = ",".join(map(str, METRICS_PORTS))

    def change(text: str) -> str:
        text = text.replace(f" {ports}\n", f" {loopback.metrics_port},{loopback.twin_metrics_port}\n")
        return re.sub(r"server-template r .*", "server r1 127.0.0.1:1", text)

    loopback.change = change
    loopback.spec = RouterSpec(keys=spec)
    loopback.write_keys(line("alice", ALICE) + line("bob", BOB))
    await loopback.start_router()
    await loopback.start_twin()
    await loopback.start_engine()
    await loopback.until_served(1)
    await loopback.until_twin_served(1)


async def _total(loopback: Loopback, pattern: str) -> int:
    pages = [
        await loopback.metrics(ROUTER_METRICS_PATH, port=p) for p in (loopback.metrics_port, loopback.twin_metrics_port)
    ]
    return sum(int(n) for page in pages for n in re.findall(pattern, page))


async def test_requests_in_flight_of_a_user_are_limited_over_both_processes(loopback: Loopback) -> None:
    await _start(loopback, RouterKeysSpec(secretName="keys", maxConcurrent=MOST))
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
