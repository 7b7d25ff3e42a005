"""Headers and trailers of requests at a real HAProxy: which of them reach an engine."""

import asyncio

import aiohttp
import pytest

from e2e.router.loopback import Loopback
from inference_operator.api.router import RouterSpec
from inference_operator.settings import Settings

PASSED = {
    "Accept-Language": "de",
    "Authorization": "Bearer of-the-engine",
    "Origin": "https://page.example",
    "X-B3-TraceId": "1",
    "X-Conversation": "1",
    "X-Session-ID": "1",
    "X-Team-Name": "a",
    "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
}
ENGINE = "127.0.54.9"
"""Address of an engine that shows each byte of a request."""
DROPPED = {
    "Api-Key": "1",
    "Cf-Access-Authenticated-User-Email": "a@b",
    "Cookie": "session=1",
    "Proxy-Authorization": "Basic 1",
    "Remote-User": "root",
    "X-Consumer-Username": "root",
    "X-Forwarded-User": "root",
    "X-Goog-Authenticated-User-Email": "a@b",
    "X-Username": "root",
    "X-WEBAUTH-USER": "root",
    "X_Forwarded_User": "root",
    "content": "no header that begins with content-",
}
"""Headers by which proxies tell who a user is, and others that mean nothing to an engine."""
CHUNKED = b"Transfer-Encoding: chunked\r\nTrailer: x-forwarded-user\r\nConnection: close\r\n\r\n2\r\n{}\r\n0\r\n"


@pytest.fixture
async def router(loopback: Loopback) -> Loopback:
    """A router with a session header of its own and an administrator's header, and one engine."""
    loopback.spec = RouterSpec.model_validate({"sessionHeader": "X-Conversation", "strategy": "PrefixAffinity"})
    loopback.settings = Settings(forwarded_headers=("X-Team-*",))
    await loopback.start_router()
    assert await loopback.checked_configuration() == ("", "")
    await loopback.start_engine()
    await loopback.until_served(1)
    return loopback


async def raw(router: Loopback, request: bytes) -> bytes:
    """The whole answer to these bytes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", router.port)
    writer.write(request)
    answer = await asyncio.wait_for(reader.read(), 10)
    writer.close()
    return answer


async def test_engines_get_known_headers_and_those_of_the_administrator_and_no_other(router: Loopback) -> None:
    async with router.session.get(f"{router.url}/v1/models", headers={**PASSED, **DROPPED}) as answer:
        seen = {name.lower(): text for name, text in (await answer.json()).items()}
    assert {name: seen.get(name.lower()) for name in PASSED} == PASSED
    assert set(seen) & {name.lower() for name in DROPPED} == set()


async def test_forms_of_files_reach_an_engine_whole(router: Loopback) -> None:
    form = aiohttp.FormData({"model": "chat"})
    form.add_field("file", b"\0" * 100_000, filename="speech.wav", content_type="audio/wav")
    async with router.session.post(f"{router.url}/v1/embeddings", data=form) as answer:
        body = await answer.read()
    assert answer.status == 200
    assert body.count(b"\0" * 100_000) == 1
    assert b'filename="speech.wav"' in body


async def test_what_follows_a_body_is_no_header_for_an_engine(loopback: Loopback) -> None:
    received = []

    async def engine(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"GET /health"):
            received.append(head + await reader.readuntil(b"\r\n0\r\n") + await reader.readuntil(b"\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        writer.close()

    await loopback.start_router()
    async with await asyncio.start_server(engine, ENGINE, loopback.engine_port):
        loopback.names.addresses.append(ENGINE)
        await loopback.until_served(1)
        request = b"POST /v1/embeddings HTTP/1.1\r\nHost: a\r\n" + CHUNKED + b"x-forwarded-user: root\r\n\r\n"
        assert (await raw(loopback, request)).startswith(b"HTTP/1.1 200 ")
    assert [message.endswith(b"\r\n{}\r\n0\r\n\r\n") for message in received] == [True]


async def test_a_chunked_body_of_http_1_0_is_refused(router: Loopback) -> None:
    answer = await raw(router, b"POST /v1/embeddings HTTP/1.0\r\n" + CHUNKED + b"\r\n")
    assert answer.split(b"\r\n", 1)[0].split()[1] == b"400"
    assert b'"code": "invalid_http"' in answer
    assert b"use HTTP/1.1" in answer
