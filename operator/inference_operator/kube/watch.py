"""kopf as watch engine: events become cached objects and marked keys. The only module that imports kopf.

Only low-level event handlers are registered, for which kopf itself writes nothing: no finalizers, no annotations.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import kopf
from aiohttp import ClientSession, TCPConnector, TraceConfig, TraceRequestStartParams
from kopf._core.reactor.inventory import ResourceMemories, ResourceMemory

from inference_operator.kube.client import REQUEST_TIMEOUT_SECONDS, in_cluster
from inference_operator.kube.watch_from import WatchFrom
from inference_operator.manifest import INFERENCE_DEPLOYMENT, NODE, Kind, Manifest
from inference_operator.reconcile.cluster import ClusterError
from inference_operator.resources.names import MANAGED_SELECTOR

CONNECT_TIMEOUT_SECONDS = 5.0

IDLE_SECONDS = 0.1
"""How long kopf keeps a task, and with it the object, for each object of which it has told; 5 s by default."""

KOPF_STOP_SECONDS = 15.0
"""After this time kopf's watches are cut off: it gives them up to 6 s itself, and then waits for them without end."""

log = logging.getLogger(__name__)

Seen = Callable[[str, Manifest], None]
"""Is told of every event: its type (ADDED, MODIFIED or DELETED) and the object."""


class _NoDiffBase(kopf.DiffBaseStorage):
    """Keeps no copy of what was seen last: events carry all that is needed, and the copy doubles the cost of each."""

    def build(self, **_: Any) -> kopf.BodyEssence:  # noqa: ANN401 - kopf's protocol
        return kopf.BodyEssence({})

    def fetch(self, **_: Any) -> kopf.BodyEssence | None:  # noqa: ANN401 - kopf's protocol
        return None

    def store(self, **_: Any) -> None:  # noqa: ANN401 - kopf's protocol
        return None


class _NoMemories(ResourceMemories):
    """Remembers no object: what kopf would is for handlers that are not used, and takes 2 KiB for each."""

    async def recall(self, *positional: Any, **named: Any) -> ResourceMemory:  # noqa: ANN401 - kopf's signature
        return await super().recall(*positional, **{**named, "ephemeral": True})


async def watch(
    kinds: Sequence[Kind],
    namespaces: Collection[str],
    seen: Seen,
    *,
    versions: Mapping[str, int],
    begun: Callable[[str], None],
    missed: Callable[[], None],
    stop: asyncio.Event,
) -> None:
    """Watch InferenceDeployments and all that belongs to them, until told to stop.

    Args:
        kinds: what; of all but InferenceDeployments only what the operator manages.
        namespaces: where; none means the whole cluster. One that may not be watched ends them all.
        seen: is told of every event.
        versions: the resourceVersion of the listing that went before, by the URL path of each collection.
        begun: is told of every watch that begins, by the plural of its kind.
        missed: is told where a watch begins anew, without what happened in between.
        stop: ends the watches; is set when they end by themselves.

    Raises:
        ClusterError: the watches ended, and nobody had told them to.
    """
    logging.getLogger("kopf.objects").setLevel(logging.WARNING)  # it would tell of every event
    cutting = asyncio.create_task(_cut_off(stop, asyncio.all_tasks()))
    await asyncio.sleep(0)  # for what it creates: kopf takes every younger task for its own
    try:
        await kopf.operator(
            registry=_registry(kinds, seen, _login(WatchFrom(versions, missed), begun), stop),
            memories=_NoMemories(),
            settings=_kopf_settings(kinds),
            standalone=True,
            # Left to itself kopf asks for the user's name, which an arbitrary uid in a container does not have.
            identity="inference-operator",  # type: ignore[arg-type]  # a NewType of str that kopf does not export
            clusterwide=not namespaces,
            namespaces=namespaces,
            stop_flag=stop,
        )
    except Exception as error:
        raise ClusterError(f"The watches ended: {error}") from error
    finally:
        cutting.cancel()


