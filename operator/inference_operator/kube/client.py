"""Requests to the API server. The only module that imports the Kubernetes client, and of that only its untyped half."""

import asyncio
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlencode

import orjson
from aiohttp import (
    ClientConnectorCertificateError,
    ClientConnectorDNSError,
    ClientConnectorError,
    ClientError,
    ClientHttpProxyError,
    ClientProxyConnectionError,
    ClientWebSocketResponse,
    WSServerHandshakeError,
)
from yaml import YAMLError

from inference_operator.controller import cluster
from inference_operator.kube.clock import Clock
from inference_operator.kube.proxy import environment_proxy, in_cluster
from inference_operator.manifest import Kind, Manifest


@contextmanager
def _without_other_halves(*packages: str) -> Iterator[None]:
    """Let imports pass packages whose own `__init__` imports all of the client: a sixth of the time of `infd list`."""
    passed = [name for name in packages if name not in sys.modules]
    for name in passed:
        spec = find_spec(name)
        parent, _, child = name.rpartition(".")
        sys.modules[name] = ModuleType(name)
        if parent:
            setattr(sys.modules[parent], child, sys.modules[name])
        sys.modules[name].__path__ = (spec and spec.submodule_search_locations) or []
    try:
        yield
    finally:
        for name in passed:
            del sys.modules[name]


with _without_other_halves("kubernetes", "kubernetes.aio"):
    from kubernetes.aio.client.api_client import ApiClient
    from kubernetes.aio.client.configuration import Configuration
    from kubernetes.aio.config import (
        ConfigException,
        list_kube_config_contexts,
        load_incluster_config,
        load_kube_config,
    )

REQUEST_TIMEOUT_SECONDS = 30
"""The timeout of a read, which changes nothing and may be long."""
WRITE_TIMEOUT_SECONDS = 8.0
"""The default timeout of a write; an etcd in trouble takes seconds for one."""
HEARTBEAT_SECONDS = 30.0
"""Between pings on a websocket. Load balancers before API servers end connections that are idle for minutes."""
APPLY, MERGE = "application/apply-patch+yaml", "application/merge-patch+json"
"""Forms of a PATCH: server-side apply, and a JSON merge patch."""
_REJECTIONS = frozenset({HTTPStatus.UNPROCESSABLE_ENTITY, HTTPStatus.BAD_REQUEST})


UNUSABLE = (ConfigException, OSError, YAMLError, AttributeError, LookupError, TypeError, ValueError)
"""Exceptions of the reader of a kubeconfig for an invalid one (kubernetes 37, `aio/config/kube_config.py`)."""


async def connect(
    kubeconfig: Path | None = None, context: str | None = None, *, max_connections: int | None = None
) -> ApiClient:
    """A client with the pod's ServiceAccount, or outside of a cluster with a kubeconfig (None: the user's own).

    `max_connections` is 0 without a limit; None is the client's default, 100. Each websocket is one.
    """
    # Otherwise aiohttp reads ~/.netrc in a thread before each request (3.14, `ClientSession._get_netrc_auth`).
    session = {"trust_env": False}
    configuration = Configuration(connection_pool_maxsize=max_connections, client_session_kwargs=session)
    if kubeconfig is None and context is None and in_cluster():
        load_incluster_config(client_configuration=configuration)  # without a proxy, whatever the variables say
    else:
        path = str(kubeconfig) if kubeconfig else os.environ.get("KUBECONFIG")
        try:
            await load_kube_config(config_file=path, context=context, client_configuration=configuration)
        except UNUSABLE as error:
            if context is not None or kubeconfig is not None:
                raise cluster.ClusterError("The kubeconfig cannot be read, or has no such context") from error
            raise cluster.ClusterError(
                "There is no cluster to work in: no ServiceAccount, and no kubeconfig with a current context."
                " Set KUBECONFIG, or write ~/.kube/config"
            ) from error
        configuration.proxy = configuration.proxy or environment_proxy(configuration.host)
    return ApiClient(configuration)


