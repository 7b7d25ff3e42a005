"""`/healthz`, `/readyz` and `/metrics`."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, Metric, generate_latest


def _probe(healthy: Callable[[], bool]) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def respond(_: web.Request) -> web.StreamResponse:
        return web.Response(text="ok") if healthy() else web.Response(status=503, text="not yet")

    return respond


class _Collected(CollectorRegistry):
    """The metrics of one moment."""

    def __init__(self, families: Sequence[Metric]) -> None:
        super().__init__()
        self._families = families

    def collect(self) -> Iterator[Metric]:
        """The collected metrics."""
        return iter(self._families)


async def _metrics(request: web.Request) -> web.Response:
    """The page. It is collected at once and written in a thread, which takes longer: `bench/exposition.py`.

    With `?name[]=NAME` it has only the metrics of these names, as other exporters have it.
    """
    names = request.query.getall("name[]", [])
    registry = REGISTRY.restricted_registry(names) if names else REGISTRY
    collected = _Collected(list(registry.collect()))
    text = await asyncio.to_thread(generate_latest, collected)
    return web.Response(body=text, headers={"Content-Type": CONTENT_TYPE_LATEST})


class PortError(Exception):
    """The port cannot be opened."""


async def _listen(runner: web.AppRunner, port: int) -> None:
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
    application = web.Application()
    application.add_routes(
        [web.get("/healthz", _probe(alive)), web.get("/readyz", _probe(ready)), web.get("/metrics", _metrics)]
    )
    runner = web.AppRunner(application, access_log=None, keepalive_timeout=0)
    await runner.setup()
    try:
        await _listen(runner, port)
        yield
    finally:
        await runner.cleanup()
