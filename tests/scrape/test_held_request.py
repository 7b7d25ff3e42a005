"""The long request to a router process, against servers that answer in all ways."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from inference_operator.scrape.held_watch import MAX_ANSWER_BYTES, HeldRequest, answer_body
from inference_operator.scrape.pod_client import Address

SOON = 30.0
"""Limit in seconds for what takes milliseconds."""
PAGE = b"# TYPE inference_operator_router_held_requests gauge\ninference_operator_router_held_requests 3\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(PAGE), PAGE)
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(PAGE), PAGE)


@dataclass(slots=True)
class Server:
    """Answers each request with the next parts; the last ones again and again."""

    answers: Sequence[Sequence[bytes]]
    """Of each answer the parts; no part: the connection is closed."""
    requests: list[bytes] = field(default_factory=list)
    connections: int = 0
    port: int = 0
    open: dict[asyncio.Task[None], asyncio.StreamWriter] = field(default_factory=dict)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task
        self.open[task] = writer
        try:
            while request := await reader.readuntil(b"\r\n\r\n"):
                parts = self.answers[min(len(self.requests), len(self.answers) - 1)]
                self.requests.append(request)
                if not parts:
                    break
                for part in parts:
                    writer.write(part)
                    await writer.drain()
                    await asyncio.sleep(0)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writer.close()


@asynccontextmanager
async def serving(*answers: Sequence[bytes]) -> AsyncIterator[Server]:
    served = Server(answers)
    listening = await asyncio.start_server(served.serve, "127.0.0.1", 0)
    served.port = listening.sockets[0].getsockname()[1]
    try:
        yield served
    finally:
        listening.close()
        for writer in served.open.values():
            writer.close()
        await asyncio.gather(*served.open)


async def answered(port: int, count: int, *, seconds: float = SOON) -> list[int | None]:
    """The first answers; each next request follows at once."""
    told: list[int | None] = []
    done = asyncio.Event()

    def on_answer(held: int | None) -> float:
        told.append(held)
        if len(told) >= count:
            done.set()
        return 0.0

    request = HeldRequest(Address("127.0.0.1", port), "/page?held=9", seconds=seconds, on_answer=on_answer)
    request.ask()
    try:
        async with asyncio.timeout(SOON):
            await done.wait()
    finally:
        request.close()
    return told[:count]


@pytest.mark.parametrize("answer", [OK, CHUNKED], ids=["length", "chunked"])
async def test_one_request_follows_another_on_one_connection(answer: bytes) -> None:
    async with serving([answer]) as served:
        assert await answered(served.port, 3) == [3, 3, 3]
        assert served.connections == 1
        assert served.requests[0].startswith(b"GET /page?held=9 HTTP/1.1\r\nHost: 127.0.0.1:")


async def test_an_answer_may_come_in_any_parts() -> None:
    async with serving([OK[index : index + 1] for index in range(len(OK))]) as served:
        assert await answered(served.port, 1) == [3]


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param([], id="closed"),
        pytest.param([OK[:-5].replace(b"3", b"4")[:30]], id="half"),
        pytest.param([b"HTTP/1.1 503 No\r\nContent-Length: %d\r\n\r\n%s" % (len(PAGE), PAGE)], id="status"),
        pytest.param([b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno"], id="without the number"),
        pytest.param([b"x" * (MAX_ANSWER_BYTES + 1)], id="too long"),
    ],
)
async def test_without_a_readable_answer_it_asks_again_on_a_new_connection(parts: list[bytes]) -> None:
    async with serving(parts, [OK]) as served:
        assert await answered(served.port, 2, seconds=0.2) == [None, 3]
        assert served.connections == 2


async def test_a_router_that_nobody_answers_for_is_asked_again() -> None:
    async with serving([OK]) as served:
        port = served.port
    assert await answered(port, 2) == [None, None]


async def test_after_its_end_it_asks_no_more() -> None:
    async with serving([OK]) as served:
        await answered(served.port, 1)
        seen = len(served.requests)
        await asyncio.sleep(0.1)
        assert len(served.requests) <= seen + 1


def test_a_body_of_another_status_is_empty_and_one_with_missing_parts_is_none() -> None:
    assert answer_body(b"HTTP/1.1 404 No\r\nContent-Length: 1\r\n\r\nx") == b""
    assert answer_body(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab") is None
    assert answer_body(b"HTTP/1.1 200 OK\r\nContent-Len") is None
