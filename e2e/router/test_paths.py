"""What clients are told at a real HAProxy of paths that it or an engine does not serve; clients write any bytes."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from e2e.router.loopback import Loopback
from inference_operator.router.paths import NO_METHOD, NO_ROUTE

ENGINE = "127.0.54.98"
MOST_BYTES = 1024
"""Of the body of an answer that quotes a path."""
ANSWER_SECONDS = 10


async def ask(loopback: Loopback, target: bytes, method: bytes = b"POST") -> tuple[int, str, bytes]:
    """Status, headers and body of the answer to a request with this target, on a connection of its own."""
    reader, writer = await asyncio.open_connection("127.0.0.1", loopback.port)
    writer.write(b"%s %s HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nConnection: close\r\n\r\n" % (method, target))
    async with asyncio.timeout(ANSWER_SECONDS):
        answer = await reader.read()
    writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), head.decode().lower(), body


async def error(loopback: Loopback, target: bytes, method: bytes = b"POST") -> dict[str, Any]:
    """The error of the answer; it is checked to be one of the OpenAI API."""
    status, _, body = await ask(loopback, target, method)
    found: dict[str, Any] = json.loads(body)["error"]
    assert list(found) == ["message", "type", "param", "code"]
    assert found["type"] == "invalid_request_error"
    return {"status": status, **found}


@pytest.mark.parametrize(
    ("target", "right"),
    [
        (b"/chat/completions", "/v1/chat/completions"),
        (b"/completions?key=secret", "/v1/completions"),
        (b"/models", "/v1/models"),
        (b"/models/chat", "/v1/models/chat"),
        (b"/embeddings", "/v1/embeddings"),
        (b"/v1/v1/chat/completions", "/v1/chat/completions"),
    ],
)
async def test_a_base_url_without_v1_or_with_two_is_answered_with_the_right_path(
    loopback: Loopback, target: bytes, right: str
) -> None:
    await loopback.start_router()
    found = await error(loopback, target)
    path = target.decode().partition("?")[0]
    assert (found["status"], found["param"], found["code"]) == (404, None, "unknown_url")
    assert found["message"].startswith(f"this API has no path `{path}`: use `{right}`.")


@pytest.mark.parametrize(
    "target",
    [
        b'/"}]},"a',
        b"/\\\\x22",
        b"/%[env(PATH)]%[var(txn.path)]",
        b"/%00%0a%0d%22",
        b"/<script>'",
        b"/%C3%A9%FF%E2%82",
        b"/chat/completions/" + b"%22" * 2_000,
        b'/v1/v1/models/"\\' + b"\\" * 200,
        b"/v1/models/%22%0a%00",
        b"/v1/models/../" + b"a" * 5_000,
        b"http://a/nothing",
    ],
)
async def test_the_answer_to_a_hostile_path_is_json_and_bounded(loopback: Loopback, target: bytes) -> None:
    await loopback.start_router()
    status, head, body = await ask(loopback, target, b"GET")
    found = json.loads(body)["error"]
    assert (status, found["code"]) == (404, "unknown_url")
    assert "content-type: application/json" in head
    assert len(body) < MOST_BYTES
    assert not {b"/usr/bin", b"haproxy"} & {word for word in (b"/usr/bin", b"haproxy") if word in body}
    shown = target.removeprefix(b"http://a")[:60].decode()
    assert f"`{shown}" in found["message"], "as it was sent, and nothing of it was run"


@pytest.mark.parametrize("target", [b"/a\nb", b"/a\0b", b"/\xc3\xa9", b"/\x7f", b"/\x1b[31m"])
async def test_bytes_that_no_path_may_have_get_400(loopback: Loopback, target: bytes) -> None:
    await loopback.start_router()
    status, _, body = await ask(loopback, target)
    assert (status, target in body) == (400, False)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (b"nobody", "nobody"),
        (b"org%2Fnobody", "org/nobody"),
        (b'a%22%7D%0A%0D%01%25%5Benv(PATH)%5D"', 'a"}\n\r\x01%[env(PATH)]"'),
        (b"%C3%A9%E4%BD%A0", "é你"),
        (b"%FF%C3", ""),
        (b"a" * 1_000, "a" * 128),
        ("é".encode().hex(" ").upper().replace(" ", "%").join(("%", "")).encode() * 100, "é" * 64),
    ],
)
async def test_an_unknown_model_is_named_also_where_its_name_is_hostile(
    loopback: Loopback, name: bytes, shown: str
) -> None:
    await loopback.start_router()
    found = await error(loopback, b"/v1/models/" + name, b"GET")
    assert (found["status"], found["param"], found["code"]) == (404, "model", "model_not_found")
    assert found["message"] == f"the router knows no model `{shown}`: see `GET /v1/models`"


async def test_a_model_is_shown_by_its_name_while_engines_are_up(loopback: Loopback) -> None:
    loopback.model_names = ("chat", "org/Chat-8B")
    await loopback.start_router()
    await loopback.start_engine()
    await loopback.until_served(1)
    for path, name in ((b"chat", "chat"), (b"org/Chat-8B", "org/Chat-8B"), (b"org%2FChat-8B", "org/Chat-8B")):
        status, _, body = await ask(loopback, b"/v1/models/" + path, b"GET")
        assert (status, json.loads(body)["id"]) == (200, name)


@pytest.fixture
async def without_routes(loopback: Loopback) -> AsyncIterator[Loopback]:
    """A router with an engine that has no route for what its model cannot do, and takes POST only, as FastAPI does."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        status, body = b"404 Not Found", NO_ROUTE.encode()
        if head.startswith(b"GET /health "):
            status, body = b"200 OK", b""
        elif head.startswith(b"GET "):
            status, body = b"405 Method Not Allowed\r\nAllow: POST", NO_METHOD.encode()
        elif head.startswith(b"POST /v1/completions "):
            body = b'{"detail":"No answer..."}'[: len(NO_ROUTE)]
        writer.write(b"HTTP/1.1 %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (status, len(body), body))
        await writer.drain()
        writer.close()

    await loopback.start_router()
    server = await asyncio.start_server(serve, ENGINE, loopback.engine_port)
    loopback.names.addresses.append(ENGINE)
    await loopback.until_served(1)
    yield loopback
    server.close()


@pytest.mark.parametrize(
    ("path", "lacks", "needs"),
    [
        ("/v1/embeddings", "is no embedding model", "If it generates text, ask it at `/v1/chat/completions`"),
        ("/v1/rerank", "is no embedding model or reranker", "serve an embedding model or a reranker with"),
        ("/rerank", "is no embedding model or reranker", "serve an embedding model or a reranker with"),
        ("/score", "is no embedding model or reranker", "serve an embedding model or a reranker with"),
        ("/pooling", "is no pooling model", "serve a pooling model with"),
        ("/classify", "is no classifier", "serve a classifier with"),
        ("/v1/audio/transcriptions", "does not understand speech", "serve a model for speech with"),
        ("/v1/chat/completions", "generates no text", "If it makes embeddings, ask it at `/v1/embeddings`"),
    ],
)
async def test_a_path_for_what_the_model_cannot_do_is_answered_with_what_helps(
    without_routes: Loopback, path: str, lacks: str, needs: str
) -> None:
    found = await error(without_routes, path.encode())
    assert (found["status"], found["param"], found["code"]) == (404, "model", "unsupported_by_model")
    assert found["message"].startswith(f"the model `chat` {lacks}, so its engine does not serve `{path}`.")
    assert needs in found["message"]


async def test_any_other_route_that_an_engine_lacks_is_named(without_routes: Loopback) -> None:
    found = await error(without_routes, b"/tokenize")
    assert found["message"] == "the engine of the model `chat` does not serve `/tokenize`"


async def test_a_method_that_an_engine_does_not_take_is_answered_with_the_right_one(without_routes: Loopback) -> None:
    status, head, body = await ask(without_routes, b"/v1/chat/completions", b"GET")
    found = json.loads(body)["error"]
    assert (status, found["code"]) == (405, "method_not_allowed")
    assert found["message"] == "`/v1/chat/completions` does not take this method: use `POST`"
    assert "\r\nallow: post" in head


async def test_another_404_of_an_engine_stays_as_it_is(without_routes: Loopback) -> None:
    status, _, body = await ask(without_routes, b"/v1/completions")
    assert (status, len(body)) == (404, len(NO_ROUTE))
    assert body != NO_ROUTE.encode()
