"""A small server on loopback that returns completions as a test sets them."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest
from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Serve = Callable[[Handler], str]


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[str]:
    """A server with this answer to completions; its address."""
    app = web.Application()
    app.router.add_post("/v1/completions", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    try:
        yield f"{host}:{port}"
    finally:
        await runner.cleanup()


@contextmanager
def serving_from_a_thread(handler: Handler) -> Iterator[str]:
    """The same for tests that are no coroutines."""
    loop, started, addresses = asyncio.new_event_loop(), threading.Event(), list[str]()
    stop = asyncio.Event()

    async def serve() -> None:
        async with serving(handler) as address:
            addresses.append(address)
            started.set()
            await stop.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    assert started.wait(5)
    yield addresses[0]
    loop.call_soon_threadsafe(stop.set)
    thread.join()
    loop.close()


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts servers that end with the test."""
    stack: list[Any] = []

    def start(handler: Handler) -> str:
        context = serving_from_a_thread(handler)
        stack.append(context)
        return context.__enter__()

    yield start
    for context in stack:
        context.__exit__(None, None, None)


def completion(text: str) -> bytes:
    """A completion, or a chunk of one, as vLLM writes it."""
    return json.dumps({"choices": [{"text": text}]}).encode()


async def echo(request: web.Request) -> web.StreamResponse:
    """The right answer: the prompt, in words if it is to be streamed."""
    asked = await request.json()
    return await (stream(request, asked["prompt"].split(" ")) if asked["stream"] else plain(asked["prompt"]))


async def plain(prompt: str) -> web.StreamResponse:
    """A whole answer."""
    return web.Response(body=completion(prompt), content_type="application/json")


async def stream(
    request: web.Request, words: list[str], *, done: bool = True, pause: float = 0.0
) -> web.StreamResponse:
    """An answer in chunks."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for number, word in enumerate(words):
        await response.write(b"data: " + completion(word if number == 0 else f" {word}") + b"\n\n")
        await asyncio.sleep(pause)
    if done:
        await response.write(b"data: [DONE]\n\n")
    return response


def abort(request: web.Request) -> None:
    """End the connection under the request, with a reset."""
    assert request.transport is not None
    request.transport.abort()
