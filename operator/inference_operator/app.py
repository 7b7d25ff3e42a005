"""The operator as a process: everything is put together here, and nothing is decided."""

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
from uuid import uuid4

from pydantic import ValidationError

from inference_operator import __version__
from inference_operator.engines.chosen import chosen_engine
from inference_operator.kube.client import Api, connect
from inference_operator.kube.cluster import KubeCluster
from inference_operator.kube.events import Events
from inference_operator.kube.lease import Lease, LeaseLostError
from inference_operator.kube.looks import Looks
from inference_operator.kube.watch import tell_of_stray, watch
from inference_operator.manifest import Key
from inference_operator.planning.gpu_offers import unknown_offers
from inference_operator.reconcile.cache import Cache
from inference_operator.reconcile.cluster import ClusterError, NotLeaderError
from inference_operator.reconcile.keys import KeyQueue
from inference_operator.reconcile.recipe import Reconciler
from inference_operator.reconcile.relisting import Relisting
from inference_operator.reconcile.resync import Resync
from inference_operator.scrape.scraper import Known, Scraper, Told
from inference_operator.settings import Settings, complaints
from inference_operator.status.report import After
from inference_operator.telemetry.http import PortError, serve_health
from inference_operator.telemetry.logs import configure_logs
from inference_operator.telemetry.metrics import (
    API_REQUESTS,
    CACHE_AGE,
    ENGINE_STALLS,
    EVENT_TO_APPLY,
    LEADER,
    QUEUE_DEPTH,
    QUEUE_LONGEST,
    QUEUE_RETRIES,
    QUEUE_WAIT,
    RECONCILE_ERRORS,
    RECONCILE_SECONDS,
    RECONCILES,
    RESOURCES,
    SCRAPES,
    UNREADABLE,
    WATCHES,
)

WORKERS = 16
"""Keys that are worked on at a time. A round waits for the API server most of its time, the more so where that is busy;
as many as the clients that `bench/reconcile.py` compares with."""

LOOKERS = 2
"""Logs and the like that are read at a time: what explains a state must not crowd out what changes it."""

STOP_SECONDS = 10.0
"""For what is being worked on to come to its end when the process is told to stop; the kubelet gives it 30 s."""

LONGEST_ROUND_SECONDS = 300.0
"""A round takes about ten requests, each of which ends within seconds: one that runs for so long is stuck."""

_asked_at: ContextVar[float | None] = ContextVar("asked_at", default=None)
"""When the round of this worker was asked for, until its first write."""

log = logging.getLogger("inference_operator")


class Operator:
    """The running operator: a cache, a queue, workers, and what feeds them."""

    def __init__(self, settings: Settings, cluster: KubeCluster, now: Callable[[], datetime]) -> None:
        self._cluster = cluster
        self._cache = Cache(settings)
        self._queue = KeyQueue(began=_count_begin)
        self._events = Events(cluster, _instance(), now)
        self._reconciler = Reconciler(cluster, self._cache, now, self._events.tell)
        self._looks = Looks(cluster, self._cache.see, self._queue.add)
        self._scraper = Scraper(
            Known(self._cache.known, self._cache.pods),
            self._cache.samples,
            chosen_engine(),
            Told(stalled=self._queue.add, stall=_count_stall, look=_count_scrape, cache=self._queue.add),
            settings,
        )
        self._resync = Resync(cluster, self._cache, settings, self._queue.add)
        self._relisting = Relisting(self._resync, settings)
        self._measure()

    def alive(self) -> bool:
        """Whether nothing is stuck: listings come to an end, if not to a good one, watches tell, and rounds end.

        That the API server is away is not for a restart to cure, and before the first listing nothing is due.
        """
        told = not self._relisting.is_overdue() and not self._resync.deaf()
        return told and self._queue.longest_running() < LONGEST_ROUND_SECONDS

    async def run(self, stop: asyncio.Event) -> bool:
        """Work until told to stop; returns whether all that was begun has come to its end."""
        await self._relisting.begin(stop)
        if stop.is_set():
            return True
        for key in self._cache.known():
            self._queue.add(key)
        # Created before kopf starts, which takes every younger task for its own when it stops.
        workers = [asyncio.create_task(self._queue.work(self._handle, _failed)) for _ in range(WORKERS)]
        beside = (self._events.work(), self._relisting.work(stop), self._scraper.run())
        feeders = [asyncio.create_task(self._looks.work()) for _ in range(LOOKERS)]
        feeders += [asyncio.create_task(work) for work in beside]
        ender = asyncio.create_task(self._end(stop, feeders))
        await asyncio.sleep(0)  # for the tasks that they create
        try:
            resync = self._resync
            await watch(
                resync.watchable,
                resync.readable,
                resync.hear,
                versions=resync.versions,
                begun=_count_watch,
                missed=self._relisting.miss,
                stop=stop,
            )
        finally:
            stop.set()
            _, busy = await asyncio.wait(workers, timeout=STOP_SECONDS)
            for task in busy:
                task.cancel()
            await asyncio.gather(ender, *feeders, *workers, return_exceptions=True)
        return not busy

    async def _end(self, stop: asyncio.Event, feeders: Sequence[asyncio.Task[None]]) -> None:
        """Begin nothing more once told to stop, before kopf waits for what the feeders have begun."""
        await stop.wait()
        self._queue.close()
        for task in feeders:
            task.cancel()

    async def _handle(self, key: Key) -> After | None:
        with RECONCILE_SECONDS.time():
            again = await self._reconciler.reconcile(key)
        self._looks.want(key, again.looks if again else ())
        requeue = again is not None and again.backoff
        QUEUE_RETRIES.inc(requeue)
        RECONCILES.labels("requeue" if requeue else "success").inc()
        return again

    def _measure(self) -> None:
        RESOURCES.states = self._cache.states
        QUEUE_DEPTH.set_function(lambda: len(self._queue))
        QUEUE_LONGEST.set_function(self._queue.longest_running)
        CACHE_AGE.set_function(self._relisting.age)
        UNREADABLE.set_function(lambda: len(self._resync.unreadable))


