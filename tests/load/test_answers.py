"""Classification of responses: each kind of lost request is recognised, and no other response counts as lost."""

import asyncio
import socket
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from e2e.load import is_clean_error
from inference_operator.cli.drill.completion import Question, ask
from inference_operator.cli.drill.promises import CheckedAnswer as Answer
from inference_operator.cli.drill.promises import Loss
from tests.load.conftest import Handler, abort, echo, plain, serving, stream

PROMPT = "one two three"


async def answer(handler: Handler, *, streamed: bool, seconds: float = 5) -> Answer:
    async with serving(handler) as address:
        return await asked(address, streamed=streamed, seconds=seconds)


async def asked(address: str, *, streamed: bool, seconds: float = 5) -> Answer:
    question = Question(f"http://{address}/v1/completions", "m", PROMPT, streamed)
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=seconds)) as session:
        return await ask(session, question, PROMPT, kept=True)


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_complete_response_counts_as_ok(streamed: bool) -> None:  # noqa: FBT001
    got = await answer(echo, streamed=streamed)
    assert (got.ok, got.loss, got.status, got.streamed) == (True, None, 200, streamed)


async def test_status_429_counts_as_rejected_and_not_as_lost() -> None:
    async def full(_: web.Request) -> web.StreamResponse:
        return web.Response(status=429, text="full")

    got = await answer(full, streamed=False)
    assert (got.ok, got.rejected, got.loss) == (False, True, None)


@pytest.mark.parametrize(
    ("body", "clean"),
    [
        ('{"error": {"message": "gone", "type": "server_error", "code": "engine_failed"}}', True),
        ('{"error": {"message": "gone", "type": "server_error", "code": null}}', False),
        ("<html>", False),
        ("[]", False),
    ],
)
async def test_an_error_status_counts_as_a_lost_request(body: str, clean: bool) -> None:  # noqa: FBT001
    async def fails(_: web.Request) -> web.StreamResponse:
        return web.Response(status=502, text=body)

    got = await answer(fails, streamed=False)
    assert (got.loss, got.status, is_clean_error(got)) == (Loss.STATUS, 502, clean)


async def test_a_port_without_listener_counts_as_refused() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        got = await asked(f"127.0.0.1:{free.getsockname()[1]}", streamed=False)
    assert got.loss is Loss.REFUSED


async def test_a_connection_closed_before_the_client_uses_it_counts_as_reset(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As a busy client finds it, whose connection the kernel of a process that was killed has accepted."""
    loop = asyncio.get_running_loop()
    connect = loop.sock_connect
    listener = socket.create_server(("127.0.0.1", 0))

    async def connect_and_lose(*arguments: Any) -> None:  # noqa: ANN401 - asyncio's signature
        connecting = asyncio.ensure_future(connect(*arguments))
        await asyncio.sleep(0)
        listener.close()
        await connecting

    monkeypatch.setattr(loop, "sock_connect", connect_and_lose)
    got = await asked(f"127.0.0.1:{listener.getsockname()[1]}", streamed=False)
    assert got.loss is Loss.RESET


async def test_a_connection_closed_before_the_response_counts_as_reset() -> None:
    async def gone(request: web.Request) -> web.StreamResponse:
        abort(request)
        return web.Response()

    assert (await answer(gone, streamed=False)).loss is Loss.RESET


async def test_a_stream_without_its_end_marker_counts_as_broken() -> None:
    async def unfinished(request: web.Request) -> web.StreamResponse:
        return await stream(request, PROMPT.split(), done=False)

    assert (await answer(unfinished, streamed=True)).loss is Loss.BROKEN


async def test_a_truncated_response_counts_as_broken() -> None:
    async def half(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "100"})
        await response.prepare(request)
        await response.write(b'{"choi')
        abort(request)
        return response

    got = await answer(half, streamed=False)
    assert (got.loss, got.status) == (Loss.BROKEN, 200)


@pytest.mark.parametrize("body", ["{}", '{"choices": []}', '{"choices": [{"text": null}]}', "no json"])
async def test_a_response_that_is_not_a_completion_counts_as_broken(body: str) -> None:
    async def odd(_: web.Request) -> web.StreamResponse:
        return web.Response(text=body)

    assert (await answer(odd, streamed=False)).loss is Loss.BROKEN


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_response_with_an_unexpected_text_counts_as_a_lost_request(streamed: bool) -> None:  # noqa: FBT001
    async def wrong(request: web.Request) -> web.StreamResponse:
        return await (stream(request, ["one", "two"]) if streamed else plain("one two"))

    got = await answer(wrong, streamed=streamed)
    assert got.loss is Loss.DIFFERENT
    assert "'one two' instead of 'one two three'" in got.detail


async def test_a_response_after_the_timeout_counts_as_late() -> None:
    async def slow(_: web.Request) -> web.StreamResponse:
        await asyncio.sleep(60)
        return web.Response()

    assert (await answer(slow, streamed=False, seconds=0.1)).loss is Loss.LATE
