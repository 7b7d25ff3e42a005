"""Watches, run by kopf: each event is passed to a callback. The only module that imports kopf.

Only low-level event handlers are registered. For these kopf writes nothing: no finalizers and no annotations. The
operator lists objects itself, and `ResumeWatch` keeps kopf from listing everything a second time.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import kopf
from aiohttp import ClientSession, TCPConnector, TraceConfig, TraceRequestStartParams
from kopf._cogs.structs.references import Insights  # private, but a parameter of `kopf.operator`
from kopf._core.reactor.inventory import ResourceMemories, ResourceMemory  # private: pyproject.toml bounds the release

from inference_operator.controller.cluster import ClusterError
from inference_operator.kube.client import REQUEST_TIMEOUT_SECONDS
from inference_operator.kube.proxy import environment_proxy, in_cluster
from inference_operator.kube.resume_watch import ResumeWatch
from inference_operator.manifest import NODE, Kind, Manifest
from inference_operator.objects.names import MANAGED_SELECTOR

CONNECT_TIMEOUT_SECONDS = 5.0

IDLE_SECONDS = 0.1
"""How long kopf keeps a task and the object itself after an event of that object; kopf's default is 5 s."""

INACTIVITY_SECONDS = 70.0
"""A watch that sends nothing for this long, not even a bookmark, is opened again. kopf's default: an API server sends a
bookmark every 60 s."""

KOPF_STOP_SECONDS = 15.0
"""How long kopf may take to stop. It needs up to 6 s: 5 s for its tasks to end, then 1 s after it cancels them."""

log = logging.getLogger(__name__)

OnEvent = Callable[[str, Manifest], None]
"""Called for every event, with its type (ADDED, MODIFIED or DELETED) and the object."""


class _NoMemories(ResourceMemories):
    """Keeps nothing about an object after its event. kopf keeps 0.9 KiB and more for handlers that wait or retry."""

    async def recall(self, raw_body: kopf.RawBody, **others: Any) -> ResourceMemory:  # noqa: ANN401 - kopf's protocol
        return await super().recall(raw_body, **{**others, "ephemeral": True})


class _NoDiffBase(kopf.DiffBaseStorage):
    """Stores no last seen state: events carry all that is needed, and a copy doubles the CPU time of each event."""

    def build(self, **_: Any) -> kopf.BodyEssence:  # noqa: ANN401 - kopf's protocol
        return kopf.BodyEssence({})

    def fetch(self, **_: Any) -> kopf.BodyEssence | None:  # noqa: ANN401 - kopf's protocol
        return None

    def store(self, **_: Any) -> None:  # noqa: ANN401 - kopf's protocol
        return None


class Watches:
    """The watches of some kinds in some namespaces; both may change while they run.

    A watch that starts anew or is refused may have lost events.
    """

    def __init__(
        self,
        on_event: OnEvent,
        *,
        versions: Mapping[str, int],
        on_watch_started: Callable[[str], None],
        on_events_lost: Callable[[], None],
        inactivity_seconds: float = INACTIVITY_SECONDS,
        stop_seconds: float = KOPF_STOP_SECONDS,
    ) -> None:
        self._on_event = on_event
        self._on_watch_started = on_watch_started
        self._stop_seconds = stop_seconds
        self._resume = ResumeWatch(versions, on_events_lost)
        self._insights = Insights()
        """The resources that kopf watches. It begins and ends its watches when this changes."""
        self._registry = kopf.OperatorRegistry()
        self._settings = _kopf_settings(inactivity_seconds)
        self._handled: set[Kind] = set()
        """The kinds of which kopf knows the handler."""

    async def run(self, stop: asyncio.Event) -> None:
        """Watch until `stop` is set; nothing before the first `revise`.

        Tasks that exist before this call stay alone. kopf takes every task that starts later for its own: when it
        stops, it waits 5 s for that task and then cancels it (1.45.2, `run_tasks` in kopf/_core/reactor/running.py).

        Args:
            stop: ends the watches; is set when they end by themselves.

        Raises:
            ClusterError: the watches failed, or kopf did not stop in time.
        """
        logging.getLogger("kopf.objects").setLevel(logging.WARNING)  # it logs a line for every event
        stopping = asyncio.create_task(stop.wait())  # older than kopf's tasks, so that kopf does not cancel it
        self._add_activities(stop)
        running = asyncio.create_task(
            kopf.operator(
                registry=self._registry,
                settings=self._settings,
                insights=self._insights,
                standalone=True,
                # By default kopf asks for the user's name, which an arbitrary uid in a container does not have.
                identity="inference-operator",  # type: ignore[arg-type]  # a NewType of str that kopf does not export
                clusterwide=True,  # until the first `revise`, without a kind
                stop_flag=stop,
                memories=_NoMemories(),
            )
        )
        try:
            await asyncio.wait((running, stopping), return_when=asyncio.FIRST_COMPLETED)
            await _finish(running, self._stop_seconds)
        finally:
            stopping.cancel()
            running.cancel()

    async def revise(self, kinds: Collection[Kind], namespaces: Collection[str | None]) -> None:
        """Watch these kinds in these namespaces (None: the whole cluster) from the operator's last listing on.

        Watches that go on are left alone. Called after each listing: requests that were refused are sent again.
        Of all kinds but resources and nodes only what the operator manages is watched.
        """
        insights = self._insights
        await insights.ready_resources.wait()  # kopf has made its own list of kinds and namespaces, and makes no other
        await insights.ready_namespaces.wait()
        for kind in kinds:
            if kind not in self._handled:
                self._handled.add(kind)
                self._add_handler(kind)
        async with insights.revised:
            self._resume.revise({kind.path(None if kind == NODE else name) for kind in kinds for name in namespaces})
            resources = [kopf.Resource(*_address(kind), namespaced=kind != NODE) for kind in kinds]
            _replace(insights.watched_resources, resources)
            _replace(insights.namespaces, namespaces)
            insights.revised.notify_all()

    def _add_handler(self, kind: Kind) -> None:
        async def handle(event: Any, **_: Any) -> None:  # noqa: ANN401 - kopf's protocol
            self._on_event(event["type"] or "", dict(event["object"]))

        kopf.on.event(*_address(kind), registry=self._registry, id=kind.plural)(handle)
        if not kind.is_reconciled and kind != NODE:
            self._settings.watching.label_selectors[*_address(kind)] = MANAGED_SELECTOR

    def _add_activities(self, stop: asyncio.Event) -> None:
        async def on_cleanup(**_: Any) -> None:  # noqa: ANN401 - kopf's protocol
            # kopf handles SIGTERM itself while it runs, and would wait 5 s for tasks that wait for this flag.
            stop.set()

        login = _login(self._resume, self._on_watch_started)
        kopf.on.cleanup(registry=self._registry, id="stop")(on_cleanup)
        kopf.on.login(registry=self._registry, errors=kopf.ErrorsMode.TEMPORARY)(login)


