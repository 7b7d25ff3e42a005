"""A fake of vLLM inside the engine's image: it starts in a second, and answers with its own name.

Tests about the number of engines mount it in place of vLLM's package, so that `vllm serve` runs it. A stream gets an
event each second, until a request with `release` ends all streams.
"""

import asyncio
import os
import sys

from aiohttp import web

PORT = 8000
RUNNING = 0
RELEASED = asyncio.Event()
EVENT_SECONDS = 1.0


async def metrics(_request: web.Request) -> web.Response:
    """The two metrics that the pre-stop hook and the operator read."""
    lines = (f'vllm:num_requests_running{{engine="0"}} {RUNNING}', 'vllm:num_requests_waiting{engine="0"} 0')
    return web.Response(text="\n".join((*lines, "")))


async def health(_request: web.Request) -> web.Response:
    """The answer of a healthy vLLM."""
    return web.Response()


async def completion(request: web.Request) -> web.StreamResponse:
    """The name of this pod, after `seconds`; or a stream."""
    global RUNNING  # noqa: PLW0603 - a script
    wanted = await request.json()
    if wanted.get("release"):
        RELEASED.set()
    RUNNING += 1
    try:
        if wanted.get("stream"):
            return await stream(request)
        await asyncio.sleep(wanted.get("seconds", 0))
        return web.json_response({"choices": [{"text": os.environ["HOSTNAME"]}]})
    finally:
        RUNNING -= 1


async def stream(request: web.Request) -> web.StreamResponse:
    """Events until all streams are released."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    while not RELEASED.is_set():
        await response.write(b'data: {"choices": [{"text": "word"}]}\n\n')
        await asyncio.sleep(EVENT_SECONDS)
    await response.write(b"data: [DONE]\n\n")
    return response


async def models(_request: web.Request) -> web.Response:
    """One model, owned by this stand-in."""
    return web.json_response({"object": "list", "data": [{"id": "any", "object": "model", "owned_by": "stand-in"}]})


if __name__ in ("__main__", "vllm"):
    app = web.Application()
    app.router.add_get("/metrics", metrics)
    app.router.add_get("/health", health)
    app.router.add_get("/v1/models", models)
    app.router.add_post("/v1/completions", completion)
    web.run_app(app, port=PORT, print=None)
    sys.exit()
