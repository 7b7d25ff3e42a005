"""Requests to a service from outside of the cluster, through the API server and one of its routers.

Every router also accepts HTTP without TLS, and the API server encrypts the way to it. So a request needs no certificate
of `router.tls`.
"""

import base64
import os
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus

from aiohttp import ClientError, ClientResponse, ClientSession, ClientTimeout, UnixConnector
from aiohttp.http import HttpProcessingError

from inference_operator.api.resource import AnyResource
from inference_operator.api.router import RouterStrategy
from inference_operator.api.spec import Spec
from inference_operator.cli.chat.answers import (
    AnswerBrokenError,
    AnswerDelta,
    AnswerRefusedError,
    answer_delta,
    error_message,
)
from inference_operator.cli.live_resource import pods_of
from inference_operator.cli.options import VARIABLE
from inference_operator.cli.parser import EXIT_FORBIDDEN, EXIT_NOT_FOUND, RefusedError, UsageError
from inference_operator.controller.cluster import ClusterError, ForbiddenError
from inference_operator.kube.cluster import KubeCluster
from inference_operator.kube.port_forward import NoTargetError, PodPort, PortForward
from inference_operator.manifest import MODEL_GATEWAY, SECRET, Ref
from inference_operator.objects.names import GATEWAY, NAME_LABEL, ROUTER, is_role, selector_text
from inference_operator.router.process import PORT
from inference_operator.views.engine import engines_of
from inference_operator.views.raw import mapping

ENGINE_PORT = "http"
LINE_BYTES = 2**20
OPTIONAL = ("stream_options", "ignore_eos")
"""Fields of requests that some engines do not know: after a refusal that names one, requests go without it."""


@asynccontextmanager
async def service_client(
    cluster: KubeCluster, found: AnyResource, key_from: str | None, *, keeps_connections: bool = False
) -> AsyncIterator["ServiceClient"]:
    """A client of one service. Its requests may share connections: one that is idle for long may be dead."""
    key = await service_key(cluster, found, key_from)
    async with PortForward(cluster.api, found.key.namespace, partial(ready_ports, cluster, found)) as forward:
        connector = UnixConnector(str(forward.path), limit=0, force_close=not keeps_connections)
        async with ClientSession(
            f"http://{found.key.name}",
            connector=connector,
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=ClientTimeout(total=None),
            read_bufsize=LINE_BYTES,
        ) as session:
            yield ServiceClient(found, forward, session)


@dataclass(slots=True)
class ServiceClient:
    _found: AnyResource
    _forward: PortForward
    _session: ClientSession
    _unknown: set[str] = field(default_factory=set)

    async def stream(self, path: str, body: Mapping[str, object]) -> AsyncIterator[AnswerDelta]:
        """The events of an answer.

        Raises:
            AnswerRefusedError: the service refuses the request.
            AnswerBrokenError: the connection broke.
            UsageError: there is no way to the service, with the cure.
        """
        while True:
            sent = {name: value for name, value in body.items() if name not in self._unknown}
            try:
                async for delta in self._events(path, sent):
                    yield delta
            except AnswerRefusedError as error:
                refused = {name for name in OPTIONAL if name in sent and name in error.message}
                if not refused:
                    raise
                self._unknown |= refused
            else:
                return

    async def _events(self, path: str, body: Mapping[str, object]) -> AsyncIterator[AnswerDelta]:
        try:
            async with self._session.post(path, json=body) as response:
                if response.status != HTTPStatus.OK:
                    raise await _refusal(response)
                async for line in response.content:
                    if delta := answer_delta(line.decode(errors="replace")):
                        if delta.error:
                            raise AnswerRefusedError(HTTPStatus.OK, delta.error)
                        yield delta
        except (ClientError, HttpProcessingError, OSError) as error:
            raise self._broken() from error

    def _broken(self) -> Exception:
        name, namespace = self._found.key.name, self._found.key.namespace
        match self._forward.problem:
            case ForbiddenError():
                return UsageError(
                    f"You may not forward a port to the pods of {namespace}/{name}. It needs the rights to get and"
                    f" create `pods/portforward` in the namespace `{namespace}`.",
                    EXIT_FORBIDDEN,
                )
            case NoTargetError():
                part = "engine" if _bypasses_routers(self._found) else "router"
                return RefusedError(f"No {part} of {namespace}/{name} is ready. `infd status {name}` shows the cause.")
            case ClusterError(cause=cause):
                return AnswerBrokenError(cause)
        return AnswerBrokenError("it ended")


