"""A port of pods on this machine, through the API server, as `kubectl port-forward` has it.

- It listens on a Unix socket in a folder that only its user can open. On a TCP port, every user of the machine could
  use the rights of this one.
- Each connection is a websocket of its own to the API server, which hands it to the pod's kubelet. The protocol has two
  channels for each port, one with the bytes and one with an error; the first message of each is the port's number
  (Kubernetes 1.36, k8s.io/kubelet/pkg/cri/streaming/portforward/websocket.go).
- The pods take turns. One that is gone is replaced by others, so that a later connection succeeds.
"""

import asyncio
from asyncio import StreamReader, StreamWriter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

from aiohttp import ClientConnectionError, ClientWebSocketResponse, WSMsgType

from inference_operator.controller.cluster import ClusterError, ForbiddenError
from inference_operator.kube.client import Api
from inference_operator.manifest import POD, Ref

PROTOCOL = "v4.channel.k8s.io"
DATA, ERROR = 0, 1
"""Channels of the first, and here the only, port."""
CHUNK_BYTES = 65_536
SOCKET = "forward.sock"


@dataclass(frozen=True, slots=True)
class PodPort:
    pod: str
    port: int


class PortForward:
    """A Unix socket, each connection to which ends at a port of one of several pods.

    Pods that stop take connections for a while only: with `lists_each_time`, no connection goes to one of an old list.
    """

    def __init__(
        self,
        api: Api,
        namespace: str,
        targets: Callable[[], Awaitable[Sequence[PodPort]]],
        *,
        lists_each_time: bool = False,
    ) -> None:
        self._api = api
        self._namespace = namespace
        self._targets = targets
        self._lists_each_time = lists_each_time
        self._known: Sequence[PodPort] = ()
        self._opened = 0
        self._connections: set[asyncio.Task[None]] = set()
        self._folder = TemporaryDirectory(prefix="infd-")
        self._server: asyncio.Server | None = None
        self.problem: ClusterError | None = None
        """Why the last connection failed; None if it did not."""

    @property
    def path(self) -> Path:
        return Path(self._folder.name) / SOCKET

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_unix_server(self._accept, self.path)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server:
            self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        self._folder.cleanup()

    def _accept(self, reader: StreamReader, writer: StreamWriter) -> None:
        connection = asyncio.ensure_future(self._forward(reader, writer))
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)
        connection.add_done_callback(lambda _: writer.close())  # also of one that is cancelled before it begins

    async def _forward(self, reader: StreamReader, writer: StreamWriter) -> None:
        try:
            socket = await self._socket()
            try:
                await self._copy(reader, writer, socket)
            finally:
                await socket.close()
        except ClusterError as error:
            self.problem, self._known = error, ()
        except (ClientConnectionError, ConnectionError):
            pass  # one of both ends is gone; the other one is closed by _accept

    async def _socket(self) -> ClientWebSocketResponse:
        """A websocket to the next pod; to one of a new list if the first one refuses."""
        if self._known and not self._lists_each_time:
            try:
                return await self._open(self._known)
            except ForbiddenError:
                raise
            except ClusterError:
                pass
        self._known = await self._targets()
        if not self._known:
            raise NoTargetError("no pod is ready")
        return await self._open(self._known)

    async def _open(self, targets: Sequence[PodPort]) -> ClientWebSocketResponse:
        target = targets[self._opened % len(targets)]
        self._opened += 1
        path = f"{Ref(POD, self._namespace, target.pod).path}/portforward"
        socket = await self._api.websocket(path, POD, query={"ports": str(target.port)}, protocol=PROTOCOL)
        self.problem = None
        return socket

    async def _copy(self, reader: StreamReader, writer: StreamWriter, socket: ClientWebSocketResponse) -> None:
        both = [asyncio.ensure_future(copy) for copy in (_sent(reader, socket), self._received(socket, writer))]
        try:
            done, _ = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in both:
                task.cancel()
            await asyncio.gather(*both, return_exceptions=True)

    async def _received(self, socket: ClientWebSocketResponse, writer: StreamWriter) -> None:
        opened: set[int] = set()
        async for message in socket:
            if message.type is not WSMsgType.BINARY or not message.data:
                continue
            channel, content = message.data[0], message.data[1:]
            if channel not in opened:  # the port's number
                opened.add(channel)
            elif channel == DATA:
                writer.write(content)
                await writer.drain()
            elif channel == ERROR and content:
                raise ClusterError("the node could not connect to the port of the pod")


class NoTargetError(ClusterError):
    """No pod has the port."""


async def _sent(reader: StreamReader, socket: ClientWebSocketResponse) -> None:
    while content := await reader.read(CHUNK_BYTES):
        await socket.send_bytes(bytes([DATA]) + content)
