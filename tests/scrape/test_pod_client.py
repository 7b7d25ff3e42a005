"""Requests to pods whose responses are complete, chunked, truncated, invalid or missing."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference_operator.scrape import pod_client
from inference_operator.scrape.pod_client import MAX_BODY_BYTES, MAX_KEPT, Address, PodClient

OK = b"HTTP/1.1 200 OK\r\n"
SILENCE = b""
KEPT = OK + b"Content-Length: 9\r\n\r\ninfd_up 1"


@dataclass(slots=True)
class Pod:
    """What a pod has received."""

    address: Address
    requests: list[bytes] = field(default_factory=list)
    connections: int = 0
    open: int = 0


@asynccontextmanager
async def pod(answer: bytes, host: str = "127.0.0.1", *, per_connection: int = 1) -> AsyncIterator[Pod]:
    """A pod that answers so many requests of each connection with these bytes and hangs up.

    It hangs up one request later, without an answer, and stays silent where the bytes are `SILENCE`.
    """
    serving: set[asyncio.Task[None] | None] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.add(asyncio.current_task())
        seen.connections += 1
        seen.open += 1
        with suppress(asyncio.IncompleteReadError, ConnectionError):  # a client that has read enough hangs up
            for _ in range(per_connection):
                seen.requests.append(await reader.readuntil(b"\r\n\r\n"))
                if answer == SILENCE:
                    await reader.read()
                writer.write(answer)
            if per_connection > 1:
                await reader.readuntil(b"\r\n\r\n")
        seen.open -= 1
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    server = await asyncio.start_server(serve, host, 0)
    seen = Pod(Address(host, server.sockets[0].getsockname()[1]))
    async with server:
        yield seen
    await asyncio.gather(*(task for task in serving if task))


async def closed(served: Pod) -> None:
    async with asyncio.timeout(10):
        while served.open:  # noqa: ASYNC110 - the pod sets no event
            await asyncio.sleep(0.01)


@pytest.fixture
async def client() -> AsyncIterator[PodClient]:
    async with aclosing(PodClient()) as client:
        yield client


@pytest.mark.parametrize(
    "answer",
    [
        OK + b"Content-Length: 9\r\n\r\ninfd_up 1",
        OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\ninfd_\r\n4;a=b\r\nup 1\r\n0\r\n\r\n",
        OK + b"\r\ninfd_up 1",
        b"HTTP/1.0 200 OK\r\n\r\ninfd_up 1",
        b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"content-length:9\r\n\r\ninfd_up 1",
    ],
    ids=["content length", "chunked", "until the connection ends", "HTTP 1.0", "after 100 Continue"],
)
async def test_the_body_of_a_complete_response_is_returned(client: PodClient, answer: bytes) -> None:
    async with pod(answer) as served:
        assert await client.get(served.address, "/metrics") == "infd_up 1"


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/\r\n\r\n",
        OK + b"Content-Length: 10\r\n\r\ninfd_up 1",
        OK + b"Content-Length: 9\r\n\r\ninfd_up 1 and more",
        OK + b"Content-Length: 99999999999999999999\r\n\r\ninfd_up 1",
        OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\ninfd_\r\n4\r\nup",
        OK + b"Transfer-Encoding: chunked\r\n\r\nmany\r\ninfd_up 1",
        OK + b"\r\n" + b"x" * (MAX_BODY_BYTES + 1),
        OK + b"a: b\r\n" * 1000 + b"\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"\r\n",
    ],
    ids=[
        "404",
        "redirect",
        "body cut off",
        "bytes after the body",
        "huge content length",
        "chunk cut off",
        "chunk without length",
        "body too long",
        "too many headers",
        "not HTTP",
        "empty",
    ],
)
async def test_a_refused_broken_or_too_long_response_gives_none(client: PodClient, answer: bytes) -> None:
    async with pod(answer) as served:
        assert await client.get(served.address, "/metrics") is None


@settings(max_examples=50, deadline=None)
@given(
    st.binary(max_size=200)
    | st.builds(
        lambda head, name, value, body: b"HTTP/1.1 " + head + b"\r\n" + name + b": " + value + b"\r\n\r\n" + body,
        st.sampled_from([b"200 OK", b"101 Switching Protocols", b"204 No Content", b"302 Found"]),
        st.sampled_from([b"Set-Cookie", b"Location", b"Content-Encoding", b"Content-Type", b"Link", b"Upgrade"]),
        st.binary(max_size=50),
        st.binary(max_size=100),
    )
)
def test_a_response_of_any_bytes_raises_no_exception(answer: bytes) -> None:
    async def ask() -> None:
        async with aclosing(PodClient()) as client, pod(answer or b"\n") as served:
            got = await client.get(served.address, "/metrics", keep=True)
            assert got is None or isinstance(got, str)
            status = await client.post(served.address, "/v1/completions", {}, seconds=3.0)
            assert status is None or isinstance(status, int)

    asyncio.run(ask())


async def test_an_unresponsive_pod_gives_none_for_get_and_a_timeout_for_post(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_client, "ANSWER_SECONDS", 0.05)
    async with aclosing(PodClient()) as client, pod(SILENCE) as served:
        assert await client.get(served.address, "/metrics") is None
        with pytest.raises(TimeoutError):
            await client.post(served.address, "/v1/completions", {}, seconds=0.05)


async def test_post_returns_the_status_or_none_without_a_listener_or_a_valid_response(
    client: PodClient,
) -> None:
    async with pod(b"HTTP/1.1 503 Service Unavailable\r\n\r\n") as served:
        assert await client.post(served.address, "/v1/completions", {"model": "tiny"}, seconds=3.0) == 503
    assert await client.post(served.address, "/v1/completions", {}, seconds=3.0) is None
    async with pod(b"\r\n") as served:
        assert await client.post(served.address, "/v1/completions", {}, seconds=3.0) is None


async def test_a_request_to_an_ipv6_address_accepts_no_compression_and_sends_the_path_unchanged(
    client: PodClient,
) -> None:
    async with pod(OK + b"\r\n", "::1") as served:
        assert await client.get(served.address, "/stats;up;csv") == ""
    (request,) = served.requests
    line, *headers = request.decode().split("\r\n")
    assert line == "GET /stats;up;csv HTTP/1.1"
    assert {f"Host: [::1]:{served.address.port}", "Accept-Encoding: identity", "Connection: close"} <= set(headers)


async def test_a_cookie_of_a_pod_is_not_sent_back(client: PodClient) -> None:
    async with pod(OK + b"Set-Cookie: a=b\r\nContent-Length: 0\r\n\r\n", per_connection=9) as served:
        for _ in range(2):
            await client.get(served.address, "/metrics", keep=True)
        await client.aclose()
    assert len(served.requests) == 2
    assert not [request for request in served.requests if b"cookie" in request.lower()]


async def test_a_keep_alive_connection_is_used_for_the_next_request(client: PodClient) -> None:
    async with pod(KEPT, per_connection=9) as served:
        for _ in range(3):
            assert await client.get(served.address, "/metrics", keep=True) == "infd_up 1"
        assert (served.connections, len(served.requests)) == (1, 3)
        await client.aclose()


async def test_a_request_without_keep_alive_closes_the_connection_even_if_the_pod_would_keep_it(
    client: PodClient,
) -> None:
    async with pod(KEPT, per_connection=9) as served:
        for _ in range(3):
            assert await client.get(served.address, "/metrics") == "infd_up 1"
        await closed(served)
        assert served.connections == 3


async def test_a_keep_alive_connection_closed_by_the_server_is_replaced_once_without_losing_a_response(
    client: PodClient,
) -> None:
    async with pod(KEPT, per_connection=2) as served:
        answers = [await client.get(served.address, "/metrics", keep=True) for _ in range(5)]
        await client.aclose()
    assert answers == ["infd_up 1"] * 5
    assert (served.connections, len(served.requests)) == (3, 5), "every third request finds its connection closed"


@pytest.fixture
async def two_kept() -> AsyncIterator[PodClient]:
    """A client that keeps two connections at most."""
    async with aclosing(PodClient(max_kept=2)) as client:
        yield client


async def test_the_number_of_keep_alive_connections_has_a_maximum(two_kept: PodClient) -> None:
    async with pod(KEPT, per_connection=9) as a, pod(KEPT, per_connection=9) as b, pod(KEPT, per_connection=9) as c:
        for _ in range(3):
            for served in (a, b, c):
                assert await two_kept.get(served.address, "/metrics", keep=True) == "infd_up 1"
        await closed(c)
        assert [served.connections for served in (a, b, c)] == [1, 1, 3]
        assert [served.open for served in (a, b)] == [1, 1]
        await two_kept.aclose()


async def test_an_expired_keep_alive_connection_gives_its_place_to_another_address(
    two_kept: PodClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(pod_client, "monotonic", lambda: now)
    async with pod(KEPT, per_connection=9) as a, pod(KEPT, per_connection=9) as b, pod(KEPT, per_connection=9) as c:
        for served in (a, b):
            await two_kept.get(served.address, "/metrics", keep=True)
        now = pod_client.KEEP_ALIVE_SECONDS + 1
        for _ in range(2):
            await two_kept.get(c.address, "/metrics", keep=True)
        assert c.connections == 1
        await two_kept.aclose()


@pytest.mark.parametrize(("files", "kept"), [(1024, 512), (1_048_576, MAX_KEPT), (-1, MAX_KEPT)])
def test_keep_alive_connections_take_at_most_half_of_the_open_file_limit(
    monkeypatch: pytest.MonkeyPatch, files: int, kept: int
) -> None:
    monkeypatch.setattr(pod_client, "getrlimit", lambda _: (files, files))
    assert pod_client._max_kept() == kept  # noqa: SLF001 - the limit of the process cannot be set in a test
