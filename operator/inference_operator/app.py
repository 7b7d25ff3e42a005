"""The operator process: builds all parts and connects them. It contains no decisions."""

import asyncio
import gc
import logging
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal
from uuid import uuid4

from pydantic import ValidationError
from pythonjsonlogger.json import JsonFormatter

from inference_operator import __version__
from inference_operator.controller.cache import Cache
from inference_operator.controller.cluster import ClusterError, NotLeaderError
from inference_operator.controller.lister import Lister
from inference_operator.controller.other_operators import OtherOperators
from inference_operator.controller.reconciler import Reconciler
from inference_operator.controller.relist_loop import UNREADABLE_SECONDS, RelistLoop
from inference_operator.controller.resource_kind import KINDS, AnyResourceKind
from inference_operator.controller.workqueue import Priority, WorkQueue
from inference_operator.engines.registry import ENGINES, EngineRegistry
from inference_operator.hardware.offers import prices
from inference_operator.kube.client import Api, connect
from inference_operator.kube.cluster import KubeCluster
from inference_operator.kube.events import Events
from inference_operator.kube.lease import Lease, LeaseLostError
from inference_operator.kube.lookup_poller import LookupPoller
from inference_operator.kube.watch import Watches, loop_error_log
from inference_operator.manifest import Key, Kind
from inference_operator.pipeline.validation import default_errors
from inference_operator.planning.gpu_offers import gpus_by_kind, unknown_kinds
from inference_operator.roles.spec import RolePolicy, requested_roles
from inference_operator.scrape.scraper import Callbacks, Scraper, Targets
from inference_operator.settings import Settings, setting_errors
from inference_operator.status.report import Requeue
from inference_operator.telemetry import metrics
from inference_operator.telemetry.event_loop import StallWatch
from inference_operator.telemetry.http import PortError, serve_health

WORKERS = 8
"""Reconciles that run at a time. A reconcile mostly waits for the API server. All share one core with the
probes: with 16, an answer of `/healthz` took up to 5 s while 5,000 resources were created (`bench/reconcile.py`)."""

LOOKERS = 2
"""Lookups that run at a time: they only explain a state and must not delay reconciles."""

STOP_SECONDS = 10.0
"""How long running reconciles may take to finish at the stop; the kubelet gives the process 30 s."""

LONGEST_RECONCILE_SECONDS = 300.0
"""A reconcile that runs for longer is stuck: it takes about ten requests, and each ends within seconds."""

_queued_at: ContextVar[float | None] = ContextVar("queued_at", default=None)
"""When the key of this worker's reconcile was queued; None after its first write."""

log = logging.getLogger("inference_operator")