async def _cut_off(stop: asyncio.Event, ours: Collection[asyncio.Task[Any]]) -> None:
    """End what is left of kopf some time after the stop.

    Where one watch fails, such as that of a definition which was deleted, kopf 1.45.2 logs out before the others have
    ended; they try again instead, which takes their cancellation for a broken connection, and are waited for without
    end (kopf/_core/reactor/running.py, run_tasks). A second cancellation ends them.

    Args:
        stop: when they are to end.
        ours: the tasks that are not kopf's.
    """
    await stop.wait()
    await asyncio.sleep(KOPF_STOP_SECONDS)
    for task in asyncio.all_tasks() - {*ours, asyncio.current_task()}:
        task.cancel()


def tell_of_stray(loop: asyncio.AbstractEventLoop, context: Manifest) -> None:
    """Tell of an error that no task awaits; a watch that kopf has just opened when it stops is only cut off.

    kopf 1.45.2 leaves such a watch to the event loop, which cannot close it in order (`infinite_watch` in
    kopf/_cogs/clients/watching.py) and would print a traceback for each, of which nobody has any use.
    """
    if "asyncgen" in context:
        log.debug("A watch was cut off at the stop")
    else:
        loop.default_exception_handler(context)


def _registry(
    kinds: Sequence[Kind], seen: Seen, login: Callable[..., Any], stop: asyncio.Event
) -> kopf.OperatorRegistry:
    registry = kopf.OperatorRegistry()

    async def on_event(event: Any, **_: Any) -> None:  # noqa: ANN401 - kopf's protocol
        seen(event["type"] or "", dict(event["object"]))

    for kind in kinds:
        kopf.on.event(*_address(kind), registry=registry, id=kind.plural)(on_event)

    async def on_cleanup(**_: Any) -> None:  # noqa: ANN401 - kopf's protocol
        # kopf handles signals itself while it runs, and would wait five seconds for who waits for this flag.
        stop.set()

    kopf.on.cleanup(registry=registry, id="stop")(on_cleanup)
    kopf.on.login(registry=registry, errors=kopf.ErrorsMode.TEMPORARY)(login)
    return registry


def _login(narrow: WatchFrom, begun: Callable[[str], None]) -> Callable[..., Any]:
    """Log in as kopf would, with a session that lists nothing and counts watches, of which kopf tells nothing."""
    credentials = kopf.login_with_service_account if in_cluster() else kopf.login_via_client

    async def on_request(_session: object, _context: object, request: TraceRequestStartParams) -> None:
        if request.url.query.get("watch") == "true":
            begun(request.url.name)

    async def login(**arguments: Any) -> kopf.AiohttpSession | None:  # noqa: ANN401 - kopf's protocol
        found = credentials(**arguments)
        if found is None:
            return None
        trace = TraceConfig()
        trace.on_request_start.append(on_request)
        session = ClientSession(
            connector=TCPConnector(limit=0, ssl=found.as_ssl_context()),
            headers=found.as_http_headers(),
            trust_env=found.trust_env,
            trace_configs=[trace],
            middlewares=[narrow],
        )
        return kopf.AiohttpSession(server=found.server, aiohttp_session=session)

    return login


def _kopf_settings(kinds: Sequence[Kind]) -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.scanning.disabled = True  # neither CRDs nor namespaces are listed, so no right to is needed
    settings.posting.enabled = False
    settings.persistence.diffbase_storage = _NoDiffBase()
    settings.queueing.idle_timeout = IDLE_SECONDS
    settings.networking.request_timeout = REQUEST_TIMEOUT_SECONDS
    settings.networking.connect_timeout = CONNECT_TIMEOUT_SECONDS
    for kind in kinds:
        if kind not in (INFERENCE_DEPLOYMENT, NODE):
            settings.watching.label_selectors[*_address(kind)] = MANAGED_SELECTOR
    return settings


def _address(kind: Kind) -> tuple[str, str, str]:
    """A kind as kopf names it; the core group is the empty text."""
    group, _, version = kind.api_version.rpartition("/")
    return group, version, kind.plural
