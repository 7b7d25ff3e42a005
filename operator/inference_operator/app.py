"""The operator as a process: everything is put together here, and nothing is decided."""

import asyncio
import logging
import signal
import socket
import sys
from contextlib import suppress
from datetime import UTC, datetime
from uuid import uuid4

from pydantic import ValidationError

from inference_operator import __version__
from inference_operator.engines.vllm.vllm import Vllm
from inference_operator.kube.client import Api, KubeCluster, connect
from inference_operator.kube.events import Events
from inference_operator.kube.lease import Lease, LeaseLostError
from inference_operator.kube.looks import Looks
from inference_operator.kube.watch import watch, watched_kinds
from inference_operator.manifest import INFERENCE_DEPLOYMENT, Key, Manifest
from inference_operator.reconcile.cache import Cache
from inference_operator.reconcile.cluster import ClusterError, NotLeaderError
from inference_operator.reconcile.keys import KeyQueue
from inference_operator.reconcile.recipe import Reconciler
from inference_operator.resources.names import MANAGED_SELECTOR
from inference_operator.scrape.scraper import Known, Scraper, Told
from inference_operator.settings import Settings, complaints
from inference_operator.status.report import After
from inference_operator.telemetry.http import PortError, serve_health
from inference_operator.telemetry.logs import configure_logs
from inference_operator.telemetry.metrics import (
    API_REQUESTS,
    ENGINE_STALLS,
    LEADER,
    QUEUE_DEPTH,
    RECONCILE_SECONDS,
    RECONCILES,
    RESOURCES,
    SCRAPES,
)

WORKERS = 4
"""Keys that are worked on at a time: enough to hide the API server's latency on one event loop."""

LOOKERS = 2
"""Logs and the like that are read at a time: what explains a state must not crowd out what changes it."""

RETRY_SECONDS = 5.0
"""Between two attempts to reach the API server at the start."""

SETTLE_SECONDS = 5.0
"""From the start of the watches to a second listing, for what happened between the first one and them."""

STOP_SECONDS = 10.0
"""For what is being worked on to come to its end when the process is told to stop; the kubelet gives it 30 s."""

STALE_RESYNCS = 3
"""Listings that may be missed in a row before the process counts as dead."""

log = logging.getLogger("inference_operator")


class Operator:
    """The running operator: a cache, a queue, workers, and what feeds them."""

    def __init__(self, settings: Settings, cluster: KubeCluster) -> None:
        self._settings = settings
        self._cluster = cluster
        self._cache = Cache(settings)
        self._queue = KeyQueue()
        self._events = Events(cluster, _instance(), lambda: datetime.now(UTC))
        self._reconciler = Reconciler(cluster, self._cache, lambda: datetime.now(UTC), self._events.tell)
        self._looks = Looks(cluster, self._cache.see, self._queue.add)
        self._scraper = Scraper(
            Known(self._cache.known, self._cache.pods),
            self._cache.samples,
            Vllm(),
            Told(stalled=self._queue.add, stall=_count_stall, look=_count_scrape),
            settings,
        )
        self._listed_at: float | None = None

    def alive(self) -> bool:
        """Whether listings still succeed; before the first one the process has the time that it takes."""
        if self._listed_at is None:
            return True
        return asyncio.get_running_loop().time() - self._listed_at < STALE_RESYNCS * self._settings.resync_seconds

    async def run(self, stop: asyncio.Event) -> bool:
        """Work until told to stop; returns whether all that was begun has come to its end."""
        await self._prime(stop)
        if stop.is_set():
            return True
        # Created before kopf starts, which takes every younger task for its own when it stops.
        workers = [asyncio.create_task(self._queue.work(self._handle, _failed)) for _ in range(WORKERS)]
        feeders = [asyncio.create_task(self._looks.work()) for _ in range(LOOKERS)]
        beside = (self._events.work(), self._resync(), self._scraper.run())
        feeders += [asyncio.create_task(work) for work in beside]
        await asyncio.sleep(0)  # for the tasks that they create
        try:
            await watch(self._settings, self._seen, stop=stop)
        finally:
            self._queue.close()
            _, busy = await asyncio.wait(workers, timeout=STOP_SECONDS)
            for task in (*busy, *feeders):
                task.cancel()
            await asyncio.gather(*feeders, *workers, return_exceptions=True)
        return not busy

    async def _handle(self, key: Key) -> After | None:
        QUEUE_DEPTH.set(len(self._queue))
        with RECONCILE_SECONDS.time():
            again = await self._reconciler.reconcile(key)
        self._looks.want(key, again.looks if again else ())
        RECONCILES.labels("success").inc()
        return again

    def _seen(self, event: str, manifest: Manifest) -> None:
        key = self._cache.forget(manifest) if event == "DELETED" else self._cache.put(manifest)
        if key is not None:
            self._queue.add(key)

    async def _prime(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            try:
                await self._list()
            except ClusterError as error:
                log.warning("Cannot list the cluster yet: %s", error)
                with suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), RETRY_SECONDS)
            else:
                break
        for key in self._cache.known():
            self._queue.add(key)

    async def _resync(self) -> None:
        """List everything anew from time to time: a watch can miss a deletion."""
        wait = min(SETTLE_SECONDS, self._settings.resync_seconds)
        while True:
            await asyncio.sleep(wait)
            wait = self._settings.resync_seconds
            try:
                await self._list()
            except ClusterError as error:
                log.warning("Cannot list the cluster: %s", error)

    async def _list(self) -> None:
        for kind in (INFERENCE_DEPLOYMENT, *watched_kinds(self._settings)):
            selector = None if kind == INFERENCE_DEPLOYMENT else MANAGED_SELECTOR
            for key in self._cache.replace(kind, await self._cluster.list_objects(kind, selector=selector)):
                self._queue.add(key)
        RESOURCES.set(len(self._cache.known()))
        self._listed_at = asyncio.get_running_loop().time()


def _instance() -> str:
    """A name for this process: that of its pod, and when it began, since a pod may have several."""
    return f"{socket.gethostname()[:63]}-{datetime.now(UTC):%Y%m%d%H%M%S}"


def _count_request(verb: str, kind: str, code: str) -> None:
    API_REQUESTS.labels(verb, kind, code).inc()


def _count_scrape(component: str, *, answered: bool) -> None:
    SCRAPES.labels(component, "success" if answered else "missing").inc()


def _count_stall(key: Key) -> None:
    ENGINE_STALLS.labels(key.namespace, key.name).inc()


def _failed(key: Key, error: Exception) -> None:
    RECONCILES.labels("error").inc()
    known = isinstance(error, ClusterError | NotLeaderError)
    log.error("Cannot reconcile %s, will try again: %s", key, error, exc_info=None if known else error)


async def run(settings: Settings) -> None:
    """Run the operator until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, stop.set)
    client = await connect()
    try:
        api = Api(client, write_timeout=settings.write_timeout_seconds, tell=_count_request)
        lease = Lease(api, settings, f"{socket.gethostname()}_{uuid4()}")
        operator = Operator(settings, KubeCluster(api, settings.namespaces, may_act=lease.valid))
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
    except ValidationError as error:
        print("\n".join(complaints(error)), file=sys.stderr)  # noqa: T201 - logs are not configured yet
        sys.exit(2)
    configure_logs(settings.log_format)
    try:
        with suppress(KeyboardInterrupt):
            asyncio.run(run(settings))
    except (ClusterError, LeaseLostError, PortError) as error:
        log.error("%s", error)  # noqa: TRY400 - it says all there is to say
        sys.exit(1)
