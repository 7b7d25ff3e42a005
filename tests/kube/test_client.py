"""The client: requests that it sends, and what it returns or raises for each response."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer
from kubernetes.aio.client.api_client import ApiClient
from kubernetes.aio.client.configuration import Configuration

from inference_operator.controller.cluster import (
    ClusterError,
    ConflictError,
    ForbiddenError,
    NotFoundError,
    NotLeaderError,
    RejectedError,
)
from inference_operator.kube.client import Api, connect
from inference_operator.kube.cluster import KubeCluster
from inference_operator.manifest import CONFIG_MAP, POD, Manifest, Ref
from inference_operator.views.lookups import LogLookup
from tests.testing.listings import listing

REF = Ref(CONFIG_MAP, "default", "settings")
BODY: Manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "default"}}
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ApiServer:
    """An API server that records requests and responds as the test says."""

    def __init__(self) -> None:
        self.answer: Handler = self._nothing
        self.requests: list[tuple[str, str, Manifest | None]] = []
        self.told: list[tuple[str, str, str]] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        text = await request.text()
        self.requests.append((request.method, str(request.rel_url), json.loads(text) if text else None))
        return await self.answer(request)

    async def _nothing(self, _: web.Request) -> web.StreamResponse:
        return web.json_response({})

    def says(self, status: int, **body: object) -> None:
        async def answer(_: web.Request) -> web.StreamResponse:
            return web.json_response(body, status=status)

        self.answer = answer


@pytest.fixture
def api() -> ApiServer:
    return ApiServer()


@pytest.fixture
async def client(api: ApiServer) -> AsyncIterator[ApiClient]:
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", api.handle)
    async with TestServer(application) as server:
        configuration = Configuration(host=f"http://{server.host}:{server.port}")
        async with ApiClient(configuration) as opened:
            yield opened


@pytest.fixture
def cluster(api: ApiServer, client: ApiClient) -> KubeCluster:
    return KubeCluster(Api(client, on_request=lambda *request: api.told.append(request)))


async def test_apply_sends_a_server_side_apply_patch(api: ApiServer, cluster: KubeCluster) -> None:
    api.says(200, **BODY)
    assert await cluster.apply(REF, BODY, force=True) == BODY
    path = "/api/v1/namespaces/default/configmaps/settings"
    assert api.requests == [("PATCH", f"{path}?fieldManager=inference-operator&force=true&timeout=8s", BODY)]
    assert api.told == [("PATCH", "ConfigMap", "200")]


async def test_apply_status_sends_a_patch_to_the_status_subresource(api: ApiServer, cluster: KubeCluster) -> None:
    api.says(200, **BODY)
    await cluster.apply_status(REF, BODY)
    assert api.requests[0][1].startswith("/api/v1/namespaces/default/configmaps/settings/status?")


async def test_delete_sends_the_uid_as_precondition_and_deletes_dependents(
    api: ApiServer, cluster: KubeCluster
) -> None:
    await cluster.delete(REF, uid="u")
    body = api.requests[0][2]
    assert isinstance(body, dict)
    assert (body["preconditions"], body["propagationPolicy"]) == ({"uid": "u"}, "Background")


async def test_delete_with_a_version_sends_the_resource_version_as_precondition(
    api: ApiServer, cluster: KubeCluster
) -> None:
    await cluster.delete(REF, uid="u", version="7")
    assert (api.requests[0][2] or {})["preconditions"] == {"uid": "u", "resourceVersion": "7"}


async def test_delete_with_grace_seconds_sends_the_grace_period(api: ApiServer, cluster: KubeCluster) -> None:
    await cluster.delete(REF, uid="u", grace_seconds=1)
    assert (api.requests[0][2] or {})["gracePeriodSeconds"] == 1


@pytest.mark.parametrize(("header", "seconds"), [("7", 7.0), ("soon", 0.0)])
async def test_the_retry_after_header_is_in_the_error(
    api: ApiServer, cluster: KubeCluster, header: str, seconds: float
) -> None:
    async def busy(_: web.Request) -> web.StreamResponse:
        return web.json_response({"message": "too many"}, status=429, headers={"Retry-After": header})

    api.answer = busy
    with pytest.raises(ClusterError) as raised:
        await cluster.apply(REF, BODY, force=False)
    assert raised.value.retry_after == seconds
    assert raised.value.cause == "HTTP 429: too many"


async def test_every_response_sets_the_clock_to_the_api_servers_date(api: ApiServer, client: ApiClient) -> None:
    async def later(_: web.Request) -> web.StreamResponse:
        return web.json_response({}, headers={"Date": "Fri, 22 Nov 2999 12:00:00 GMT"})

    api.answer = later
    asked = Api(client)
    await asked.request("GET", REF.path, REF.kind)
    assert timedelta() <= asked.clock.now() - datetime(2999, 11, 22, 12, tzinfo=UTC) < timedelta(minutes=1)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, RejectedError),
        (401, ClusterError),
        (403, ForbiddenError),
        (404, NotFoundError),
        (409, ConflictError),
        (422, RejectedError),
        (429, ClusterError),
        (500, ClusterError),
        (503, ClusterError),
    ],
)
async def test_an_error_status_raises_its_exception_with_the_servers_message(
    api: ApiServer, cluster: KubeCluster, status: int, error: type[ClusterError]
) -> None:
    api.says(status, kind="Status", message="these are the words")
    with pytest.raises(ClusterError, match="these are the words") as raised:
        await cluster.apply(REF, BODY, force=False)
    assert type(raised.value) is error
    assert api.told == [("PATCH", "ConfigMap", str(status))]


async def test_get_of_an_absent_object_returns_none(api: ApiServer, cluster: KubeCluster) -> None:
    api.says(404, kind="Status", message="not found")
    assert await cluster.get(REF) is None
    assert await cluster.apply_status(REF, BODY) is None


async def test_an_html_error_page_of_a_proxy_raises_cluster_error(api: ApiServer, cluster: KubeCluster) -> None:
    async def page(_: web.Request) -> web.StreamResponse:
        return web.Response(status=502, text="<html>bad gateway</html>", content_type="text/html")

    api.answer = page
    with pytest.raises(ClusterError, match="HTTP 502"):
        await cluster.get(REF)


async def test_a_broken_connection_raises_cluster_error(api: ApiServer, cluster: KubeCluster) -> None:
    async def hang_up(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    api.answer = hang_up
    with pytest.raises(ClusterError, match="GET /api/v1/namespaces/default/configmaps/settings"):
        await cluster.get(REF)
    assert api.told == [("GET", "ConfigMap", "error")]


async def test_a_truncated_response_raises_cluster_error(api: ApiServer, cluster: KubeCluster) -> None:
    async def half(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "1000", "Content-Type": "application/json"})
        await response.prepare(request)
        await response.write(b'{"kind": ')
        assert request.transport is not None
        request.transport.close()
        return response

    api.answer = half
    with pytest.raises(ClusterError):
        await cluster.get(REF)


async def test_a_refused_connection_raises_cluster_error() -> None:
    async with ApiClient(Configuration(host="http://127.0.0.1:9")) as client:
        with pytest.raises(ClusterError):
            await KubeCluster(Api(client)).get(REF)


async def test_a_request_reads_no_file_of_passwords(
    api: ApiServer, client: ApiClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reads(*_: object) -> None:
        raise AssertionError("a request reads ~/.netrc")

    monkeypatch.setattr(ClientSession, "_get_netrc_auth", reads)
    named = {"name": "one", "cluster": {"server": client.configuration.host}}
    context = {"name": "one", "context": {"cluster": "one", "user": "one"}}
    written = {
        "clusters": [named],
        "contexts": [context],
        "users": [{"name": "one", "user": {"token": "a"}}],
        "current-context": "one",
    }
    (tmp_path / "kubeconfig").write_text(json.dumps({"apiVersion": "v1", "kind": "Config", **written}))
    async with await connect(tmp_path / "kubeconfig") as connected:
        await Api(connected).request("GET", REF.path, CONFIG_MAP)
    assert len(api.requests) == 1


async def test_a_listing_is_read_page_by_page(api: ApiServer, cluster: KubeCluster) -> None:
    async def page(request: web.Request) -> web.StreamResponse:
        first = "continue" not in request.query
        meta = {"resourceVersion": "7", **({"continue": "more"} if first else {})}
        return web.json_response({"metadata": meta, "items": [{"metadata": {"name": "a" if first else "b"}}]})

    api.answer = page
    found = await listing(cluster, CONFIG_MAP, selector="team=a")
    assert found.version == 7
    assert [(m["apiVersion"], m["kind"], m["metadata"]["name"]) for m in found.items] == [
        ("v1", "ConfigMap", "a"),
        ("v1", "ConfigMap", "b"),
    ]
    assert [path for _, path, _ in api.requests] == [
        "/api/v1/configmaps?limit=100&labelSelector=team%3Da",
        "/api/v1/configmaps?limit=100&labelSelector=team%3Da&continue=more",
    ]


@pytest.mark.parametrize(
    ("selectors", "query"),
    [
        ({}, "limit=100"),
        ({"labels": "a=b"}, "limit=100&labelSelector=a%3Db"),
        ({"fields": "spec.nodeName=gpu-a"}, "resourceVersion=0&fieldSelector=spec.nodeName%3Dgpu-a"),
    ],
)
async def test_uncached_listings_are_paged_or_with_field_selectors_read_from_the_servers_cache(
    api: ApiServer, cluster: KubeCluster, selectors: dict[str, str], query: str
) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        last = "continue" in request.query
        meta = {"resourceVersion": "7", **({} if last else {"continue": "page2"})}
        return web.json_response({"metadata": meta, "items": [{"metadata": {"name": str(last)}}]})

    api.answer = answer
    found = [pod async for pod in cluster.each(POD, **selectors)]
    assert [pod["metadata"]["name"] for pod in found] == ["False", "True"]
    path = f"/api/v1/pods?{query}"
    assert [path for _, path, _ in api.requests] == [path, f"{path}&continue=page2"]


async def test_a_listing_of_one_namespace_omits_managed_fields(api: ApiServer, cluster: KubeCluster) -> None:
    item = {"metadata": {"name": "a", "managedFields": [{"manager": "kubectl"}]}}
    api.says(200, metadata={"resourceVersion": "7"}, items=[item])
    found = await listing(cluster, CONFIG_MAP, namespace="team-a")
    assert (found.namespace, found.version) == ("team-a", 7)
    assert found.items[0]["metadata"] == {"name": "a"}
    assert [path for _, path, _ in api.requests] == ["/api/v1/namespaces/team-a/configmaps?limit=100"]


async def test_a_process_without_the_lease_sends_no_requests(api: ApiServer, client: ApiClient) -> None:
    cluster = KubeCluster(Api(client), may_act=lambda: False)
    with pytest.raises(NotLeaderError, match=f"^PATCH {REF.path}: not sent, because another process may hold"):
        await cluster.apply(REF, BODY, force=True)
    with pytest.raises(NotLeaderError, match=r"^GET /api/v1/configmaps: "):
        await listing(cluster, CONFIG_MAP)
    with pytest.raises(NotLeaderError, match=r"^GET /api/v1/namespaces/default/pods/qwen-engine-a/log: "):
        await cluster.read_log(LOG, lines=1, size=1)
    assert api.requests == []


LOG = LogLookup("default", "qwen-engine-a", "u", "engine", run=2, previous=True, running=False)


async def test_a_log_is_read_as_text_within_bounds(api: ApiServer, cluster: KubeCluster) -> None:
    async def text(_: web.Request) -> web.StreamResponse:
        return web.Response(body=b'{"looks": "like an object"}\n\xff')

    api.answer = text
    assert await cluster.read_log(LOG, lines=10, size=100) == '{"looks": "like an object"}\n\ufffd'
    path = "/api/v1/namespaces/default/pods/qwen-engine-a/log"
    query = "container=engine&previous=true&tailLines=10&limitBytes=100"
    assert [request[:2] for request in api.requests] == [("GET", f"{path}?{query}")]


@pytest.mark.parametrize(
    ("status", "error"), [(400, RejectedError), (403, ForbiddenError), (404, NotFoundError), (502, ClusterError)]
)
async def test_reading_an_unavailable_log_raises_an_error(
    api: ApiServer, cluster: KubeCluster, status: int, error: type[ClusterError]
) -> None:
    api.says(status, kind="Status", message="these are the words")
    with pytest.raises(ClusterError, match="these are the words") as raised:
        await cluster.read_log(LOG, lines=10, size=100)
    assert type(raised.value) is error