async def _finish(running: asyncio.Task[None], stop_seconds: float) -> None:
    """Wait for kopf to stop, and give it up when it does not.

    When one watch fails, kopf 1.45.2 closes its session before the other watches end. These then try again, and take
    their cancellation for a broken connection; kopf waits for them without end (`stop` in
    kopf/_cogs/aiokits/aiotasks.py). The tasks that remain only wait; `asyncio.run` ends them with the process.
    """
    await asyncio.wait((running,), timeout=stop_seconds)
    if not running.done():
        raise ClusterError(f"The watches ended, and kopf did not stop within {stop_seconds:g} s")
    if error := running.exception():
        raise ClusterError(f"The watches ended: {error}") from error


def loop_error_log(stop: asyncio.Event) -> Callable[[asyncio.AbstractEventLoop, Manifest], None]:
    """The loop's exception handler: an error that no task awaits is logged, after the stop only at debug level.

    kopf 1.45.2 leaves two kinds of errors to the event loop when it stops, and the loop prints a traceback for each:

    - a watch that it has just opened: the loop cannot close it in order (`infinite_watch` in
      kopf/_cogs/clients/watching.py);
    - the requests of a start that is not over, whose session it closes (`scan_resources` in
      kopf/_cogs/clients/scanning.py).
    """

    def handle(loop: asyncio.AbstractEventLoop, context: Manifest) -> None:
        if "asyncgen" in context or stop.is_set():
            log.debug("Cut off at the stop: %s", context["message"], exc_info=context.get("exception"))
        else:
            loop.default_exception_handler(context)

    return handle


def _login(watch_from: ResumeWatch, on_watch_started: Callable[[str], None]) -> Callable[..., Any]:
    """A login handler with kopf's own credentials, and a session that narrows listings and counts watches."""
    credentials = kopf.login_with_service_account if in_cluster() else kopf.login_via_client

    async def on_request(_session: object, _context: object, request: TraceRequestStartParams) -> None:
        if request.url.query.get("watch") == "true":
            on_watch_started(request.url.name)

    async def login(**arguments: Any) -> kopf.AiohttpSession | None:  # noqa: ANN401 - kopf's protocol
        info = credentials(**arguments)
        if info is None:
            return None
        trace = TraceConfig()
        trace.on_request_start.append(on_request)
        session = ClientSession(
            connector=TCPConnector(limit=0, ssl=info.as_ssl_context()),
            headers=info.as_http_headers(),
            proxy=None if in_cluster() else info.proxy_url or environment_proxy(info.server),
            trust_env=info.trust_env,
            trace_configs=[trace],
            middlewares=[watch_from],
        )
        return kopf.AiohttpSession(server=info.server, aiohttp_session=session)

    return login


def _kopf_settings(inactivity_seconds: float) -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.scanning.disabled = True  # CRDs and namespaces are not listed, so no right to list them is needed
    settings.posting.enabled = False
    settings.persistence.diffbase_storage = _NoDiffBase()
    settings.queueing.idle_timeout = IDLE_SECONDS
    settings.watching.inactivity_timeout = inactivity_seconds
    settings.networking.request_timeout = REQUEST_TIMEOUT_SECONDS
    settings.networking.connect_timeout = CONNECT_TIMEOUT_SECONDS
    return settings


def _replace(former: set[Any], items: Iterable[Any]) -> None:
    former.intersection_update(items)
    former.update(items)


def _address(kind: Kind) -> tuple[str, str, str]:
    """Group, version and plural of a kind, as kopf takes them; the core group is the empty string."""
    return kind.group, kind.api_version.rpartition("/")[2], kind.plural
