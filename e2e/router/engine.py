"""A stand-in for an engine: `python engine.py ADDRESS PORT`.

A completion's body sets the answer: one JSON object, or a stream of `chunks` that are `gap` seconds apart and carry the
time at which they were sent. With `held`, the answer waits for a POST to `/release`; a stream waits after its first
chunk.
"""

import asyncio
import json
import sys
import time

from aiohttp import web

COUNTS = web.AppKey("counts", dict[str, int])
RELEASED = web.AppKey("released", asyncio.Event)


async def health(_request: web.Request) -> web.Response:
    """The answer of a healthy vLLM."""
    return web.Response()


async def stats(request: web.Request) -> web.Response:
    """Numbers of completions that were started, and that ended because the client disconnected."""
    return web.json_response(request.app[COUNTS])


async def release(request: web.Request) -> web.Response:
    """Release all held completions, and all later ones."""
    request.app[RELEASED].set()
    return web.Response()


async def completion(request: web.Request) -> web.StreamResponse:
    """Answer as the body requests."""
    counts, wanted = request.app[COUNTS], await request.json()
    counts["started"] += 1
    try:
        if "chunks" not in wanted:
            await _hold(request, wanted)
            return web.json_response({"answer": "whole"})
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for _ in range(wanted["chunks"]):
            await response.write(f"data: {json.dumps({'sent': time.time()})}\n\n".encode())
            await _hold(request, wanted)
            await asyncio.sleep(wanted["gap"])
        await response.write(b"data: [DONE]\n\n")
    except asyncio.CancelledError:
        counts["left"] += 1
        raise
    return response


async def _hold(request: web.Request, wanted: dict[str, float]) -> None:
    if wanted.get("held"):
        await request.app[RELEASED].wait()


def main(address: str, port: int) -> None:
    """Serve until killed."""
    app = web.Application()
    app[COUNTS] = {"started": 0, "left": 0}
    app[RELEASED] = asyncio.Event()
    app.router.add_get("/health", health)
    app.router.add_get("/stats", stats)
    app.router.add_post("/release", release)
    app.router.add_post("/v1/completions", completion)
    web.run_app(app, host=address, port=port, print=None, handler_cancellation=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
