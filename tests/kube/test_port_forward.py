"""Ports of pods on this machine: bytes in both directions, whose turn it is, and what fails."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from kubernetes.aio.client.api_client import ApiClient
from kubernetes.aio.client.configuration import Configuration

from inference_operator.controller.cluster import ClusterError, ForbiddenError
from inference_operator.kube.client import Api
from inference_operator.kube.port_forward import NoTargetError, PodPort, PortForward

LARGE = bytes(range(256)) * 8_000
"""More than any buffer on the way."""


class Kubelet:
    """Sends what it gets back, as the kubelet's protocol frames it."""

    def __init__(self) -> None:
        self.status = 101
        self.error = b""
        self.opened: list[str] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.opened.append(f"{request.path_qs} {request.headers['Authorization']}")
        if self.status != 101:
            return web.Response(status=self.status)
        socket = web.WebSocketResponse(protocols=("v4.channel.k8s.io",))
        await socket.prepare(request)
        port = int(request.query["ports"]).to_bytes(2, "little")
        await socket.send_bytes(b"\x00" + port)
        await socket.send_bytes(b"\x01" + port)
        if self.error:
            await socket.send_bytes(b"\x01" + self.error)
        async for message in socket:
            await socket.send_bytes(message.data)
        return socket


@pytest.fixture
def kubelet() -> Kubelet:
    return Kubelet()


@pytest.fixture
async def api(kubelet: Kubelet) -> AsyncIterator[Api]:
    app = web.Application()
    app.router.add_get("/{path:.*}", kubelet.handle)
    async with TestServer(app) as server:
        configuration = Configuration(host=str(server.make_url("")).rstrip("/"))
        configuration.api_key = {"BearerToken": "Bearer token"}
        client = ApiClient(configuration)
        yield Api(client)
        await client.close()  # type: ignore[no-untyped-call]


class Targets:
    """The port of pods, and how often it was asked for."""

    def __init__(self, *pods: str) -> None:
        self.pods = pods
        self.asked = 0

    async def __call__(self) -> Sequence[PodPort]:
        self.asked += 1
        return [PodPort(pod, 8080) for pod in self.pods]


async def echoed(forward: PortForward, content: bytes) -> bytes:
    """What comes back for a content, or until the connection ends."""
    reader, writer = await asyncio.open_unix_connection(forward.path)

    async def send() -> None:
        writer.write(content)
        await writer.drain()

    sending = asyncio.ensure_future(send())
    try:
        async with asyncio.timeout(60):
            return await reader.readexactly(len(content))
    except asyncio.IncompleteReadError as error:
        return error.partial
    except ConnectionResetError:
        return b""
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        writer.close()


async def test_bytes_go_both_ways_and_pods_take_turns(api: Api, kubelet: Kubelet) -> None:
    async with PortForward(api, "default", Targets("a", "b")) as forward:
        folder = forward.path.parent
        assert folder.stat().st_mode & 0o077 == 0
        assert await echoed(forward, LARGE) == LARGE
        assert [await echoed(forward, b"x") for _ in range(2)] == [b"x", b"x"]
    path = "/api/v1/namespaces/default/pods/{}/portforward?ports=8080 Bearer token"
    assert kubelet.opened == [path.format(pod) for pod in ("a", "b", "a")]
    assert not folder.exists()


async def test_connections_that_are_open_end_with_it(api: Api) -> None:
    async with PortForward(api, "default", Targets("a")) as forward:
        reader, writer = await asyncio.open_unix_connection(forward.path)
        writer.write(b"x")
        assert await reader.read(1) == b"x"
    assert await reader.read() == b""
    writer.close()


@pytest.mark.parametrize(
    ("status", "problem"), [(403, ForbiddenError), (404, ClusterError), (500, ClusterError), (200, ClusterError)]
)
async def test_why_a_connection_failed_is_kept(
    api: Api, kubelet: Kubelet, status: int, problem: type[ClusterError]
) -> None:
    kubelet.status = status
    async with PortForward(api, "default", Targets("a")) as forward:
        assert await echoed(forward, b"x") == b""
        assert isinstance(forward.problem, problem)
        kubelet.status = 101
        assert await echoed(forward, b"x") == b"x"
        assert forward.problem is None


async def test_a_port_that_refuses_is_a_problem_and_other_pods_are_asked_for(api: Api, kubelet: Kubelet) -> None:
    kubelet.error = b"connection refused"
    found = Targets("a")
    async with PortForward(api, "default", found) as forward:
        assert await echoed(forward, b"x") in (b"", b"x")
        assert forward.problem
        kubelet.error = b""
        assert await echoed(forward, b"x") == b"x"
    assert found.asked == 2


async def test_without_a_pod_nothing_is_opened(api: Api, kubelet: Kubelet) -> None:
    async with PortForward(api, "default", Targets()) as forward:
        assert await echoed(forward, b"x") == b""
        assert isinstance(forward.problem, NoTargetError)
    assert not kubelet.opened
