"""A stand-in for an engine: `python engine.py ADDRESS PORT`.

A completion's body sets the answer: one JSON object, or a stream of `chunks` that are `gap` seconds apart and carry the
time at which they were sent, `prefill` seconds after the headers. With `held`, the answer waits for a POST to
`/release`; a stream waits after its first chunk. With `after`, the answer begins this many seconds later.

A chat completion, response or message is answered with the `pieces` of the body, one after the other, as `type`, after
`prefill` seconds.

After a POST to `/slow/SECONDS`, `/health` takes this long. After SIGUSR1 no new connection is accepted, until SIGUSR2.
"""

import asyncio
import json
import signal
import sys
import time

from aiohttp import web

COUNTS = web.AppKey("counts", dict[str, int])
ADDRESS = web.AppKey("address", str)
ENGINE = "x-engine"
"""Header of an answer with the address of its engine."""
RELEASED = web.AppKey("released", asyncio.Event)
SLOW = web.AppKey("slow", list[float])
"""Seconds that `/health` takes, as the only item."""


async def health(request: web.Request) -> web.Response:
    """The answer of a healthy vLLM."""
    (seconds,) = request.app[SLOW]
    await asyncio.sleep(seconds)
    request.app[COUNTS]["slow health checks"] += seconds > 0
    return web.Response()


async def slow(request: web.Request) -> web.Response:
    """Set how long `/health` takes."""
    request.app[SLOW][0] = float(request.match_info["seconds"])
    return web.Response()


async def headers(request: web.Request) -> web.Response:
    """The headers of the request."""
    return web.json_response(dict(request.headers))


async def stats(request: web.Request) -> web.Response:
    """Numbers of completions that were started, and that ended because the client disconnected."""
    return web.json_response(request.app[COUNTS])


async def release(request: web.Request) -> web.Response:
    """Release all held completions, and all later ones."""
    request.app[RELEASED].set()
    return web.Response()


async def echo(request: web.Request) -> web.Response:
    """Answer with the bytes of the body as they came, encoded and framed as they were."""
    encoding = request.headers.get("Content-Encoding")
    response = web.Response(body=await request.read(), headers={"Content-Encoding": encoding} if encoding else None)
    if "Transfer-Encoding" in request.headers:
        response.enable_chunked_encoding()
    return response


async def pieces(request: web.Request) -> web.StreamResponse:
    """Answer with the texts of the body, each in a packet of its own, `prefill` seconds after the headers.

    With `dies`, the connection ends after the prefill instead.
    """
    wanted = json.loads(await request.read())
    response = web.StreamResponse(headers={"Content-Type": wanted["type"], **wanted.get("headers", {})})
    response.set_status(wanted.get("status", 200))
    await response.prepare(request)
    await asyncio.sleep(wanted.get("prefill", 0))
    if wanted.get("dies") and request.transport:
        request.transport.abort()
        return response
    for piece in wanted["pieces"]:
        await response.write(piece.encode())
        await asyncio.sleep(wanted.get("gap", 0))
    return response


async def completion(request: web.Request) -> web.StreamResponse:
    """Answer as the body requests."""
    counts, wanted = request.app[COUNTS], json.loads(await request.read() or b"{}")
    counts["started"] += 1
    try:
        await asyncio.sleep(wanted.get("after", 0))
        if "chunks" not in wanted:
            await _hold(request, wanted)
            return web.json_response({"answer": "whole"}, headers={ENGINE: request.app[ADDRESS]})
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await asyncio.sleep(wanted.get("prefill", 0))
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


async def serve(address: str, port: int) -> None:
    """Serve until cancelled. SIGUSR1 closes the listening socket and keeps the connections; SIGUSR2 opens it again."""
    app = web.Application(client_max_size=2**24)
    app[ADDRESS] = address
    app[COUNTS] = {"started": 0, "left": 0, "slow health checks": 0}
    app[RELEASED] = asyncio.Event()
    app[SLOW] = [0.0]
    app.router.add_get("/health", health)
    app.router.add_get("/stats", stats)
    app.router.add_post("/release", release)
    app.router.add_post("/v1/completions", completion)
    app.router.add_post("/v1/embeddings", echo)
    for path in ("/v1/chat/completions", "/v1/responses", "/v1/messages", "/tokenize"):
        app.router.add_post(path, pieces)
    app.router.add_post("/slow/{seconds}", slow)
    app.router.add_get("/v1/models", headers)
    app.router.add_get("/metrics", health)
    runner = web.AppRunner(app, handler_cancellation=True, auto_decompress=False)
    await runner.setup()
    accept, refuse = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGUSR1, refuse.set)
    loop.add_signal_handler(signal.SIGUSR2, accept.set)
    while True:
        assert runner.server is not None  # noqa: S101 - `setup` has made it
        server = await loop.create_server(runner.server, address, port, backlog=1024)
        await refuse.wait()
        server.close()
        await accept.wait()
        accept.clear()
        refuse.clear()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], int(sys.argv[2])))