async def ready_ports(cluster: KubeCluster, found: AnyResource) -> Sequence[PodPort]:
    """Those of the ready routers; where none shall run, of the engines."""
    key, component = found.key, GATEWAY if found.key.kind == MODEL_GATEWAY else ROUTER
    if _bypasses_routers(found):
        pods = await pods_of(cluster, key.namespace, f"{NAME_LABEL}={key.name}")
        engines = engines_of(pod for pod in pods if is_role(pod.component))
        leaders = [one.leader for one in engines if one.is_serving]
        return [PodPort(pod.name, pod.ports.get(ENGINE_PORT, 0)) for pod in leaders]
    routers = await pods_of(cluster, key.namespace, selector_text(key.name, component))
    return [PodPort(pod.name, PORT) for pod in routers if pod.is_serving]


def _bypasses_routers(found: AnyResource) -> bool:
    return isinstance(found.spec, Spec) and found.spec.router.strategy is RouterStrategy.EXTERNAL


async def _refusal(response: ClientResponse) -> AnswerRefusedError:
    message = error_message(await response.text(errors="replace"))
    after = response.headers.get("Retry-After", "")
    return AnswerRefusedError(response.status, message, float(after) if after.isdecimal() else None)


def refusal_words(error: AnswerRefusedError, found: AnyResource, model: str) -> str:
    name, said = found.key.name, f" It says: {error.message}" if error.message else ""
    is_gateway = found.key.kind == MODEL_GATEWAY
    match error.status:
        case HTTPStatus.NOT_FOUND | HTTPStatus.SERVICE_UNAVAILABLE if is_gateway:
            return f"No model answers for `{model}`.{said} `infd gateway status {name}` shows the names."
        case HTTPStatus.OK:
            return f"{name} broke off the answer.{said}"
        case HTTPStatus.UNAUTHORIZED:
            return (
                f"{name} needs an API key, or does not know this one. Set {VARIABLE}, or name a Secret with the key:"
                " --key-from SECRET/ENTRY. Who runs the service makes keys with `infd key create`."
            )
        case HTTPStatus.NOT_FOUND:
            served = found.spec.model.served_name if isinstance(found.spec, Spec) else None
            names = ", ".join(f"`{one}`" for one in (served or name, *(one.name for one in found.status.adapters)))
            return f"{name} has no model or adapter `{model}`. It has {names}."
        case HTTPStatus.TOO_MANY_REQUESTS:
            return f"{name} is busy, or a limit of your key is reached. Try again later.{said}"
        case HTTPStatus.SERVICE_UNAVAILABLE | HTTPStatus.BAD_GATEWAY | HTTPStatus.GATEWAY_TIMEOUT:
            return f"No engine of {name} answers. `infd status {name}` shows the cause.{said}"
    return f"{name} refuses the request (HTTP {error.status}).{said}"


def served_model(found: AnyResource) -> str:
    served = found.spec.model.served_name if isinstance(found.spec, Spec) else None
    return served or found.key.name


_USABLE = re.compile(r"[!-~]+")
"""Characters of a header's value, without spaces."""


async def service_key(cluster: KubeCluster, found: AnyResource, key_from: str | None) -> str:
    """The API key; empty if none is given and none needed. Raises `UsageError` with the cure if none is usable."""
    name, namespace = found.key.name, found.key.namespace
    key = os.environ.get(VARIABLE, "") if key_from is None else await _of_secret(cluster, namespace, key_from)
    keys = found.spec.router.keys if isinstance(found.spec, Spec) else getattr(found.spec, "keys", None)
    if not key and keys:
        raise UsageError(f"{name} needs an API key. Set {VARIABLE}, or name a Secret: --key-from SECRET/ENTRY.")
    if key and not _USABLE.fullmatch(key):
        where = VARIABLE if key_from is None else "--key-from"
        raise UsageError(
            f"{where}: this is no API key, because it has spaces or lines. The Secret of `router.keys` has only hashes:"
            " give the key that `infd key create` printed."
        )
    return key


async def _of_secret(cluster: KubeCluster, namespace: str, key_from: str) -> str:
    name, _, entry = key_from.partition("/")
    try:
        secret = await cluster.get(Ref(SECRET, namespace, name))
    except ForbiddenError as error:
        raise UsageError(
            f"--key-from: you may not read it. It needs the right to get the Secret `{name}`. Or set {VARIABLE}.",
            EXIT_FORBIDDEN,
        ) from error
    if secret is None:
        raise UsageError(f"--key-from: there is no Secret `{name}` in the namespace `{namespace}`.", EXIT_NOT_FOUND)
    data = mapping(secret, "data")
    entries = [entry] if entry else sorted(data)
    if len(entries) != 1 or entries[0] not in data:
        has = ", ".join(f"`{one}`" for one in sorted(data)) or "none"
        raise UsageError(f"--key-from: name one entry of the Secret as {name}/ENTRY. It has {has}.")
    try:
        return base64.b64decode(str(data[entries[0]])).decode().strip()
    except ValueError as error:
        raise UsageError(f"--key-from: the entry `{entries[0]}` is no text.") from error