def _instance() -> str:
    """A name for this process: that of its pod, and when it began, since a pod may have several."""
    return f"{socket.gethostname()[:63]}-{datetime.now(UTC):%Y%m%d%H%M%S}"


def _count_request(verb: str, kind: str, code: str) -> None:
    API_REQUESTS.labels(verb, kind, code).inc()


def _count_scrape(component: str, *, answered: bool) -> None:
    SCRAPES.labels(component, "success" if answered else "missing").inc()


def _count_stall(key: Key) -> None:
    ENGINE_STALLS.labels(key.namespace, key.name).inc()


def _count_watch(resource: str) -> None:
    WATCHES.labels(resource).inc()


def _count_begin(waited: float) -> None:
    QUEUE_WAIT.observe(waited)
    _asked_at.set(asyncio.get_running_loop().time() - waited)


def _count_apply() -> None:
    asked = _asked_at.get()
    if asked is not None:
        EVENT_TO_APPLY.observe(asyncio.get_running_loop().time() - asked)
        _asked_at.set(None)


def _failed(key: Key, error: Exception) -> None:
    RECONCILES.labels("error").inc()
    RECONCILE_ERRORS.labels(type(error).__name__).inc()
    QUEUE_RETRIES.inc()
    known = isinstance(error, ClusterError | NotLeaderError)
    log.error("Cannot reconcile %s, will try again: %s", key, error, exc_info=None if known else error)


async def run(settings: Settings) -> None:
    """Run the operator until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(tell_of_stray)
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, stop.set)
    client = await connect()
    try:
        api = Api(client, write_timeout=settings.write_timeout_seconds, tell=_count_request)
        lease = Lease(api, settings, f"{socket.gethostname()}_{uuid4()}")
        cluster = KubeCluster(api, may_act=lease.valid, applied=_count_apply)
        operator = Operator(settings, cluster, api.clock.now)
        async with serve_health(settings.http_port, alive=operator.alive, ready=lease.reachable):
            where = ", ".join(settings.namespaces) or "the whole cluster"
            log.info("Inference operator %s serves %s", __version__, where)
            if await lease.acquire(stop):
                await _lead(lease, operator, stop)
    finally:
        await client.close()


async def _lead(lease: Lease, operator: Operator, stop: asyncio.Event) -> None:
    """Work while the Lease is held; hand it over when told to stop, and raise where it is lost."""
    LEADER.set(1)
    keeping = asyncio.create_task(lease.keep())
    keeping.add_done_callback(lambda _: stop.set())
    try:
        at_rest = await operator.run(stop)
    except NotLeaderError:
        at_rest = False
    finally:
        LEADER.set(0)
        lost = keeping.done()
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
    if lost:
        raise LeaseLostError("The Lease is lost: this process ends, so that the next one starts from what there is")
    if at_rest:
        await lease.release()


def main() -> None:
    """Entry point of the container."""
    try:
        settings = Settings()
        complained = unknown_offers(settings)
    except ValidationError as error:
        complained = complaints(error)
    if complained:
        print("\n".join(complained), file=sys.stderr)  # noqa: T201 - logs are not configured yet
        sys.exit(2)
    configure_logs(settings.log_format)
    # What has been imported stays: to look through it for garbage again and again is a third of what a listing costs.
    gc.freeze()
    try:
        with suppress(KeyboardInterrupt):
            asyncio.run(run(settings))
    except (ClusterError, LeaseLostError, PortError) as error:
        log.error("%s", error)  # noqa: TRY400 - it says all there is to say
        sys.exit(1)
