"""Scrapes the metrics of routers and engines, and sends a probe request to an engine that seems to stall."""

import asyncio
import itertools
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Protocol

from inference_operator.autoscaling.latency import has_lengths
from inference_operator.autoscaling.loop import ScrapeRound
from inference_operator.controller.sample_store import SampleStore, ScalingStore
from inference_operator.engines.base import Engine
from inference_operator.engines.process import ProbeRequest
from inference_operator.manifest import Key
from inference_operator.objects.names import ROUTER
from inference_operator.router.stats import SAMPLE_PATH, router_sample
from inference_operator.scrape.held_watch import HeldWatch
from inference_operator.scrape.pod_client import KEEP_ALIVE_SECONDS, Address, PodClient
from inference_operator.scrape.schedule import DEMAND_SECONDS, Intervals, Pace, Schedule
from inference_operator.settings import Settings
from inference_operator.views.engine import EngineView
from inference_operator.views.pod import ADAPTERS_PORT, PodView
from inference_operator.views.samples import (
    REPORT_PATH,
    EngineActivity,
    EngineSample,
    ProbeState,
    RouterSample,
    adapter_report,
    combined_samples,
    next_activity,
)
from inference_operator.workload.eviction.stall import has_stalled, needs_probe

WORKERS = 32
"""InferenceDeployments scraped at a time. A pod that does not answer occupies its worker until the timeout."""
LONGEST_PAUSE_SECONDS = 1.0
FOLLOW_TICKS = 3
"""Checks of the schedule between two looks at which resources have autoscaling, and which have no engine."""
TICKS = 5
"""Checks of the schedule in each `scrapeSeconds`."""
CALM_ROUNDS = 8
"""Interval, in `scrapeSeconds`, of routers and of idle or single engines, while none seems to stall."""
GAP_ROUNDS = CALM_ROUNDS + 2
"""Longest gap between two samples of an engine, in `scrapeSeconds`, over which a lack of progress continues."""
ENGINES = "engines"
"""The engines of all roles, in the schedule."""
METRICS_PORT = "metrics"
"""Prefix of the names of the ports on which routers show their statistics, one for each HAProxy process."""
API_PORT = "http"
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Targets:
    """The routers and engines to scrape. Of an engine with several pods, the leader is scraped."""

    keys: Callable[[], Iterable[Key]]
    pods: Callable[[Key], Sequence[PodView]]
    engines: Callable[[Key], Sequence[EngineView]]
    engine: Callable[[Key, PodView], Engine | None]


class OnScrape(Protocol):
    def __call__(self, component: str, *, answered: bool) -> None:
        """A pod of this component was scraped; `answered` says whether its metrics could be read."""


@dataclass(frozen=True, slots=True)
class Callbacks:
    """Called by the scraper, in its event loop."""

    on_stalled: Callable[[Key], None]
    """An engine has stalled for `noProgressSeconds`, or is out of traffic: called at each scrape for as long as it is,
    and when an engine responds to a probe request."""
    on_no_progress: Callable[[Key], None]
    """An engine has stalled for `noProgressSeconds`: called once for each stall."""
    on_stall: Callable[[Key], None]
    """An engine has stalled for `stallSeconds`: called once for each stall."""
    on_scrape: OnScrape
    on_room: Callable[[Key], None]
    """An engine reports the size of its KV cache, or so many requests that their mean lengths count: called once for
    each, at each start of an engine."""
    on_readable: Callable[[Key], None]
    """Whether the metrics of an engine can be read has changed."""
    on_adapters: Callable[[Key], None]
    """An engine's report about its adapters has changed."""
    on_scaling: Callable[[Key], None]
    """Another number of engines is wanted, or whether metrics for it are missing has changed."""


@dataclass(frozen=True, slots=True)
class Scraped:
    pace: Pace
    failed: Sequence[str]
    pods: int = 0
    """Number of the key's pods that its pace scrapes often."""


@dataclass(frozen=True, slots=True)
class _Routers:
    sample: RouterSample
    at: float