class Operator:
    def __init__(
        self,
        settings: Settings,
        cluster: KubeCluster,
        now: Callable[[], datetime],
        engines: EngineRegistry,
        roles: RolePolicy,
        *,
        kinds: Sequence[AnyResourceKind] = KINDS,
        search_seconds: float = UNREADABLE_SECONDS,
    ) -> None:
        self._now = now
        self._cache = Cache(settings, engines, roles, kinds)
        self._queue = WorkQueue(on_started=_count_started)
        self._events = Events(cluster, _instance(), now)
        self._others = OtherOperators(_account(settings), cluster.may_write_status, self._events.record)
        self._reconciler = Reconciler(
            cluster, self._cache, now, self._events.record, self._queue.add, others=self._others
        )
        self._looks = LookupPoller(cluster, self._cache.put_lookup, self._queue.add)
        self._scraper = Scraper(
            Targets(self._cache.resource_keys, self._cache.pods, self._cache.engine_views, self._cache.engine_of),
            self._cache.samples,
            Callbacks(
                on_stalled=self._queue.add,
                on_no_progress=metrics.RESOURCE_METRICS.count_no_progress,
                on_stall=metrics.RESOURCE_METRICS.count_stall,
                on_scrape=_count_scrape,
                on_room=self._queue.add,
                on_readable=self._queue.add,
                on_scaling=self._queue.add,
                on_adapters=self._queue.add,
            ),
            settings,
            scaling=self._cache.scaling,
        )
        self._lister = Lister(cluster, self._cache, settings, self._queue.add)
        self._relist_loop = RelistLoop(self._lister, settings, search_seconds)
        self._watches = _watches(self._lister, self._relist_loop)
        self._stalls = StallWatch()
        self._measure(settings)

    def alive(self) -> bool:
        """Whether nothing is stuck: listings finish, watches send events, and reconciles end.

        A restart does not help when the API server is away, so a failed listing counts as finished. Before the first
        listing the process is alive.
        """
        listing = not self._relist_loop.is_overdue() and not self._lister.dead_watches()
        return listing and self._queue.longest_running() < LONGEST_RECONCILE_SECONDS

    async def run(self, stop: asyncio.Event, since: str) -> bool:
        """Run until `stop` is set; returns whether all running reconciles have finished."""
        await self._relist_loop.begin(stop)
        if stop.is_set():
            return True
        self._others.begin(since, self._cache.resources())
        for key in self._cache.resource_keys():
            self._queue.add(key, Priority.LOW)
        # Created before the watches: when kopf stops, it cancels tasks that are younger than itself.
        workers = [
            asyncio.create_task(self._queue.work(self._handle, _on_failed), name="reconciles") for _ in range(WORKERS)
        ]
        loops = {
            "events": self._events.work(),
            "listings": self._relist_loop.work(stop, self._watches.revise),
            "scrapes": self._scraper.run(),
            "stalls": self._stalls.run(),
        }
        feeders = [asyncio.create_task(self._looks.work(), name="lookups") for _ in range(LOOKERS)]
        feeders += [asyncio.create_task(work, name=name) for name, work in loops.items()]
        for loop in (*feeders, *workers):
            loop.add_done_callback(lambda ended: stop_after(ended, stop))
        ender = asyncio.create_task(self._end(stop, feeders))
        try:
            await self._watches.run(stop)
        finally:
            stop.set()
            _, busy = await asyncio.wait(workers, timeout=STOP_SECONDS)
            for task in busy:
                task.cancel()
            await asyncio.gather(ender, *feeders, *workers, return_exceptions=True)
        return not busy

    async def _end(self, stop: asyncio.Event, feeders: Sequence[asyncio.Task[None]]) -> None:
        """Once `stop` is set, start no more reconciles and cancel the feeders: kopf waits for their child tasks."""
        await stop.wait()
        self._queue.close()
        for task in feeders:
            task.cancel()

    async def _handle(self, key: Key) -> Requeue | None:
        with metrics.RECONCILE_SECONDS.time():
            after = await self._reconciler.handle(key)
        self._looks.set_lookups(key, after.lookups if after else ())
        requeue = after is not None and after.backoff
        metrics.QUEUE_RETRIES.inc(requeue)
        metrics.RECONCILES.labels("requeue" if requeue else "success").inc()
        return after

    def _uses(self, kind: Kind) -> bool:
        return kind in self._lister.watchable

    def _measure(self, settings: Settings) -> None:
        metrics.RESOURCES.counts = self._cache.states
        metrics.ROLLOUT_RESOURCES.counts = self._cache.shared.fleet.counts
        metrics.RESOURCE_METRICS.resources = self._cache.figures
        metrics.RESOURCE_METRICS.scaling = self._cache.scaling.result
        metrics.RESOURCE_METRICS.prices = prices(settings.gpu_offers)
        metrics.NODE_GPUS.counts = lambda: gpus_by_kind(self._cache.nodes.nodes or (), settings.gpu_node_labels)
        metrics.QUEUE_DEPTH.set_function(lambda: len(self._queue))
        metrics.QUEUE_LONGEST.set_function(self._queue.longest_running)
        metrics.CACHE_AGE.set_function(self._relist_loop.age)
        metrics.LONGEST_STALL.set_function(self._stalls.seconds)
        for kind in self._lister.optional_kinds:
            metrics.USED_KINDS.labels(kind.resource).set_function(partial(self._uses, kind))
        metrics.UNREADABLE.set_function(lambda: len(self._lister.unreadable))
        metrics.LEFT_TO_OTHERS.set_function(lambda: self._others.count(self._now()))


def stop_after(ended: asyncio.Task[Any], stop: asyncio.Event) -> None:
    """Stop the process after a loop that should never end, so that it is started anew with all of its loops.

    The loop is cancelled when `stop` is set.
    """
    if not stop.is_set():
        error = None if ended.cancelled() else ended.exception()
        lost_lease = isinstance(error, NotLeaderError)  # which stops the process anyway
        log.critical("Restarting: the loop %s has ended", ended.get_name(), exc_info=None if lost_lease else error)
        stop.set()


def _account(settings: Settings) -> str:
    return f"system:serviceaccount:{settings.lease_namespace}:{settings.service_account or settings.lease_name}"


def _instance() -> str:
    """A name for this process: the pod's name and the start time, because a pod may start several processes."""
    return f"{socket.gethostname()[:63]}-{datetime.now(UTC):%Y%m%d%H%M%S}"


