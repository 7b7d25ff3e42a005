"""Engines that fail with a request in their hands: it reaches three at most, and one if its answer has begun."""

import asyncio
import io
import socket
import struct
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from e2e.router.loopback import POLL_SECONDS, Loopback
from e2e.router.test_gateway_key import KEY
from inference_operator.objects.gateway_key import GATEWAY_ATTEMPTS_HEADER, GATEWAY_KEY_HEADER
from inference_operator.router import retries
from inference_operator.router.stats import SAMPLE_PATH, router_sample

ENGINES = 5
SOON = 60.0

Fault = Callable[[StreamReader, StreamWriter], Awaitable[None]]


async def _body(reader: StreamReader, head: bytes) -> None:
    length = next(line for line in head.lower().splitlines() if line.startswith(b"content-length:"))
    await reader.readexactly(int(length.partition(b":")[2]))


@dataclass
class FailingEngine:
    """A healthy engine that fails at each request, once it has its header."""

    fault: str
    requests: list[bytes] = field(default_factory=list)
    """The headers of the requests that arrived."""

    async def serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Answer health checks, and fail at everything else."""
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            if head.startswith(b"POST"):
                self.requests.append(head)
                await self._fail(head, reader, writer)
            else:
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass  # a check without a request, or a router that left
        finally:
            writer.close()

    async def _fail(self, head: bytes, reader: StreamReader, writer: StreamWriter) -> None:
        if self.fault != "closes while the body comes":
            await _body(reader, head)
        if self.fault == "resets the connection":
            linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.write(_ANSWERS.get(self.fault, b""))
        await writer.drain()


_ANSWERS = {
    "ends in the status line": b"HTTP/1.1 20",
    "ends in the answer": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npart",
    "answers 503": b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbusy",
    "answers 500": b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbusy",
}


@asynccontextmanager
async def _failing(loopback: Loopback, fault: str) -> AsyncIterator[list[FailingEngine]]:
    """Engines behind the router which all fail in this way."""
    engines = [FailingEngine(fault) for _ in range(ENGINES)]
    addresses = [f"127.0.55.{number}" for number in range(1, ENGINES + 1)]
    servers = [
        await asyncio.start_server(engine.serve, address, loopback.engine_port)
        for engine, address in zip(engines, addresses, strict=True)
    ]
    loopback.names.addresses += addresses
    await loopback.until_served(ENGINES)
    try:
        yield engines
    finally:
        for server in servers:
            server.close()


@pytest.mark.parametrize(
    ("fault", "status", "reached"),
    [
        ("closes the connection", 502, 3),
        ("closes while the body comes", 502, 3),
        ("resets the connection", 502, 3),
        ("ends in the status line", 502, 1),
        ("ends in the answer", 200, 1),
        ("answers 503", 503, 1),
        ("answers 500", 500, 1),
    ],
)
async def test_a_request_reaches_three_engines_at_most_and_one_if_its_answer_has_begun(
    loopback: Loopback, fault: str, status: int, reached: int
) -> None:
    await loopback.start_router()
    async with _failing(loopback, fault) as engines:
        for number in range(1, 11):
            answer = await asyncio.wait_for(loopback.ask(), SOON)
            assert (answer.status, answer.whole) == (status, fault != "ends in the answer")
            assert sum(len(engine.requests) for engine in engines) == number * reached


@pytest.mark.parametrize("key", [KEY, "of nobody"])
@pytest.mark.parametrize("moment", ["engines are up", "no engine is up"])
async def test_over_both_hops_a_request_that_kills_its_engines_reaches_three(
    loopback: Loopback, key: str, moment: str
) -> None:
    """Those before are told by gateways alone. What is no number of them leaves none."""
    loopback.write_gateway_key(KEY)
    await loopback.start_router()
    told = {"0": 3, "1": 2, "2": 1, "3": 0, "-1": 0, "1e0": 0, "9" * 20: 0}
    for attempts, left in told.items():
        wanted = left if key == KEY else 3
        headers = {GATEWAY_KEY_HEADER: key, GATEWAY_ATTEMPTS_HEADER: attempts}
        asked = None
        if moment == "no engine is up" and wanted:
            asked = asyncio.ensure_future(_status(loopback, headers))
            await loopback.until_held(1)
        async with _failing(loopback, "closes the connection") as engines:
            assert await asyncio.wait_for(asked or _status(loopback, headers), SOON) == 502
            assert sum(len(engine.requests) for engine in engines) == wanted, attempts
        loopback.names.addresses.clear()
        await loopback.until_served(0)


async def _status(loopback: Loopback, headers: dict[str, str]) -> int:
    async with loopback.session.post(f"{loopback.url}/v1/completions", json={}, headers=headers) as answer:
        return answer.status


async def test_a_held_request_that_kills_its_engines_reaches_three_of_them(loopback: Loopback) -> None:
    await loopback.start_router()
    held = asyncio.ensure_future(loopback.ask())
    await loopback.until_held(1)
    async with _failing(loopback, "closes the connection") as engines:
        assert (await asyncio.wait_for(held, SOON)).status == 502
        assert sum(len(engine.requests) for engine in engines) == retries.ENGINES


async def test_a_large_body_is_sent_to_one_engine_only_though_it_closes_the_connection(loopback: Loopback) -> None:
    await loopback.start_router()
    async with _failing(loopback, "closes while the body comes") as engines:
        async with loopback.session.post(f"{loopback.url}/v1/embeddings", data=io.BytesIO(b"x" * 2**21)) as answer:
            assert answer.status == 502
        assert sum(len(engine.requests) for engine in engines) == 1


async def test_while_all_engines_refuse_connections_held_requests_try_none_of_them_again_and_are_served_once_after(
    loopback: Loopback,
) -> None:
    await loopback.start_router()
    engines = [await loopback.start_engine() for _ in range(retries.ENGINES)]
    await loopback.until_served(len(engines))
    for engine in engines:
        engine.refuse()
    for engine in engines:
        await loopback.until_refusing(engine.address, engine.port)
    asked = [asyncio.ensure_future(loopback.ask()) for _ in range(20)]
    await _until_waiting(loopback, len(asked))
    await loopback.until_served(0)
    attempts = await _attempts(loopback)
    assert 0 < attempts <= len(engines) * len(asked), "each request meets each engine at most once"
    await asyncio.sleep(4)  # several times the time after which a held request looks for an engine
    assert await _attempts(loopback) == attempts
    for engine in engines:
        engine.accept()
    assert {answer.status for answer in await asyncio.wait_for(asyncio.gather(*asked), SOON)} == {200}
    assert sum([(await loopback.counts(engine))["started"] for engine in engines]) == len(asked)


async def _until_waiting(loopback: Loopback, number: int) -> None:
    """Wait until the router holds this many requests."""
    async with asyncio.timeout(SOON):
        while (sample := router_sample(await loopback.metrics(SAMPLE_PATH))) is None or sample.held != number:  # noqa: ASYNC110
            await asyncio.sleep(POLL_SECONDS)


async def _attempts(loopback: Loopback) -> int:
    """Connections that the router tried to make to engines for requests."""
    return await loopback.metric('haproxy_server_connection_attempts_total{proxy="engines",server="e')
