"""Requests to pods that answer as they should, in pieces, in part or never."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from inference_operator.scrape import fetch
from inference_operator.scrape.fetch import MOST_BYTES, Address, get, post

OK = b"HTTP/1.1 200 OK\r\n"
SILENCE = b""


@asynccontextmanager
async def pod(answer: bytes, host: str = "127.0.0.1", told: Callable[[bytes], object] = len) -> AsyncIterator[Address]:
    """A pod that sends these bytes and hangs up; it stays silent where there are none."""
    serving: set[asyncio.Task[None] | None] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.add(asyncio.current_task())
        told(await reader.readuntil(b"\r\n\r\n"))
        if answer == SILENCE:
            await reader.read()
        writer.write(answer)
        writer.close()
        with suppress(ConnectionError):  # who has read enough hangs up
            await writer.wait_closed()

    server = await asyncio.start_server(serve, host, 0)
    async with server:
        yield Address(host, server.sockets[0].getsockname()[1])
    await asyncio.gather(*(task for task in serving if task))


@pytest.mark.parametrize(
    "answer",
    [
        OK + b"Content-Length: 9\r\n\r\ninfd_up 1",
        OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\ninfd_\r\n4;a=b\r\nup 1\r\n0\r\n\r\n",
        OK + b"\r\ninfd_up 1",
        b"HTTP/1.0 200 OK\r\n\r\ninfd_up 1",
        b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"content-length:9\r\n\r\ninfd_up 1 and more",
    ],
    ids=["length", "chunks", "until it hangs up", "1.0", "continued"],
)
async def test_an_answer_is_read_whatever_its_form(answer: bytes) -> None:
    async with pod(answer) as address:
        assert await get(address, "/metrics") == "infd_up 1"


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/\r\n\r\n",
        OK + b"Content-Length: 10\r\n\r\ninfd_up 1",
        OK + b"Content-Length: 99999999999999999999\r\n\r\ninfd_up 1",
        OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\ninfd_\r\n4\r\nup",
        OK + b"Transfer-Encoding: chunked\r\n\r\nmany\r\ninfd_up 1",
        OK + b"\r\n" + b"x" * MOST_BYTES,
        OK + b"a: b\r\n" * 1000 + b"\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"\r\n",
    ],
    ids=[
        "404",
        "302",
        "cut off",
        "too long",
        "cut off in a chunk",
        "no chunk",
        "without end",
        "headers",
        "not HTTP",
        "nothing",
    ],
)
async def test_what_is_no_whole_answer_is_missing(answer: bytes) -> None:
    async with pod(answer) as address:
        assert await get(address, "/metrics") is None


async def test_a_pod_that_stays_silent_is_missing_to_a_look_and_late_to_a_question(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fetch, "ANSWER_SECONDS", 0.05)
    async with pod(SILENCE) as address:
        assert await get(address, "/metrics") is None
        with pytest.raises(TimeoutError):
            await post(address, "/v1/completions", {}, seconds=0.05)


async def test_a_question_is_told_the_status_and_none_where_nobody_answers() -> None:
    async with pod(b"HTTP/1.1 503 Service Unavailable\r\n\r\n") as address:
        assert await post(address, "/v1/completions", {"model": "tiny"}, seconds=3.0) == 503
    assert await post(address, "/v1/completions", {}, seconds=3.0) is None
    async with pod(b"\r\n") as address:
        assert await post(address, "/v1/completions", {}, seconds=3.0) is None


async def test_a_pod_may_have_an_address_of_version_6() -> None:
    asked: list[bytes] = []
    async with pod(OK + b"\r\n", "::1", asked.append) as address:
        assert await get(address, "/stats;up;csv") == ""
    assert asked[0].startswith(b"GET /stats;up;csv HTTP/1.1\r\nHost: [::1]:%d\r\nConnection: close\r\n" % address.port)