def context_namespace(kubeconfig: Path | None = None, context: str | None = None) -> str:
    """The namespace of a context of a kubeconfig; empty if it names none, cannot be read, or in a pod."""
    if kubeconfig is None and in_cluster():
        return ""
    path = str(kubeconfig) if kubeconfig else os.environ.get("KUBECONFIG")
    try:
        contexts, current = list_kube_config_contexts(path)
    except UNUSABLE:  # `connect` says what is wrong
        return ""
    chosen = next((entry for entry in contexts if entry["name"] == context), {}) if context else current
    return str((chosen.get("context") or {}).get("namespace") or "")


OnRequest = Callable[[str, str, str], None]
"""Called after each request with its verb, the kind, and the HTTP status or `error`."""


class Api:
    def __init__(
        self, client: ApiClient, *, write_timeout: float = WRITE_TIMEOUT_SECONDS, on_request: OnRequest | None = None
    ) -> None:
        self._client = client
        self._write_timeout = write_timeout
        self._on_request = on_request
        self.clock = Clock()

    async def request(
        self,
        method: str,
        path: str,
        kind: Kind,
        *,
        query: Mapping[str, str] | None = None,
        body: Manifest | None = None,
        patch: str = APPLY,
    ) -> Manifest:
        """The object in the API server's response; raises `ClusterError` or one of its subclasses.

        A PATCH is a server-side apply, unless `patch` names another form.
        """
        status, content, retry_after = await self._call(method, path, kind, query=query, body=body, patch=patch)
        return _body(status, content, f"{method} {path}", retry_after=retry_after)

    async def text(self, path: str, kind: Kind, *, query: Mapping[str, str]) -> str:
        """The text in the API server's response to a GET, for example a log; raises the same as `request`."""
        status, content, retry_after = await self._call("GET", path, kind, query=query)
        if status >= HTTPStatus.BAD_REQUEST:
            _body(status, content, f"GET {path}", retry_after=retry_after)
        return content.decode(errors="replace")

    async def websocket(
        self, path: str, kind: Kind, *, query: Mapping[str, str], protocol: str
    ) -> ClientWebSocketResponse:
        """An open websocket to the API server, which the caller closes; raises the same as `request`.

        The client's own websocket class ignores the kubeconfig's proxy and TLS server name, so its session is used.
        """
        target = f"{path}?{urlencode(query)}"
        rest = self._client.rest_client
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_SECONDS):
                _, url, headers, *_ = await self._client.param_serialize("GET", target, auth_settings=["BearerToken"])
                rest.pool_manager = rest.pool_manager or rest._create_pool_manager()  # noqa: SLF001 - as its `request`
                socket: ClientWebSocketResponse = await rest.pool_manager.ws_connect(
                    url,
                    protocols=[protocol],
                    headers=headers,
                    heartbeat=HEARTBEAT_SECONDS,
                    proxy=rest.proxy,
                    proxy_headers=rest.proxy_headers,
                    server_hostname=self._client.configuration.tls_server_name,
                )
        except WSServerHandshakeError as error:
            self._count("GET", kind, str(error.status))
            _body(max(error.status, HTTPStatus.BAD_REQUEST), b"", f"GET {path}", retry_after=0)
            raise
        except (ClientError, OSError, TimeoutError) as error:
            self._count("GET", kind, "error")
            raise cluster.ClusterError(
                _connection_error(error), request=f"GET {path}: {type(error).__name__}"
            ) from error
        self._count("GET", kind, str(HTTPStatus.SWITCHING_PROTOCOLS.value))
        return socket

    async def _call(
        self,
        method: str,
        path: str,
        kind: Kind,
        *,
        query: Mapping[str, str] | None = None,
        body: Manifest | None = None,
        patch: str = APPLY,
    ) -> tuple[int, bytes, float]:
        """The HTTP status, the body, and the seconds in the `Retry-After` header (0 without one)."""
        timeout = REQUEST_TIMEOUT_SECONDS if method == "GET" else self._write_timeout
        # The API server gives up after `timeout` too, so that no write takes effect long after the operator gave it up
        # (kubernetes/apiserver v0.36.3, `pkg/endpoints/filters/request_deadline.go`).
        parameters = {**(query or {}), **({} if method == "GET" else {"timeout": f"{timeout:g}s"})}
        target = f"{path}?{urlencode(parameters)}" if parameters else path
        headers = {"Accept": "application/json"}
        if method == "PATCH":
            headers["Content-Type"] = patch
        start = time.monotonic()
        try:
            call = await self._client.param_serialize(
                method, target, header_params=headers, body=body, auth_settings=["BearerToken"]
            )
            response = await self._client.call_api(*call, _request_timeout=timeout)
            content: bytes = await response.read()
        except (ClientError, OSError, TimeoutError) as error:
            self._count(method, kind, "error")
            raise cluster.ClusterError(
                _connection_error(error), request=f"{method} {path}: {error or type(error).__name__}"
            ) from error
        self._count(method, kind, str(response.status))
        self.clock.adjust(response.headers.get("Date", ""), took=time.monotonic() - start)
        return response.status, content, _retry_after(response.headers.get("Retry-After", ""))

    def _count(self, method: str, kind: Kind, code: str) -> None:
        if self._on_request:
            self._on_request(method, kind.name, code)


