"""HTTP requests to pods over a real connection."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer, unused_port

from inference_operator.controller.changes import PodRequest
from inference_operator.controller.cluster import ClusterError, NotLeaderError
from inference_operator.controller.execute import execute
from inference_operator.kube.client import Api
from inference_operator.kube.cluster import KubeCluster
from inference_operator.kube.pod_http import MAX_BYTES, post_to_pod
from inference_operator.manifest import POD, Manifest, Ref
from inference_operator.status.write_results import Failed, PodAccepted, PodRefused
from inference_operator.views.pod_request import PodRequestSpec

BODY: Manifest = {"lora_name": "a", "lora_path": "/models/a"}
POD_REF = Ref(POD, "default", "qwen-0")


@dataclass
class Pod:
    """A pod that records what it is sent."""

    server: TestServer
    response: web.Response = field(default_factory=web.Response)
    silent: bool = False
    received: list[tuple[str, str, object]] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.Response:
        self.received.append((request.path, request.content_type, await request.json()))
        if self.silent:
            await asyncio.sleep(60)
        return self.response

    @property
    def request(self) -> PodRequestSpec:
        port = self.server.port
        assert port is not None
        return PodRequestSpec(POD_REF, "u", "127.0.0.1", port, "/v1/load_lora_adapter", BODY, "adapter `a` is absent")


@pytest.fixture
async def pod() -> AsyncIterator[Pod]:
    application = web.Application()
    pod = Pod(TestServer(application, host="127.0.0.1"))
    application.router.add_post("/{path:.*}", pod.answer)
    async with pod.server:
        yield pod


class OnlyPods:
    """A Kubernetes client that must not be used."""


@pytest.fixture
def cluster() -> KubeCluster:
    return KubeCluster(Api(OnlyPods()))  # type: ignore[arg-type]  # any use of it fails


async def test_a_request_is_sent_as_json_to_the_pod_and_not_to_the_api_server(pod: Pod, cluster: KubeCluster) -> None:
    assert await execute(cluster, PodRequest(pod.request)) == PodAccepted(POD_REF, 200)
    assert pod.received == [("/v1/load_lora_adapter", "application/json", BODY)]


async def test_a_refused_request_to_a_pod_returns_status_and_text(pod: Pod, cluster: KubeCluster) -> None:
    pod.response = web.Response(status=400, text="The adapter's rank is too large")
    refused = PodRefused(POD_REF, 400, "The adapter's rank is too large")
    assert await execute(cluster, PodRequest(pod.request)) == refused


async def test_a_pod_that_does_not_respond_in_time_raises_an_error(pod: Pod, cluster: KubeCluster) -> None:
    pod.silent = True
    request = replace(pod.request, timeout_seconds=0.1)
    assert await execute(cluster, PodRequest(request)) == Failed(POD_REF, "the pod did not respond in time")


async def test_a_pod_port_without_a_listener_raises_an_error(pod: Pod, cluster: KubeCluster) -> None:
    request = replace(pod.request, port=unused_port())
    assert await execute(cluster, PodRequest(request)) == Failed(POD_REF, "the pod cannot be reached")


async def test_a_redirect_of_the_pod_is_not_followed(pod: Pod) -> None:
    pod.response = web.Response(status=307, headers={"Location": "/elsewhere"})
    assert (await post_to_pod(pod.request)).status == 307
    assert len(pod.received) == 1


async def test_only_the_beginning_of_a_long_response_is_read(pod: Pod) -> None:
    pod.response = web.Response(text="a" * (10 * MAX_BYTES))
    assert len((await post_to_pod(pod.request)).text) <= MAX_BYTES


async def test_an_invalid_pod_address_raises_cluster_error(pod: Pod) -> None:
    with pytest.raises(ClusterError, match="cannot be reached"):
        await post_to_pod(replace(pod.request, address="no address"))


async def test_a_process_without_the_lease_sends_no_request_to_a_pod(pod: Pod) -> None:
    cluster = KubeCluster(Api(OnlyPods()), may_act=lambda: False)  # type: ignore[arg-type]
    with pytest.raises(NotLeaderError):
        await execute(cluster, PodRequest(pod.request))
    assert pod.received == []
