"""The real cluster. The only module that imports the Kubernetes client, and of that only its untyped half."""

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from aiohttp import ClientError
from kubernetes.aio.client.api_client import ApiClient
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.config import ConfigException, load_incluster_config, load_kube_config

from inference_operator.manifest import POD, Kind, Manifest, Ref
from inference_operator.observed.look import LogTail
from inference_operator.reconcile.cluster import (
    FIELD_MANAGER,
    ClusterError,
    ConflictError,
    ForbiddenError,
    Listing,
    NotFoundError,
    NotLeaderError,
    RejectedError,
)

REQUEST_TIMEOUT_SECONDS = 30
"""Of a read, which changes nothing and may be long."""
WRITE_TIMEOUT_SECONDS = 8.0
"""Of a write, for who does not ask for another: an etcd in trouble takes seconds for one."""
LIST_CHUNK = 500
"""Objects per page of a listing (the API server's own clients use the same)."""

PASSING_CHUNK = 100
"""Objects per page of what is not kept, which bounds the memory that it takes."""

SERVICE_ACCOUNT_TOKEN = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
_REJECTIONS = frozenset({HTTPStatus.UNPROCESSABLE_ENTITY, HTTPStatus.BAD_REQUEST})


def in_cluster() -> bool:
    """Whether this process runs in a pod with a ServiceAccount."""
    return SERVICE_ACCOUNT_TOKEN.exists()


async def connect(kubeconfig: Path | None = None) -> ApiClient:
    """A client with the pod's ServiceAccount; with a kubeconfig, or the user's own, outside of a cluster."""
    configuration = Configuration()
    if kubeconfig is None and in_cluster():
        load_incluster_config(client_configuration=configuration)
    else:
        path = str(kubeconfig) if kubeconfig else None
        try:
            await load_kube_config(config_file=path, client_configuration=configuration)
        except ConfigException as error:
            raise ClusterError(
                f"There is no cluster to work in: no ServiceAccount, and no usable kubeconfig ({error})."
                " Set KUBECONFIG, or write ~/.kube/config"
            ) from error
    return ApiClient(configuration)


Told = Callable[[str, str, str], None]


def _always() -> bool:
    return True


def _nobody(_verb: str, _kind: str, _code: str) -> None:
    """Nobody wants to know."""


class Api:
    """Requests to the API server, and what their answers mean.

    Args:
        client: an open client; the caller closes it.
        write_timeout: seconds after which a write is over, on both ends.
        tell: is told of every request: its verb, the kind and the HTTP status or `error`.
    """

    def __init__(
        self, client: ApiClient, *, write_timeout: float = WRITE_TIMEOUT_SECONDS, tell: Told = _nobody
    ) -> None:
        self._client = client
        self._write_timeout = write_timeout
        self._tell = tell

    async def request(
        self,
        method: str,
        path: str,
        kind: Kind,
        *,
        query: Mapping[str, str] | None = None,
        body: Manifest | None = None,
    ) -> Manifest:
        """The object that the API server answers with; raises `ClusterError` where it does not."""
        status, content, retry_after = await self.call(method, path, kind, query=query, body=body)
        return _body(status, content, f"{method} {path}", retry_after=retry_after)

    async def call(
        self,
        method: str,
        path: str,
        kind: Kind,
        *,
        query: Mapping[str, str] | None = None,
        body: Manifest | None = None,
    ) -> tuple[int, bytes, float]:
        """The HTTP status and content of an answer, and for how many seconds the server does not want to be asked."""
        timeout = REQUEST_TIMEOUT_SECONDS if method == "GET" else self._write_timeout
        # The API server gives up after `timeout` too, so that no write of ours takes effect long after we did
        # (kubernetes/apiserver v0.36.3, `pkg/endpoints/filters/request_deadline.go`).
        asked = {**(query or {}), **({} if method == "GET" else {"timeout": f"{timeout:g}s"})}
        target = f"{path}?{urlencode(asked)}" if asked else path
        headers = {"Accept": "application/json"}
        if method == "PATCH":
            headers["Content-Type"] = "application/apply-patch+yaml"
        try:
            call = await self._client.param_serialize(
                method, target, header_params=headers, body=body, auth_settings=["BearerToken"]
            )
            response = await self._client.call_api(*call, _request_timeout=timeout)
            content: bytes = await response.read()
        except (ClientError, OSError, TimeoutError) as error:
            self._tell(method, kind.name, "error")
            raise ClusterError(_broken(error), request=f"{method} {path}: {error or type(error).__name__}") from error
        self._tell(method, kind.name, str(response.status))
        return response.status, content, _retry_after(response.headers.get("Retry-After", ""))