def _watches(lister: Lister, relist_loop: RelistLoop) -> Watches:
    return Watches(
        lister.on_event,
        versions=lister.versions,
        on_watch_started=lambda resource: metrics.WATCHES.labels(resource).inc(),
        on_events_lost=relist_loop.on_events_lost,
    )


def _count_scrape(component: str, *, answered: bool) -> None:
    metrics.SCRAPES.labels(component, "success" if answered else "missing").inc()


def _count_started(waited: float) -> None:
    metrics.QUEUE_WAIT.observe(waited)
    _queued_at.set(asyncio.get_running_loop().time() - waited)


def _count_apply() -> None:
    queued = _queued_at.get()
    if queued is not None:
        metrics.EVENT_TO_APPLY.observe(asyncio.get_running_loop().time() - queued)
        _queued_at.set(None)


def _on_failed(key: Key, error: Exception) -> None:
    metrics.RECONCILES.labels("error").inc()
    metrics.RECONCILE_ERRORS.labels(type(error).__name__).inc()
    metrics.QUEUE_RETRIES.inc()
    expected = isinstance(error, ClusterError | NotLeaderError)
    log.error("Cannot reconcile %s, will try again: %s", key, error, exc_info=None if expected else error)


async def run(
    settings: Settings,
    engines: EngineRegistry,
    roles: RolePolicy,
    kinds: Sequence[AnyResourceKind],
    search_seconds: float,
) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(loop_error_log(stop))
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, stop.set)
    client = await connect()
    try:
        api = Api(
            client,
            write_timeout=settings.write_timeout_seconds,
            on_request=lambda *request: metrics.API_REQUESTS.labels(*request).inc(),
        )
        lease = Lease(api, settings, f"{socket.gethostname()}_{uuid4()}")
        cluster = KubeCluster(api, may_act=lease.valid, on_applied=_count_apply)
        operator = Operator(
            settings, cluster, api.clock.now, engines, roles, kinds=kinds, search_seconds=search_seconds
        )
        async with serve_health(settings.http_port, alive=operator.alive, ready=lease.reachable):
            scope = ", ".join(settings.namespaces) or "the whole cluster"
            log.info("Inference operator %s serves %s", __version__, scope)
            if await lease.acquire(stop):
                await _lead(lease, operator, stop)
    finally:
        await client.close()


async def _lead(lease: Lease, operator: Operator, stop: asyncio.Event) -> None:
    """Run while the Lease is held; release it at the stop, and raise `LeaseLostError` if it is lost."""
    metrics.LEADER.set(1)
    keeping = asyncio.create_task(lease.keep())
    keeping.add_done_callback(lambda _: stop.set())
    try:
        finished = await operator.run(stop, lease.created())
    except NotLeaderError:
        finished = False
    finally:
        metrics.LEADER.set(0)
        lost = keeping.done()
        keeping.cancel()
        (error,) = await asyncio.gather(keeping, return_exceptions=True)
    if isinstance(error, Exception):
        log.critical("The renewal of the Lease has failed", exc_info=error)
    if lost:
        raise LeaseLostError("The Lease is lost: this process ends, and the next one starts with a new listing")
    if finished:
        await lease.release()


def configure_logs(log_format: Literal["json", "text"]) -> None:
    handler = logging.StreamHandler(sys.stderr)
    if log_format == "json":
        fields = "%(asctime)s %(levelname)s %(name)s %(message)s"
        renamed = {"asctime": "time", "levelname": "level", "name": "logger"}
        handler.setFormatter(JsonFormatter(fields, rename_fields=renamed))
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)


def main(
    engines: EngineRegistry = ENGINES,
    roles: RolePolicy = requested_roles,
    read_settings: Callable[[], Settings] = Settings,
    search_seconds: float = UNREADABLE_SECONDS,
    kinds: Sequence[AnyResourceKind] = KINDS,
) -> None:
    try:
        settings = read_settings()
        errors = [*unknown_kinds(settings), *default_errors(settings, engines)]
    except ValidationError as error:
        errors = setting_errors(error)
    if errors:
        print("\n".join(errors), file=sys.stderr)  # noqa: T201 - logs are not configured yet
        sys.exit(2)
    configure_logs(settings.log_format)
    # Imported modules stay in memory. Searching them for garbage again and again is a third of the cost of a listing.
    gc.freeze()
    try:
        with suppress(KeyboardInterrupt):
            asyncio.run(run(settings, engines, roles, kinds, search_seconds))
    except (ClusterError, LeaseLostError, PortError) as error:
        log.error("%s", error)  # noqa: TRY400 - it says all there is to say
        sys.exit(1)
