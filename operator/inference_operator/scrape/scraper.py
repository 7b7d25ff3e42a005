"""Looks at the metrics of what is served, and asks an engine that seems to stand still."""

import asyncio
import itertools
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Protocol

from inference_operator.engines.engine import METRICS_PATH, Engine
from inference_operator.manifest import Key
from inference_operator.observed.pod import PodView
from inference_operator.observed.samples import Asked, RouterSample, Watched, together, watched
from inference_operator.reconcile.samples import SampleStore
from inference_operator.resources.names import ENGINE, ROUTER
from inference_operator.rollout.watchdog import has_stalled, is_suspect
from inference_operator.router.stats import SAMPLE_PATH, router_sample
from inference_operator.scrape.agenda import CALM_ROUNDS, Agenda
from inference_operator.scrape.fetch import Address, get, post
from inference_operator.settings import Settings

WORKERS = 32
"""InferenceDeployments that are looked at at a time; where nothing answers each takes its seconds."""

TICKS = 5
"""How often, in each round, it is looked which are due."""

GAP_ROUNDS = CALM_ROUNDS + 2
"""Rounds without a sample above which nothing is known of what lies between two of them."""

METRICS_PORT = "metrics"
"""How the names of ports begin on which routers show their statistics, one a process."""

API_PORT = "http"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Known:
    """What the scraper reads of the rest of the operator."""

    all: Callable[[], Iterable[Key]]
    pods: Callable[[Key], Sequence[PodView]]


class Looked(Protocol):
    """Is told of each look at a pod."""

    def __call__(self, component: str, *, answered: bool) -> None:
        """A pod of this component was looked at, and has answered or not."""


@dataclass(frozen=True, slots=True)
class Told:
    """Whom the scraper tells."""

    stalled: Callable[[Key], None]
    """An engine stands still: told at each look for as long as it does."""
    stall: Callable[[Key], None]
    """The same, told once for each standstill."""
    look: Looked
    """A pod was looked at."""
    cache: Callable[[Key], None]
    """An engine tells how much its KV cache holds: told once for each start of an engine."""


class Scraper:
    """Feeds the samples.

    Args:
        known: what there is.
        store: where samples go.
        engine: how to read engines, and what to ask them.
        told: whom to tell.
        settings: how often to look, and how long an engine may stand still.
        now: a clock that no one sets, in seconds.
    """

    def __init__(
        self,
        known: Known,
        store: SampleStore,
        engine: Engine,
        told: Told,
        settings: Settings,
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._known = known
        self._store = store
        self._engine = engine
        self._told = told
        self._settings = settings
        self._now = now
        self._agenda = Agenda(settings.scrape_seconds)
        self._queue: asyncio.Queue[Key] = asyncio.Queue()
        self._questions: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Look until cancelled. All tasks are created at once, but for the one of each question."""
        workers = [asyncio.create_task(self._work()) for _ in range(WORKERS)]
        try:
            for tick in itertools.count():
                if tick % (TICKS * CALM_ROUNDS) == 0:
                    self._forget()
                for key in self._agenda.due(self._known.all(), now=self._now()):
                    self._queue.put_nowait(key)
                await asyncio.sleep(self._settings.scrape_seconds / TICKS)
        finally:
            for task in (*workers, *self._questions):
                task.cancel()
            await asyncio.gather(*workers, *self._questions, return_exceptions=True)

    def _forget(self) -> None:
        self._store.forget_all_but(pod.uid for key in self._known.all() for pod in self._known.pods(key))

    async def _work(self) -> None:
        while True:
            key = await self._queue.get()
            urgent, failed = False, True
            try:
                urgent, failed = await self.look(key)
            except Exception:
                log.exception("Cannot look at the metrics of %s", key)
            self._agenda.done(key, now=self._now(), urgent=urgent, failed=failed)

    async def look(self, key: Key) -> tuple[bool, bool]:
        """Look at all pods of a key; returns whether one seems to stand still, and whether nothing has answered."""
        pods = [pod for pod in self._known.pods(key) if pod.ready and not pod.terminating and pod.address]
        routers = [await self._look_at_router(pod) for pod in pods if pod.component == ROUTER]
        seen = together(router for router in routers if router is not None)
        engines = [
            await self._look_at_engine(key, pod, seen.sessions.get(pod.address, 0))
            for pod in pods
            if pod.component == ENGINE
        ]
        answers = [one for one in (*routers, *engines) if one is not None]
        urgent = any(engine is not None and engine.still_seconds > 0 for engine in engines)
        return urgent, bool(pods) and not answers

    async def _look_at_router(self, pod: PodView) -> RouterSample | None:
        """Look at every process of a router, up to one that does not answer: that makes all of it unknown."""
        ports = [port for name, port in pod.ports.items() if name.startswith(METRICS_PORT)]
        known: list[RouterSample] = []
        for port in ports:
            text = await get(Address(pod.address, port), SAMPLE_PATH)
            sample = router_sample(text) if text is not None else None
            if sample is None:
                break
            known.append(sample)
        complete = bool(ports) and len(known) == len(ports)
        self._told.look(ROUTER, answered=complete)
        if not complete:
            self._store.miss(pod.uid)
            return None
        seen = together(known)
        self._store.see_router(pod.uid, seen)
        return seen

    async def _look_at_engine(self, key: Key, pod: PodView, sessions: int) -> Watched | None:
        text = await get(_api(pod), METRICS_PATH)
        sample = self._engine.sample(text) if text is not None else None
        self._told.look(ENGINE, answered=sample is not None)
        if sample is None:
            self._store.miss(pod.uid)
            return None
        settings, before = self._settings, self._store.engine(pod.uid)
        gap = GAP_ROUNDS * settings.scrape_seconds
        seen = watched(before, sample, sessions=sessions, at=self._now(), longest_gap=gap)
        if is_suspect(seen, stall_seconds=settings.stall_seconds):
            seen = seen.asked_now()
            task = asyncio.create_task(self._ask(pod, seen))
            self._questions.add(task)
            task.add_done_callback(self._questions.discard)
        self._store.see_engine(pod.uid, seen)
        known_tokens = before.sample.kv_cache_tokens if before else None
        if sample.kv_cache_tokens not in (None, known_tokens):
            self._told.cache(key)
        if has_stalled(seen, stall_seconds=settings.stall_seconds):
            if before is None or not has_stalled(before, stall_seconds=settings.stall_seconds):
                self._told.stall(key)
            self._told.stalled(key)
        return seen

    async def _ask(self, pod: PodView, about: Watched) -> None:
        """Ask an engine for the least that it can compute, and remember what comes of it."""
        question = self._engine.question(about.sample.model)
        try:
            status = await post(_api(pod), question.path, question.body, seconds=self._settings.stall_seconds)
        except TimeoutError:
            return  # it has not answered, which is what is remembered
        now = self._store.engine(pod.uid)
        if now is None or now.asked_at != about.asked_at or now.asked is not Asked.WAITING:
            return
        if status == HTTPStatus.OK:
            now = now.alive(self._now())
        else:
            now = replace(now, asked=Asked.NOT if status is None else Asked.UNFIT)
        self._store.correct(pod.uid, now)


def _api(pod: PodView) -> Address:
    return Address(pod.address, pod.ports.get(API_PORT, 0))