def _retry_after(header: str) -> float:
    """Seconds to wait; an HTTP date is possible too (RFC 9110, 10.2.3), but the API server sends seconds."""
    return float(header) if header.isdecimal() else 0.0


class KubeCluster:
    """The verbs of `Cluster` on a real API server.

    Args:
        api: the API server.
        namespaces: the namespaces to list; none means all of them.
        may_act: whether this process may still act; asked before each request.
    """

    def __init__(self, api: Api, namespaces: Sequence[str] = (), *, may_act: Callable[[], bool] = _always) -> None:
        self._api = api
        self._may_act = may_act
        self._namespaces: Sequence[str | None] = tuple(namespaces) or (None,)

    async def list_objects(self, kind: Kind, *, selector: str | None = None) -> Listing:
        """All objects of a kind in the namespaces that are served."""
        items: list[Manifest] = []
        versions: list[int] = []
        for namespace in self._namespaces:
            found, version = await self._list_in(kind, namespace, selector)
            items.extend(found)
            versions.append(version)
        return Listing(items, min(versions))

    async def get(self, ref: Ref) -> Manifest | None:
        """One object, or None."""
        try:
            return await self._request("GET", ref.path, ref.kind)
        except NotFoundError:
            return None

    async def apply(self, ref: Ref, manifest: Manifest, *, force: bool) -> Manifest:
        """Server-side apply; raises `ConflictError` and `RejectedError`."""
        query = {"fieldManager": FIELD_MANAGER, "force": "true" if force else "false"}
        return await self._request("PATCH", ref.path, ref.kind, query=query, body=manifest)

    async def delete(self, ref: Ref, *, uid: str, version: str | None = None, grace_seconds: int | None = None) -> None:
        """Delete what has that uid (and resourceVersion); raises `NotFoundError` and `ConflictError`."""
        preconditions = {"uid": uid, **({"resourceVersion": version} if version else {})}
        grace = {} if grace_seconds is None else {"gracePeriodSeconds": grace_seconds}
        body = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": preconditions, **grace}
        await self._request("DELETE", ref.path, ref.kind, body=body)

    async def apply_status(self, ref: Ref, manifest: Manifest) -> Manifest | None:
        """Server-side apply of the status to the resourceVersion it names; None where the object is no longer that."""
        query = {"fieldManager": FIELD_MANAGER, "force": "true"}
        try:
            return await self._request("PATCH", f"{ref.path}/status", ref.kind, query=query, body=manifest)
        except (NotFoundError, ConflictError):
            return None

    async def read_log(self, look: LogTail, *, lines: int, size: int) -> str:
        """The last lines of a container's log, of at most so many bytes; raises `NotFoundError` and `RejectedError`."""
        ref = Ref(POD, look.namespace, look.pod)
        query = {
            "container": look.container,
            "previous": "true" if look.previous else "false",
            "tailLines": str(lines),
            "limitBytes": str(size),
        }
        status, content, retry_after = await self._call("GET", f"{ref.path}/log", ref.kind, query=query)
        if status >= HTTPStatus.BAD_REQUEST:
            _body(status, content, f"GET {ref.path}/log", retry_after=retry_after)
        return content.decode(errors="replace")

    async def each(
        self, kind: Kind, *, labels: str | None = None, fields: str | None = None
    ) -> AsyncIterator[Manifest]:
        """Every object of a kind in the whole cluster that the selectors select, without keeping more than a page.

        What fields select is little, and comes from the API server's cache in one piece: only there is an index of
        them (kubernetes/kubernetes v1.36.3, pkg/registry/core/pod/strategy.go, Indexers).
        """
        selectors = {"labelSelector": labels, "fieldSelector": fields}
        piece = {"resourceVersion": "0"} if fields else {"limit": str(PASSING_CHUNK)}
        query = piece | {name: text for name, text in selectors.items() if text}
        async for page in self._pages(kind, None, query):
            for item in page["items"]:
                yield item

    async def _list_in(self, kind: Kind, namespace: str | None, selector: str | None) -> tuple[list[Manifest], int]:
        items: list[Manifest] = []
        version = 0
        query = {"limit": str(LIST_CHUNK)} | ({"labelSelector": selector} if selector else {})
        async for page in self._pages(kind, namespace, query):
            # Items of a list carry neither apiVersion nor kind.
            items.extend({**item, "apiVersion": kind.api_version, "kind": kind.name} for item in page["items"])
            version = int(page["metadata"]["resourceVersion"])
        return items, version

    async def _pages(self, kind: Kind, namespace: str | None, query: Mapping[str, str]) -> AsyncIterator[Manifest]:
        following: str | None = ""
        while following is not None:
            asked = {**query, "continue": following} if following else query
            page = await self._request("GET", kind.path(namespace), kind, query=asked)
            if "items" not in page:
                raise ClusterError("the answer is no list", request=f"GET {kind.path(namespace)}")
            yield page
            following = page["metadata"].get("continue") or None

    async def _request(
        self,
        method: str,
        path: str,
        kind: Kind,
        *,
        query: Mapping[str, str] | None = None,
        body: Manifest | None = None,
    ) -> Manifest:
        status, content, retry_after = await self._call(method, path, kind, query=query, body=body)
        return _body(status, content, f"{method} {path}", retry_after=retry_after)

    async def _call(
        self,
        method: str,
        path: str,
        kind: Kind,
        *,
        query: Mapping[str, str] | None = None,
        body: Manifest | None = None,
    ) -> tuple[int, bytes, float]:
        if not self._may_act():
            raise NotLeaderError(f"{method} {path}: not asked, since another process may be at work")
        return await self._api.call(method, path, kind, query=query, body=body)