class Scraper:
    """Fills the sample store.

    Routers and engines have intervals of their own. An engine's sample needs the sessions that routers have with it.
    These come from the latest scrape of the routers if that is at most `scrapeSeconds` old, and count as 0 otherwise.
    Routers are scraped before engines where both are due.

    Args:
        settings: interval, and how long an engine may make no progress.
        intervals: of `ROUTER` and of `ENGINES`, in this order; None: `default_intervals`.
        scaling: where rounds of scrapes become decisions of autoscaling; None: nowhere.
    """

    def __init__(
        self,
        targets: Targets,
        store: SampleStore,
        callbacks: Callbacks,
        settings: Settings,
        *,
        now: Callable[[], float] = time.monotonic,
        intervals: Mapping[str, Intervals] | None = None,
        scaling: ScalingStore | None = None,
    ) -> None:
        self._targets = targets
        self._store = store
        self._callbacks = callbacks
        self._settings = settings
        self._now = now
        self._schedule = Schedule(intervals or default_intervals(settings))
        self._paces: dict[Key, Pace] = {}
        self._client = PodClient()
        self._scaling = scaling or ScalingStore()
        self._scaled: set[Key] = set()
        """Keys whose first round was hastened."""
        self._held_watch = HeldWatch(targets.pods, self._on_held, _metrics_ports)
        self._wake = asyncio.Event()
        self._queue: asyncio.Queue[tuple[Key, Sequence[str]]] = asyncio.Queue()
        self._routers: dict[Key, _Routers] = {}
        self._probe_requests: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Scrape until cancelled, or until a worker ends by an error, which is raised.

        All tasks are created at the start, except one for each probe request.
        """
        workers = [asyncio.create_task(self._work()) for _ in range(WORKERS)]
        try:
            pause = min(self._settings.scrape_seconds / TICKS, LONGEST_PAUSE_SECONDS)
            for tick in itertools.count():
                for ended in filter(asyncio.Task.done, workers):
                    ended.result()
                if tick % round(CALM_ROUNDS * self._settings.scrape_seconds / pause) == 0:
                    self._forget()
                for due in self._schedule.due(self._targets.keys(), now=self._now()).items():
                    self._queue.put_nowait(due)
                for key in self._store.awaits_adapters:
                    self._schedule.hasten(key, now=self._now())
                if tick % FOLLOW_TICKS == 0:
                    self._follow_scaling()  # after `due`, which plans new keys
                self._wake.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause):  # `wait_for` of Python 3.11 can lose a cancellation
                        await self._wake.wait()
        finally:
            for task in (*workers, *self._probe_requests):
                task.cancel()
            await asyncio.gather(*workers, *self._probe_requests, return_exceptions=True)
            self._held_watch.close()
            await self.close()

    async def close(self) -> None:
        await self._client.aclose()

    def _follow_scaling(self) -> None:
        """Hasten the first round of resources that are new to autoscaling, and watch those without engines."""
        keys = self._scaling.keys()
        for key in set(keys) - self._scaled:
            self._schedule.hasten(key, now=self._now(), within=DEMAND_SECONDS)
        self._scaled = set(keys)
        self._held_watch.follow(key for key in keys if self._is_at_zero(key))

    def _on_held(self, key: Key) -> None:
        self._schedule.hasten(key, now=self._now())
        self._wake.set()

    def _forget(self) -> None:
        keys = set(self._targets.keys())
        self._scaling.forget_all_but(keys)
        self._store.awaits_adapters &= keys
        self._routers = {key: routers for key, routers in self._routers.items() if key in keys}
        self._paces = {key: pace for key, pace in self._paces.items() if key in keys}
        self._store.forget_all_but(pod.uid for key in keys for pod in self._targets.pods(key))

    async def _work(self) -> None:
        while True:
            key, components = await self._queue.get()
            scraped = Scraped(Pace.CALM, failed=components)
            try:
                scraped = await self.scrape(key, components)
            except Exception:
                log.exception("Cannot scrape the metrics of %s", key)
            now = self._now()
            pace, pods = scraped.pace, scraped.pods
            for component in components:
                failed = component in scraped.failed
                self._schedule.done(key, component, now=now, pace=pace, failed=failed, pods=pods)

    async def scrape(self, key: Key, components: Sequence[str] = (ROUTER, ENGINES)) -> Scraped:
        """Scrape all pods of a key that belong to these components; routers first."""
        routers = [pod for pod in self._routers_of(key) if pod.is_serving and pod.address]
        engines = [engine for engine in self._targets.engines(key) if engine.is_serving and engine.address]
        await self._read_adapters(key, [engine.leader for engine in engines])
        failed = []
        if ROUTER in components and not await self._scrape_routers(key, routers):
            failed.append(ROUTER)
        if ENGINES in components and not await self._scrape_engines(key, engines):
            failed.append(ENGINES)
        pace = self._paces[key] = self._pace(engines)
        leaders = [engine.leader for engine in engines]
        if self._scaling.inputs(key):
            return self._scaled_round(key, components, [*routers, *leaders])
        # The stall watchdog needs the routers' sessions too, so no interval grows while an engine seems to stall.
        often = leaders if pace is Pace.BUSY else [*routers, *leaders]
        return Scraped(pace, () if pace is Pace.URGENT else failed, len(often))

    def _scaled_round(self, key: Key, components: Sequence[str], pods: Sequence[PodView]) -> Scraped:
        """Decide about a round of an autoscaled resource. It is read often, whatever its stall watchdog needs."""
        if {ROUTER, ENGINES} <= set(components):
            samples, at = self._store.of(pods), self._now()
            scraped = ScrapeRound(self._targets.engines(key), self._routers_of(key), samples, at)
            if self._scaling.observe(key, scraped):
                self._callbacks.on_scaling(key)
        has_demand = self._paces[key] in {Pace.URGENT, Pace.BUSY, Pace.UNEVEN} or self._scaling.has_demand(key)
        pace = Pace.DEMAND if has_demand else Pace.CALM if self._is_at_zero(key) else Pace.NO_DEMAND
        self._paces[key] = pace
        return Scraped(pace, (), len(pods))

    def _is_at_zero(self, key: Key) -> bool:
        """Whether autoscaling wants no engine, so that routers tell of the first request."""
        inputs = self._scaling.inputs(key)
        return bool(inputs) and all(role.replicas == 0 for role in inputs)

    def _routers_of(self, key: Key) -> list[PodView]:
        return [pod for pod in self._targets.pods(key) if pod.component == ROUTER]

    def _pace(self, engines: Sequence[EngineView]) -> Pace:
        """The pace for these engines.

        An engine whose requests only routers count may hang since it was idle. Only their next samples show it.
        """
        answering = self._store.of(engine.leader for engine in engines).engines.values()
        busy = [activity for activity in answering if activity.sample.unfinished]
        if not all(engine.traffic for engine in engines) or any(
            activity.seconds_without_progress > 0 or (activity.sessions and not activity.sample.unfinished)
            for activity in answering
        ):
            return Pace.URGENT
        if not busy or len(engines) == 1:
            return Pace.CALM
        return Pace.BUSY if len(busy) == len(answering) else Pace.UNEVEN

    def _keeps(self, key: Key, component: str) -> bool:
        return self._schedule.interval(component, self._paces.get(key, Pace.CALM)) <= KEEP_ALIVE_SECONDS

    async def _scrape_routers(self, key: Key, routers: Sequence[PodView]) -> bool:
        """Scrape all routers of a key; whether one answered or there is none."""
        samples = [sample for pod in routers if (sample := await self._scrape_router(key, pod)) is not None]
        self._routers.pop(key, None)
        if samples:
            self._routers[key] = _Routers(combined_samples(samples), self._now())
        return bool(samples) or not routers

    async def _scrape_router(self, key: Key, pod: PodView) -> RouterSample | None:
        """Scrape every process of a router; None if one does not answer."""
        ports = _metrics_ports(pod)
        keep = self._keeps(key, ROUTER)
        samples: list[RouterSample] = []
        for port in ports:
            text = await self._client.get(Address(pod.address, port), SAMPLE_PATH, keep=keep)
            sample = router_sample(text) if text is not None else None
            if sample is None:
                break
            samples.append(sample)
        complete = bool(ports) and len(samples) == len(ports)
        self._callbacks.on_scrape(ROUTER, answered=complete)
        if not complete:
            self._store.miss(pod.uid)
            return None
        total = combined_samples(samples)
        self._store.see_router(pod.uid, total)
        return total

    async def _scrape_engines(self, key: Key, engines: Sequence[EngineView]) -> bool:
        """Scrape the leaders of these engines; whether one answered or there is none."""
        routers = self._routers.get(key)
        fresh = routers is not None and self._now() - routers.at <= self._settings.scrape_seconds
        sessions = routers.sample.sessions if routers and fresh else None
        programs = ((view, self._targets.engine(key, view.leader)) for view in engines)
        answered = [
            await self._scrape_engine(key, view.leader, engine, sessions) for view, engine in programs if engine
        ]
        return any(answered) or not engines

    async def _scrape_engine(self, key: Key, pod: PodView, engine: Engine, routed: Mapping[str, int] | None) -> bool:
        sessions = routed.get(pod.address, 0) if routed else 0
        if (page := engine.metrics_page) is None:
            if routed is not None:
                self._see(key, pod, engine, EngineSample.by_routers(sessions), sessions)
            return True  # nothing was asked that could fail
        keep = self._keeps(key, ENGINES) and page.idle_seconds > KEEP_ALIVE_SECONDS
        address = _api(pod) if page.port is None else Address(pod.address, page.port)
        text = await self._client.get(address, page.path, keep=keep)
        sample = engine.sample(text) if text is not None else None
        self._callbacks.on_scrape(pod.component, answered=sample is not None)
        if sample is None:
            if self._store.miss(pod.uid):
                self._callbacks.on_readable(key)
            return False
        self._see(key, pod, engine, sample, sessions)
        return True

    async def _read_adapters(self, key: Key, pods: Sequence[PodView]) -> None:
        for pod in pods:
            if (port := pod.ports.get(ADAPTERS_PORT)) is None:
                continue
            text = await self._client.get(Address(pod.address, port), REPORT_PATH, keep=False)
            report = adapter_report(text) if text is not None else None
            if report is not None and self._store.see_adapters(pod.uid, report):
                self._callbacks.on_adapters(key)

    def _see(self, key: Key, pod: PodView, engine: Engine, sample: EngineSample, sessions: int) -> None:
        gap = GAP_ROUNDS * self._settings.scrape_seconds
        before = self._store.engine(pod.uid)
        after = next_activity(
            before, sample, sessions=sessions, at=self._now(), longest_gap=gap, in_traffic=pod.traffic
        )
        if needs_probe(after, seconds=self._settings.no_progress_seconds, in_traffic=pod.traffic):
            after = self._probed(key, pod, engine, after)
        if self._store.see_engine(pod.uid, after):
            self._callbacks.on_readable(key)
        known_tokens, counts = (before.sample.kv_cache_tokens, before.sample.tokens) if before else (None, None)
        learned = has_lengths(sample.tokens) and not has_lengths(counts)
        if sample.kv_cache_tokens not in (None, known_tokens) or learned:
            self._callbacks.on_room(key)
        self._report_stall(key, before, after, in_traffic=pod.traffic)

    def _report_stall(
        self, key: Key, before: EngineActivity | None, after: EngineActivity, *, in_traffic: bool
    ) -> None:
        settings, callbacks = self._settings, self._callbacks
        for seconds, begins in (
            (settings.no_progress_seconds, callbacks.on_no_progress),
            (settings.stall_seconds, callbacks.on_stall),
        ):
            if has_stalled(after, seconds=seconds) and not (before and has_stalled(before, seconds=seconds)):
                begins(key)
        if has_stalled(after, seconds=settings.no_progress_seconds) or not in_traffic:
            callbacks.on_stalled(key)

    def _probed(self, key: Key, pod: PodView, engine: Engine, activity: EngineActivity) -> EngineActivity:
        """The activity with a probe request on its way, if the engine has one."""
        request = engine.probe_request(activity.sample.model)
        if request is None:
            return replace(activity, probe=ProbeState.UNSUPPORTED)
        sent = activity.with_probe_sent()
        task = asyncio.create_task(self._send_probe_request(key, pod, request, sent))
        self._probe_requests.add(task)
        task.add_done_callback(self._probe_requests.discard)
        return sent

    async def _send_probe_request(self, key: Key, pod: PodView, request: ProbeRequest, sent: EngineActivity) -> None:
        """Send an engine its smallest request, again after a timeout, and store the result."""
        while now := self._waiting(pod, sent):
            try:
                status = await self._client.post(
                    _api(pod), request.path, request.body, seconds=self._settings.stall_seconds
                )
            except TimeoutError:
                continue  # the store already has NO_RESPONSE
            if now := self._waiting(pod, sent):
                self._store.correct(pod.uid, _after_probe(now, status, self._now()))
                self._callbacks.on_stalled(key)

    def _waiting(self, pod: PodView, sent: EngineActivity) -> EngineActivity | None:
        """The engine's activity, while it has not responded to this probe request; None afterwards."""
        now = self._store.engine(pod.uid)
        waits = now and now.probe is ProbeState.NO_RESPONSE and now.probe_sent_at == sent.probe_sent_at
        return now if waits else None


def _after_probe(engine: EngineActivity, status: int | None, at: float) -> EngineActivity:
    """The activity after the end of a probe request: with a response of this status, or (None) without one."""
    if status == HTTPStatus.OK:
        return engine.with_probe_answered(at)
    return replace(engine, probe=ProbeState.NOT_SENT if status is None else ProbeState.UNSUPPORTED)


def default_intervals(settings: Settings) -> Mapping[str, Intervals]:
    """Scrape intervals of routers and of engines.

    Those of routers stay long while all engines are busy: with 1,000 resources, routers read every 15 s make the
    scraper take four times as much CPU (bench/RESULTS.md).
    """
    urgent, calm = settings.scrape_seconds, CALM_ROUNDS * settings.scrape_seconds
    return {ROUTER: Intervals(urgent, calm, calm), ENGINES: Intervals(urgent, urgent, calm)}


def _metrics_ports(pod: PodView) -> Sequence[int]:
    return [port for name, port in pod.ports.items() if name.startswith(METRICS_PORT)]


def _api(pod: PodView) -> Address:
    return Address(pod.address, pod.ports.get(API_PORT, 0))
