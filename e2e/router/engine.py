"""A stand-in for an engine: `python engine.py ADDRESS PORT`.

A completion's body says how it behaves: `delay` seconds before the answer begins, then a JSON answer, or a stream of
`chunks` that are `gap` seconds apart and carry the time at which they were sent.
"""

import asyncio
import json
import sys
import time

from aiohttp import web

COUNTS = web.AppKey("counts", dict[str, int])


async def health(_request: web.Request) -> web.Response:
    """What vLLM answers while its engine lives."""
    return web.Response()


async def stats(request: web.Request) -> web.Response:
    """How many completions were started, and how many ended because their client had left."""
    return web.json_response(request.app[COUNTS])


async def completion(request: web.Request) -> web.StreamResponse:
    """Answer as the body says."""
    counts, wanted = request.app[COUNTS], await request.json()
    counts["started"] += 1
    try:
        await asyncio.sleep(wanted.get("delay", 0))
        if "chunks" not in wanted:
            return web.json_response({"answer": "whole"})
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for _ in range(wanted["chunks"]):
            await response.write(f"data: {json.dumps({'sent': time.time()})}\n\n".encode())
            await asyncio.sleep(wanted["gap"])
        await response.write(b"data: [DONE]\n\n")
    except asyncio.CancelledError:
        counts["left"] += 1
        raise
    return response


def main(address: str, port: int) -> None:
    """Serve until killed."""
    app = web.Application()
    app[COUNTS] = {"started": 0, "left": 0}
    app.router.add_get("/health", health)
    app.router.add_get("/stats", stats)
    app.router.add_post("/v1/completions", completion)
    web.run_app(app, host=address, port=port, print=None, handler_cancellation=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