def _is_of_another(answer: Manifest) -> bool:
    """Whether the object's uid was what did not fit: the API server calls that a change of an immutable field."""
    causes = (answer.get("details") or {}).get("causes") or ()
    return any(cause.get("field") == "metadata.uid" for cause in causes)


def _broken(error: Exception) -> str:
    """Why there was no answer, in words that are the same for every attempt."""
    if isinstance(error, TimeoutError):
        return "the API server did not answer in time"
    return "the connection to the API server broke"


def _body(status: int, content: bytes, what: str, *, retry_after: float) -> Manifest:
    """The object in an answer, or the error that it stands for."""
    try:
        answer: Any = json.loads(content) if content.startswith(b"{") else {}
    except ValueError as error:
        raise ClusterError("the answer broke off", request=what) from error
    if status < HTTPStatus.BAD_REQUEST:
        result: Manifest = answer
        return result
    message = answer.get("message") or "no reason given"
    if status == HTTPStatus.NOT_FOUND:
        raise NotFoundError(message)
    if status == HTTPStatus.CONFLICT or _is_of_another(answer):
        raise ConflictError(message)
    if status == HTTPStatus.FORBIDDEN:
        raise ForbiddenError(message)
    if status in _REJECTIONS:
        raise RejectedError(message)
    raise ClusterError(f"HTTP {status}: {message}", request=what, retry_after=retry_after)
