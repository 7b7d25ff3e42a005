"""A real API server of two kinds of requests, and a service behind it: objects, and ports of pods over websockets.

The protocol of a forwarded port is the kubelet's (Kubernetes 1.36, k8s.io/kubelet/pkg/cri/streaming/portforward).
"""

import asyncio
import json
import struct
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import WSMsgType, web
from aiohttp.test_utils import TestServer

from inference_operator.manifest import INFERENCE_DEPLOYMENT, POD, Manifest, Ref
from inference_operator.objects.names import COMPONENT_LABEL

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Behind:
    """What a test sets, and what came."""

    def __init__(self) -> None:
        self.objects: dict[str, Manifest] = {}
        self.pods: list[Manifest] = []
        self.pages: dict[str, str] = {}
        """Texts of pods, by their path at the API server."""
        self.answer: Handler = streamed(["Hello", " world"])
        self.requests: list[tuple[str, Mapping[str, Any], Mapping[str, str]]] = []
        self.forwarded: list[tuple[str, str]] = []
        """The pod and port of each connection."""
        self.asked: list[str] = []
        """Paths at the API server."""
        self.forbidden: set[str] = set()
        """Paths that it refuses."""
        self.refused_forwards: list[int] = []
        """Statuses of the next websockets that the API server refuses."""
        self.breaks = 0
        """The next connections that the kubelet ends after it has opened them."""
        self.port = 0
        """Of the service."""

    def serve(self, live: Manifest, *pods: Manifest) -> None:
        self.objects[Ref(INFERENCE_DEPLOYMENT, "default", live["metadata"]["name"]).path] = live
        self.pods = list(pods)

    async def service(self, request: web.Request) -> web.StreamResponse:
        body = json.loads(await request.text() or "{}")
        self.requests.append((request.path, body, dict(request.headers)))
        return await self.answer(request)

    async def api_server(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request.path)
        if request.path in self.forbidden:
            return web.json_response({"kind": "Status", "code": 403, "message": "no"}, status=403)
        if request.path.endswith("/portforward"):
            return await self._forward(request)
        if request.path == POD.path("default"):
            return web.json_response({"metadata": {"resourceVersion": "1"}, "items": list(self._selected(request))})
        if request.path in self.pages:
            return web.Response(text=self.pages[request.path])
        if request.path in self.objects:
            return web.json_response(self.objects[request.path])
        if request.path.endswith(f"/{INFERENCE_DEPLOYMENT.plural}"):
            kind = [one for path, one in self.objects.items() if INFERENCE_DEPLOYMENT.plural in path]
            return web.json_response({"metadata": {"resourceVersion": "1"}, "items": kind})
        if request.path.endswith("/events"):
            return web.json_response({"metadata": {"resourceVersion": "1"}, "items": []})
        code = 403 if "/secrets/forbidden" in request.path else 404
        return web.json_response({"kind": "Status", "code": code, "message": "no"}, status=code)

    def _selected(self, request: web.Request) -> Iterator[Manifest]:
        """The pods of the selector's component."""
        wanted = dict(one.split("=") for one in request.query.get("labelSelector", "").split(",") if one)
        for pod in self.pods:
            if wanted.get(COMPONENT_LABEL) in (None, pod["metadata"]["labels"][COMPONENT_LABEL]):
                yield pod

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        if self.refused_forwards:
            return web.json_response({"kind": "Status"}, status=self.refused_forwards.pop())
        socket = web.WebSocketResponse(protocols=("v4.channel.k8s.io",))
        await socket.prepare(request)
        pod, port = request.path.split("/")[-2], request.query["ports"]
        self.forwarded.append((pod, port))
        for channel in (0, 1):
            await socket.send_bytes(bytes([channel]) + struct.pack("<H", int(port)))
        if self.breaks:
            self.breaks -= 1
            await socket.send_bytes(b"\x01error forwarding port: connection refused")
            await socket.close()
            return socket
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        back = asyncio.ensure_future(_back(reader, socket))
        try:
            async for message in socket:
                if message.type is WSMsgType.BINARY and message.data[0] == 0:
                    writer.write(message.data[1:])
                    await writer.drain()
        finally:  # also where the service has ended the connection, and at the end of the test
            writer.close()
            await asyncio.gather(back, return_exceptions=True)
        return socket


async def _back(reader: asyncio.StreamReader, socket: web.WebSocketResponse) -> None:
    while content := await reader.read(1000):
        await socket.send_bytes(b"\x00" + content)
    await socket.close()


def streamed(pieces: Sequence[str], *, tokens: int | None = None, cut: bool = False, wait: float = 0.0) -> Handler:
    """An answer in pieces, as engines stream it, of either path.

    Args:
        pieces: of the text.
        tokens: as the engine counts them; None: it does not.
        cut: whether the connection breaks after them.
        wait: seconds before each piece.
    """

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for piece in pieces:
            await asyncio.sleep(wait)
            choice = {"delta": {"content": piece}} if "chat" in request.path else {"text": piece}
            await response.write(f"data: {json.dumps({'choices': [choice]})}\n\n".encode())
        if cut and request.transport:
            request.transport.abort()
            return response
        if tokens is not None:
            usage = {"choices": [], "usage": {"completion_tokens": tokens}}
            await response.write(f"data: {json.dumps(usage)}\n\n".encode())
        await response.write(b"data: [DONE]\n\n")
        return response

    return answer


def refused(status: int, message: str, **headers: str) -> Handler:
    """A refusal in the form of the OpenAI API."""

    async def answer(_: web.Request) -> web.StreamResponse:
        return web.json_response({"error": {"message": message}}, status=status, headers=headers)

    return answer


def one_after_the_other(*handlers: Handler) -> Handler:
    """Each handler once, and the last one for all that follow."""
    left = list(handlers)

    async def answer(request: web.Request) -> web.StreamResponse:
        return await (left.pop(0) if len(left) > 1 else left[0])(request)

    return answer


@contextmanager
def behind_api_server(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Behind]:
    """Both servers in a thread of their own, and a kubeconfig that names the first one."""
    found, started, loop = Behind(), threading.Event(), asyncio.new_event_loop()

    async def run(end: asyncio.Event) -> None:
        service, api_server = web.Application(), web.Application()
        service.router.add_route("*", "/{path:.*}", found.service)
        api_server.router.add_route("*", "/{path:.*}", found.api_server)
        async with TestServer(service) as one, TestServer(api_server) as other:
            found.port = one.port or 0
            config = {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "a",
                "clusters": [{"name": "a", "cluster": {"server": str(other.make_url("")).rstrip("/")}}],
                "users": [{"name": "a", "user": {"token": "x"}}],
                "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
            }
            (folder / "config").write_text(json.dumps(config))
            started.set()
            await end.wait()

    end = asyncio.Event()
    thread = threading.Thread(target=loop.run_until_complete, args=(run(end),))
    thread.start()
    try:
        assert started.wait(30)
        monkeypatch.setenv("KUBECONFIG", str(folder / "config"))
        yield found
    finally:
        loop.call_soon_threadsafe(end.set)
        thread.join()
        loop.close()
