"""HTTP servers on loopback that simulate pods; tests set their metrics and whether they make progress."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler

from inference_operator.engines.engine_key_program import EngineKey, Send
from inference_operator.objects.names import ENGINE, ROUTER
from inference_operator.views.engine import EngineView, engines_of
from inference_operator.views.pod import PodView

LOADED = (Path(__file__).parents[1] / "engines" / "vllm-0.32.0-metrics.txt").read_text()
IDLE = LOADED.replace(
    'vllm:num_requests_running{engine="0",model_name="tiny"} 2.0',
    'vllm:num_requests_running{engine="0",model_name="tiny"} 0.0',
).replace(
    'vllm:num_requests_waiting{engine="0",model_name="tiny"} 8.0',
    'vllm:num_requests_waiting{engine="0",model_name="tiny"} 0.0',
)
STATISTICS = (
    "# pxname,svname,qcur,scur,stot,addr,\n"
    "engines,e1,0,{sessions},9,127.0.0.1:8000,\n"
    "engines,BACKEND,0,{sessions},9,,\n"
)


@dataclass(slots=True)
class Answering:
    """HTTP server of one pod."""

    text: str = LOADED
    status: int = 200
    """Of responses to probe requests."""
    hangs: bool = False
    """Whether probe requests get no response."""
    port: int = 0
    probe_requests: list[object] = field(default_factory=list)
    scrapes: int = 0
    _guard: EngineKey | None = None
    clients: set[object] = field(default_factory=set)
    released: asyncio.Event = field(default_factory=asyncio.Event)
    key_file: str = ""
    """File with the key that the engine asks for; empty: it asks for none."""
    refused: list[str] = field(default_factory=list)
    """Paths of requests without the key."""

    @web.middleware
    async def ask_for_key(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """The answer behind the program that asks for the key, as an ASGI server would give it."""
        if not self.key_file:
            return await handler(request)
        if self._guard is None:
            self._guard = EngineKey(self._inner, self.key_file, "tiny")
        answer = web.Response()
        parts = [{"type": "http.request", "body": await request.read(), "more_body": False}]

        async def receive() -> dict[str, Any]:
            if not parts:
                await asyncio.Event().wait()
            return parts.pop()

        async def send(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                answer.set_status(message["status"])
            else:
                answer.body = message["body"]

        headers = [(name.lower(), value) for name, value in request.raw_headers]
        scope = {"type": "http", "method": request.method, "path": request.path, "headers": headers}
        await self._guard({**scope, "answer": lambda: handler(request)}, receive, send)
        if answer.status == HTTPStatus.UNAUTHORIZED:
            self.refused.append(request.path)
        return answer

    async def _inner(self, scope: dict[str, Any], _: object, send: Send) -> None:
        """The server behind the program."""
        found = await scope["answer"]()
        await send({"type": "http.response.start", "status": found.status, "headers": []})
        await send({"type": "http.response.body", "body": found.body or b""})

    async def show(self, request: web.Request) -> web.Response:
        self.scrapes += 1
        self.clients.add(request.transport.get_extra_info("peername") if request.transport else None)
        return web.Response(text=self.text)

    async def answer(self, request: web.Request) -> web.Response:
        self.probe_requests.append(await request.json())
        if self.hangs:
            await self.released.wait()
        return web.Response(status=self.status)


@asynccontextmanager
async def answering(
    text: str = LOADED, *, hangs: bool = False, status: int = 200, path: str = "/metrics", key_file: str = ""
) -> AsyncIterator[Answering]:
    server = Answering(text, hangs=hangs, status=status, key_file=key_file)
    application = web.Application(middlewares=[server.ask_for_key])
    application.add_routes(
        [web.get(path, server.show), web.get("/stats;up;csv", server.show), web.post("/{any:.*}", server.answer)]
    )
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.port = runner.addresses[0][1]
    try:
        yield server
    finally:
        server.released.set()
        await runner.cleanup()


def engine(server: Answering, name: str = "engine", *, ready: bool = True, terminating: bool = False) -> PodView:
    return _pod(name, ENGINE, {"http": server.port}, ready=ready, terminating=terminating)


def engines_among(pods: Iterable[PodView]) -> list[EngineView]:
    return engines_of(pod for pod in pods if pod.component == ENGINE)


def router(*servers: Answering, name: str = "router") -> PodView:
    ports = {f"metrics-{number}": server.port for number, server in enumerate(servers)}
    return _pod(name, ROUTER, {"http": 1, **ports})


def _pod(name: str, component: str, ports: dict[str, int], *, ready: bool = True, terminating: bool = False) -> PodView:
    return PodView(
        name=name,
        component=component,
        created=None,
        ready=ready,
        terminating=terminating,
        failed=False,
        problem=None,
        uid=f"uid-{name}",
        address="127.0.0.1",
        ports=ports,
    )
