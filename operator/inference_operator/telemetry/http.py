"""`/healthz`, `/readyz` and `/metrics`.

Every pod may reach the port, so strangers get little of it:

1. A source may have a quarter of the connections that are left free, as at routers.
2. A connection has one request, and ends after `CONNECTION_SECONDS`, whatever its reader does.
3. Pages of metrics are made one after the other. After each, the next one waits three times as long as it took, so that
   they take at most a quarter of a CPU. Who asks for a page that is being made, or is a second old at most, gets that.
4. A source has `PAGES` requests for metrics under way; another one is answered 429.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus

from aiohttp import web
from aiohttp.web_protocol import RequestHandler
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, Metric, generate_latest

MOST_CONNECTIONS, SHARE = 256, 4
CONNECTION_SECONDS = 60.0
"""Prometheus gives up after 10 s by default (`scrape_timeout`), a probe of the chart after a few."""
PAGES = 2
FRESH_SECONDS = 1.0
REST, MOST_REST_SECONDS = 3.0, 2.0
"""How long the next page waits, in times of what the last one took, and at most."""


class _Collected(CollectorRegistry):
    def __init__(self, families: Sequence[Metric]) -> None:
        super().__init__()
        self._families = families

    def collect(self) -> Iterator[Metric]:
        return iter(self._families)


class _Metrics:
    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._waiting: Counter[str] = Counter()
        self._making: dict[frozenset[str], asyncio.Task[bytes]] = {}
        self._names: frozenset[str] = frozenset()
        self._text, self._at = b"", float("-inf")

    async def respond(self, request: web.BaseRequest) -> web.Response:
        """Answer a request. With `?name[]=NAME` the page has only these metrics, as with other exporters."""
        source = request.remote or ""
        if self._waiting[source] >= PAGES:
            return web.Response(
                status=HTTPStatus.TOO_MANY_REQUESTS, text="one page at a time", headers={"Retry-After": "1"}
            )
        self._waiting[source] += 1
        try:
            text = await self._page(frozenset(request.query.getall("name[]", [])))
        finally:
            self._waiting[source] -= 1
            self._waiting += Counter()  # forget those without any
        return web.Response(body=text, headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _page(self, names: frozenset[str]) -> bytes:
        """The page of these names; it is made on, also if who asked for it has left."""
        if names == self._names and time.monotonic() - self._at <= FRESH_SECONDS:
            return self._text
        if names not in self._making:
            self._making[names] = asyncio.create_task(self._made(names))
        return await asyncio.shield(self._making[names])

    async def _made(self, names: frozenset[str]) -> bytes:
        """A new page. It is collected at once and written in a thread, which takes longer: `bench/exposition.py`."""
        await self._lock.acquire()
        began = time.monotonic()
        try:
            registry = REGISTRY.restricted_registry(names) if names else REGISTRY
            collected = _Collected(list(registry.collect()))
            self._text = await asyncio.to_thread(generate_latest, collected)
            self._names, self._at = names, time.monotonic()
            return self._text
        finally:
            del self._making[names]
            rest = min(REST * (time.monotonic() - began), MOST_REST_SECONDS)
            asyncio.get_running_loop().call_later(rest, self._lock.release)


class _Server(web.Server):
    def __init__(self, handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]) -> None:
        super().__init__(handler, access_log=None, keepalive_timeout=0)
        self._sources: Counter[str] = Counter()
        self._open: dict[RequestHandler, tuple[str, asyncio.TimerHandle]] = {}

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        """Take a connection, or end it. One that is ended counts no more: a burst of them would keep others out."""
        super().connection_made(handler, transport)
        source, loop = (transport.get_extra_info("peername") or ("",))[0], asyncio.get_running_loop()
        if len(self._open) + 1 + SHARE * (self._sources[source] + 1) > MOST_CONNECTIONS:
            loop.call_soon(transport.abort)
            return
        self._sources[source] += 1
        self._open[handler] = source, loop.call_later(CONNECTION_SECONDS, transport.abort)

    def connection_lost(self, handler: RequestHandler, exc: BaseException | None = None) -> None:
        super().connection_lost(handler, exc)
        if handler not in self._open:
            return
        source, timer = self._open.pop(handler)
        timer.cancel()
        self._sources[source] -= 1
        self._sources += Counter()


class PortError(Exception):
    """The port cannot be opened."""


async def _listen(runner: web.ServerRunner, port: int) -> None:
    try:
        await web.TCPSite(runner, port=port).start()
    except OSError as error:
        reason = error.strerror or str(error)
        cure = "Set INFERENCE_OPERATOR_HTTP_PORT to a free one"
        raise PortError(f"Port {port} for health and metrics cannot be opened: {reason}. {cure}") from error


@asynccontextmanager
async def serve_health(port: int, *, alive: Callable[[], bool], ready: Callable[[], bool]) -> AsyncIterator[None]:
    """Serve the three paths while the context is open.

    Args:
        port: TCP port; 0 picks a free one.
        alive: whether the process works; if not, the kubelet restarts it.
        ready: whether the configuration is valid and the API server can be reached.
    """
    metrics, probes = _Metrics(), {"/healthz": alive, "/readyz": ready}

    async def respond(request: web.BaseRequest) -> web.StreamResponse:
        if request.method not in {"GET", "HEAD"}:
            return web.Response(status=HTTPStatus.METHOD_NOT_ALLOWED, headers={"Allow": "GET, HEAD"})
        if request.path == "/metrics":
            return await metrics.respond(request)
        if request.path not in probes:
            return web.Response(status=HTTPStatus.NOT_FOUND, text="/healthz, /readyz and /metrics are here")
        return web.Response(text="ok") if probes[request.path]() else web.Response(status=503, text="not yet")

    runner = web.ServerRunner(_Server(respond))
    await runner.setup()
    try:
        await _listen(runner, port)
        yield
    finally:
        await runner.cleanup()