def _retry_after(header: str) -> float:
    """Seconds to wait. HTTP also allows a date (RFC 9110, 10.2.3), but the API server sends seconds."""
    return float(header) if header.isdecimal() else 0.0


def _is_uid_mismatch(response: Manifest) -> bool:
    """Whether the object has another uid than the request: the API server calls that a change of an immutable field."""
    causes = (response.get("details") or {}).get("causes") or ()
    return any(cause.get("field") == "metadata.uid" for cause in causes)


def _connection_error(error: Exception) -> str:
    """Why there was no response, in words that are the same for every attempt."""
    match error:
        case TimeoutError():
            return "the API server did not answer in time"
        case ClientProxyConnectionError():
            return (
                f"there is no connection to the proxy {error.host}:{error.port} of HTTPS_PROXY or the kubeconfig's"
                " proxy-url. Set NO_PROXY where the API server needs none"
            )
        case ClientHttpProxyError():
            return f"the proxy of HTTPS_PROXY or of the kubeconfig's proxy-url answered with HTTP {error.status}"
        case ClientConnectorCertificateError():
            return f"the certificate of the API server at {error.host}:{error.port} is not trusted"
        case ClientConnectorDNSError():
            return f"the host {error.host} of the API server has no address"
        case ClientConnectorError(os_error=ConnectionRefusedError()):
            return f"the API server at {error.host}:{error.port} refused the connection"
        case ClientConnectorError():
            return f"there is no connection to the API server at {error.host}:{error.port}"
    return "the connection to the API server broke"


def _body(status: int, content: bytes, request: str, *, retry_after: float) -> Manifest:
    """The object in a response; raises the exception for its status."""
    try:
        response: Any = orjson.loads(content) if content.startswith(b"{") else {}
    except ValueError as error:
        raise cluster.ClusterError("the answer broke off", request=request) from error
    if status < HTTPStatus.BAD_REQUEST:
        result: Manifest = response
        return result
    message = response.get("message") or "no reason given"
    if status == HTTPStatus.NOT_FOUND:
        raise cluster.NotFoundError(message)
    if status == HTTPStatus.CONFLICT or _is_uid_mismatch(response):
        exists = response.get("reason") == "AlreadyExists"  # contention on a quota is a conflict too
        raise cluster.AlreadyExistsError(message) if exists else cluster.ConflictError(message)
    if status == HTTPStatus.FORBIDDEN:
        raise cluster.ForbiddenError(message)
    if status in _REJECTIONS:
        raise cluster.RejectedError(message)
    raise cluster.ClusterError(f"HTTP {status}: {message}", request=request, retry_after=retry_after)
