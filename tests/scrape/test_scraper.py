"""Scrapes of HTTP servers on loopback, with a simulated clock."""

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from pathlib import Path

import pytest

from inference_operator.controller.sample_store import SampleStore
from inference_operator.engines.base import Engine
from inference_operator.engines.process import ProbeRequest
from inference_operator.engines.telemetry import MetricsPage
from inference_operator.engines.vllm.vllm import Vllm
from inference_operator.manifest import Key
from inference_operator.objects.names import ENGINE, ROUTER
from inference_operator.scrape.pod_client import MAX_BODY_BYTES, Address, PodClient
from inference_operator.scrape.schedule import Intervals, Pace, Schedule
from inference_operator.scrape.scraper import ENGINES, WORKERS, Callbacks, Scraper, Targets
from inference_operator.settings import Settings
from inference_operator.views.pod import ADAPTERS_PORT, PodView
from inference_operator.views.samples import REPORT_PATH, AdapterReport, ProbeState, RouterSample, Samples
from inference_operator.workload.eviction.stall import has_responded, has_stalled
from tests.scrape.pods import IDLE, LOADED, STATISTICS, answering, engine, engines_among, router
from tests.testing.engine_groups import grouped

KEY = Key("default", "qwen")
SETTINGS = Settings()
PROBE_SECONDS = 60.0
ROUNDS = 200
"""Rounds of the event loop in which a probe request gets to its server, which is in the same loop: no time that passes
too fast on a busy machine."""
STALL, NO_PROGRESS = SETTINGS.stall_seconds, SETTINGS.no_progress_seconds


VLLM = Vllm()


@dataclass(frozen=True, slots=True)
class Elsewhere(Vllm):
    """An engine whose metrics have a port and a path of their own, or that serves none."""

    metrics_page: MetricsPage | None = None  # type: ignore[assignment]


class Unprobed(Vllm):
    """An engine without a request that only a computing engine answers."""

    def probe_request(self, model: str) -> ProbeRequest | None:  # noqa: ARG002 - protocol
        return None


@dataclass(slots=True)
class Hands:
    """A scraper with the pods, clock, store and callbacks of a test."""

    pods: Sequence[PodView] = ()
    kind: Engine = VLLM
    now: float = 0.0
    store: SampleStore = field(default_factory=SampleStore)
    stalled: list[Key] = field(default_factory=list)
    without_progress: list[Key] = field(default_factory=list)
    stalls: list[Key] = field(default_factory=list)
    scrapes: list[tuple[str, bool]] = field(default_factory=list)
    rooms: list[Key] = field(default_factory=list)
    readable: list[Key] = field(default_factory=list)
    scaling: list[Key] = field(default_factory=list)
    scraper: Scraper = field(init=False)

    adapters: list[Key] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.scraper = Scraper(self.targets, self.store, self.callbacks, SETTINGS, now=lambda: self.now)

    @property
    def targets(self) -> Targets:
        return Targets(lambda: [KEY], lambda _: self.pods, lambda _: engines_among(self.pods), self.engine_of)

    def engine_of(self, _key: Key, pod: PodView) -> Engine | None:
        return self.kind if pod.component == ENGINE else None

    @property
    def callbacks(self) -> Callbacks:
        return Callbacks(
            on_stalled=self.stalled.append,
            on_no_progress=self.without_progress.append,
            on_stall=self.stalls.append,
            on_scrape=self.on_scrape,
            on_room=self.rooms.append,
            on_readable=self.readable.append,
            on_scaling=self.scaling.append,
            on_adapters=self.adapters.append,
        )

    def on_scrape(self, component: str, *, answered: bool) -> None:
        self.scrapes.append((component, answered))

    async def scrape(self, *components: str, at: float = 0.0) -> Samples:
        """Scrape these components, or all."""
        self.now = at
        await self.scraper.scrape(KEY, components or (ROUTER, ENGINES))
        for _ in range(ROUNDS):
            await asyncio.sleep(0)
        return self.store.of(self.pods)

    async def scrape_until(self, at: float) -> Samples:
        """Scrape every `scrapeSeconds` from now on."""
        while self.now < at:
            await self.scrape(at=min(at, self.now + SETTINGS.scrape_seconds))
        return self.store.of(self.pods)


@pytest.fixture
async def hands() -> AsyncIterator[Hands]:
    hands = Hands()
    yield hands
    await hands.scraper.close()


async def test_samples_of_engines_and_routers_are_stored(hands: Hands) -> None:
    async with answering() as served, answering(STATISTICS.format(sessions=3)) as routed:
        hands.pods = [engine(served), router(routed)]
        seen = await hands.scrape()
    assert seen.routers == {"uid-router": RouterSample({"127.0.0.1": 3}, 0, 0, 9)}
    assert seen.engines["uid-engine"].sessions == 3
    assert seen.engines["uid-engine"].sample.waiting == 8
    assert sorted(hands.scrapes) == [("engine", True), ("router", True)]


async def test_of_an_engine_with_two_pods_only_the_leader_is_scraped(hands: Hands) -> None:
    async with answering() as leads, answering() as works:
        leader, worker = grouped(engine(leads), 2)
        hands.pods = [leader, replace(worker, address="127.0.0.1", ports={"http": works.port})]
        seen = await hands.scrape()
        assert (leads.scrapes, works.scrapes) == (1, 0)
        assert list(seen.engines) == ["uid-engine"]
        hands.pods = [leader, replace(hands.pods[1], ready=False)]
        await hands.scrape()
        assert leads.scrapes == 1, "without its worker it serves nothing"


async def test_the_size_of_a_kv_cache_is_reported_once_for_each_start_of_the_engine(hands: Hands) -> None:
    async with answering() as served:
        hands.pods = [engine(served)]
        await hands.scrape(at=0)
        seen = await hands.scrape(at=15)
        assert seen.engines["uid-engine"].sample.kv_cache_tokens == 2_097_152
        assert hands.rooms == [KEY]
        served.text = LOADED.replace('kv_cache_size_tokens="2097152"', 'kv_cache_size_tokens="1048576"')
        await hands.scrape(at=30)
        assert hands.rooms == [KEY, KEY]
        served.text = LOADED.replace('kv_cache_size_tokens="2097152"', "")
        await hands.scrape(at=45)
    assert hands.rooms == [KEY, KEY]


async def test_lengths_of_requests_are_reported_once_there_are_enough(hands: Hands) -> None:
    fewer = 'vllm:request_prompt_tokens_count{engine="0",model_name="tiny"} 2.0'
    assert fewer in LOADED
    async with answering() as served:
        hands.pods = [engine(served)]
        await hands.scrape(at=0)
        hands.rooms.clear()
        for at, requests in ((15, 199), (30, 200), (45, 350)):
            served.text = LOADED.replace(fewer, fewer.replace(" 2.0", f" {requests}"))
            await hands.scrape(at=at)
    assert hands.rooms == [KEY]


async def test_what_an_engine_tells_of_its_adapters_is_stored_and_told_once(hands: Hands) -> None:
    told = '{"list": "12", "loaded": {"sql": "/x"}, "failed": {}}'
    async with answering() as served, answering(told, path=REPORT_PATH) as loader:
        pod = engine(served)
        hands.pods = [replace(pod, ports={**pod.ports, ADAPTERS_PORT: loader.port})]
        seen = await hands.scrape()
        await hands.scrape(at=15)
        assert seen.adapters == {"uid-engine": AdapterReport("12", {"sql": "/x"})}
        assert hands.adapters == [KEY]
        loader.text = "no JSON"
        assert (await hands.scrape(at=30)).adapters == seen.adapters, "one answer that is lost takes no adapter away"
    assert hands.adapters == [KEY]


async def test_a_routers_sample_sums_its_processes_and_is_missing_if_one_does_not_answer(hands: Hands) -> None:
    async with answering(STATISTICS.format(sessions=3)) as one, answering(STATISTICS.format(sessions=4)) as other:
        hands.pods = [router(one, other)]
        assert (await hands.scrape()).routers["uid-router"].sessions == {"127.0.0.1": 7}
        other.text = "out of order"
        assert (await hands.scrape()).routers == {}
        one.text = "out of order"
        assert (await hands.scrape()).routers == {}
    assert hands.scrapes == [("router", True), ("router", False), ("router", False)]
    assert (one.scrapes, other.scrapes) == (3, 2), "the first that does not answer ends the scrape"


async def test_a_router_without_a_metrics_port_is_missing_and_not_idle(hands: Hands) -> None:
    hands.pods = [router()]
    assert (await hands.scrape()).routers == {}


async def test_pods_that_are_not_ready_or_terminating_are_not_scraped(hands: Hands) -> None:
    async with answering() as served:
        hands.pods = [engine(served, "a", ready=False), engine(served, "b", terminating=True)]
        await hands.scrape()
    assert served.scrapes == 0


async def test_an_engine_without_progress_that_does_not_answer_a_probe_request_is_stalled(
    hands: Hands,
) -> None:
    async with answering(hangs=True) as served:
        hands.pods = [engine(served)]
        await hands.scrape()
        await hands.scrape_until(NO_PROGRESS / 2 - 1)
        assert served.probe_requests == []
        await hands.scrape_until(NO_PROGRESS - 1)
        assert served.probe_requests == [{"model": "tiny", "prompt": "1", "max_tokens": 1}]
        assert hands.stalled == []
        await hands.scrape_until(STALL - 1)
        assert (hands.without_progress, set(hands.stalled), hands.stalls) == ([KEY], {KEY}, [])
        await hands.scrape_until(STALL + 2 * SETTINGS.scrape_seconds)
    assert len(served.probe_requests) == 1
    assert (hands.without_progress, hands.stalls) == ([KEY], [KEY])


async def test_an_engine_that_asks_for_a_key_is_scraped_and_found_if_it_hangs(hands: Hands, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("a" * 64)
    async with answering(hangs=True, key_file=str(tmp_path / "key")) as served:
        hands.pods = [engine(served)]
        await hands.scrape()
        await hands.scrape_until(STALL + 2 * SETTINGS.scrape_seconds)
        assert served.probe_requests
    assert (hands.without_progress, hands.stalls, served.refused) == ([KEY], [KEY], [])
    assert set(hands.scrapes) == {(ENGINE, True)}


async def test_an_engine_that_asks_for_a_key_answers_the_probe_request_of_the_operator(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("a" * 64)
    request = Vllm().probe_request("tiny")
    assert request
    async with answering(key_file=str(tmp_path / "key")) as served, aclosing(PodClient()) as client:
        there = Address("127.0.0.1", served.port)
        assert await client.post(there, request.path, request.body, seconds=PROBE_SECONDS) == HTTPStatus.OK
        assert await client.post(there, request.path, {**request.body, "n": 2}, seconds=PROBE_SECONDS) == 401
    assert served.refused == [request.path]


async def test_a_session_whose_client_sends_no_request_does_not_make_an_engine_stalled(hands: Hands) -> None:
    async with answering(IDLE) as served, answering(STATISTICS.format(sessions=1)) as routed:
        hands.pods = [engine(served), router(routed)]
        await hands.scrape()
        await hands.scrape_until(3 * STALL)
    assert len(served.probe_requests) >= 1, "it has answered a probe request"
    assert (hands.without_progress, hands.stalls) == ([], [])


async def test_an_engine_that_hung_while_idle_is_stalled_once_a_router_uses_it(hands: Hands) -> None:
    async with answering(IDLE, hangs=True) as served, answering(STATISTICS.format(sessions=0)) as routed:
        hands.pods = [engine(served), router(routed)]
        await hands.scrape()
        await hands.scrape_until(2 * STALL)
        assert served.probe_requests == []
        routed.text = STATISTICS.format(sessions=1)
        used = hands.now
        await hands.scrape_until(used + STALL + 2 * SETTINGS.scrape_seconds)
    assert hands.stalls == [KEY]


@pytest.mark.parametrize(("age", "sessions"), [(0, 3), (SETTINGS.scrape_seconds, 3), (SETTINGS.scrape_seconds + 1, 0)])
async def test_an_engine_counts_the_sessions_of_routers_only_while_their_sample_is_fresh(
    hands: Hands, age: float, sessions: int
) -> None:
    async with answering(IDLE) as served, answering(STATISTICS.format(sessions=3)) as routed:
        hands.pods = [engine(served), router(routed)]
        await hands.scrape(ROUTER, at=0)
        seen = await hands.scrape(ENGINES, at=age)
    assert seen.engines["uid-engine"].sessions == sessions
    assert (served.scrapes, routed.scrapes) == (1, 1)


async def test_routers_and_engines_are_scraped_at_their_own_intervals(hands: Hands) -> None:
    intervals = {ROUTER: Intervals(0.05, 0.05, 0.05), ENGINES: Intervals(0.4, 0.4, 0.4)}
    async with answering(IDLE) as served, answering(STATISTICS.format(sessions=0)) as routed:
        hands.pods = [engine(served), router(routed)]
        fast = SETTINGS.model_copy(update={"scrape_seconds": 0.05})
        scraper = Scraper(hands.targets, hands.store, hands.callbacks, fast, intervals=intervals)
        task = asyncio.create_task(scraper.run())
        while hands.scrapes.count((ENGINE, True)) < 3:  # noqa: ASYNC110 - the callback sets no event
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert hands.scrapes.count((ROUTER, True)) >= 6, "eight times as often; a slow machine scrapes less"
    assert len(routed.clients) == 1, "kept, as the next scrape follows soon"


@pytest.mark.parametrize(("text", "stalls"), [(LOADED, [KEY]), (IDLE, [])])
async def test_an_engine_that_rejects_probe_requests_is_stalled_by_its_own_metrics(
    hands: Hands, text: str, stalls: list[Key]
) -> None:
    async with answering(text, status=404) as served, answering(STATISTICS.format(sessions=1)) as routed:
        hands.pods = [engine(served), router(routed)]
        await hands.scrape()
        await hands.scrape_until(STALL + SETTINGS.scrape_seconds)
    assert hands.stalls == stalls
    assert len(served.probe_requests) == 1


async def test_an_engine_is_not_stalled_while_its_metrics_are_missing(hands: Hands) -> None:
    async with answering(hangs=True) as served:
        hands.pods = [engine(served)]
        await hands.scrape()
        await hands.scrape_until(STALL - 1)
        served.text = ""
        hands.stalled.clear()
        seen = await hands.scrape(at=STALL + 1)
        assert (seen.engines, hands.stalled) == ({}, [])
        served.text = LOADED
        seen = await hands.scrape(at=STALL + 16)
        assert has_stalled(seen.engines["uid-engine"], seconds=STALL), "one failed scrape forgets nothing"


async def test_a_pod_without_a_listener_on_its_port_is_missing(hands: Hands) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    async with answering() as served:
        served.port = port
        hands.pods = [engine(served), router(served)]
        assert await hands.scrape() == Samples()
    assert sorted(hands.scrapes) == [("engine", False), ("router", False)]


async def test_an_engine_is_unread_after_two_missing_answers_until_the_next_answer(hands: Hands) -> None:
    async with answering() as served:
        hands.pods = [engine(served)]
        served.text = ""
        seen = [(await hands.scrape(at=15.0 * number)).unread for number in range(4)]
        assert (seen, len(hands.readable)) == ([frozenset(), *[frozenset({"uid-engine"})] * 3], 1)
        served.text = LOADED
        assert ((await hands.scrape(at=60.0)).unread, len(hands.readable)) == (frozenset(), 2)


async def test_an_engine_whose_metrics_are_too_long_is_missing(hands: Hands) -> None:
    async with answering(LOADED + "x" * MAX_BODY_BYTES) as served:
        hands.pods = [engine(served)]
        assert (await hands.scrape()).engines == {}


async def test_samples_of_deleted_pods_are_removed(hands: Hands) -> None:
    async with answering() as served:
        hands.pods = [engine(served)]
        await hands.scrape()
    hands.store.forget_all_but([])
    assert hands.store.engine("uid-engine") is None


async def test_run_scrapes_with_tasks_made_at_its_start_and_ends_when_cancelled(hands: Hands) -> None:
    async with answering(hangs=True) as served:
        hands.pods = [engine(served)]
        settings = Settings(scrape_seconds=1.0)
        scraper = Scraper(hands.targets, hands.store, hands.callbacks, settings)
        task = asyncio.create_task(scraper.run())
        await asyncio.sleep(0)
        first_tasks = asyncio.all_tasks()
        while not hands.scrapes:  # noqa: ASYNC110 - the callback sets no event
            await asyncio.sleep(0.01)
        assert len(first_tasks) > WORKERS, "kopf would take later ones for its own"
        assert not [task for task in asyncio.all_tasks() - first_tasks if "inference_operator/scrape" in repr(task)]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    seen = hands.store.engine("uid-engine")
    assert seen is not None
    assert seen.probe is ProbeState.NOT_SENT


async def test_unresponsive_routers_are_scraped_without_backoff_while_an_engine_may_have_stalled(hands: Hands) -> None:
    async with answering(LOADED) as served, answering("no statistics") as routed:
        hands.pods = [engine(served), router(routed)]
        calm = await hands.scraper.scrape(KEY, (ROUTER, ENGINES))
        hands.now += SETTINGS.scrape_seconds
        stalling = await hands.scraper.scrape(KEY, (ROUTER, ENGINES))
    assert (calm.pace, list(calm.failed)) == (Pace.CALM, [ROUTER])
    assert (stalling.pace, list(stalling.failed)) == (Pace.URGENT, [])


@pytest.mark.parametrize(
    ("text", "sessions", "engines", "pace"),
    [
        (LOADED, 0, 2, Pace.BUSY),
        (LOADED, 0, 1, Pace.CALM),
        (IDLE, 0, 2, Pace.CALM),
        (IDLE, 1, 1, Pace.URGENT),
    ],
    ids=["two busy engines", "a single busy engine", "idle engines", "requests that only a router counts"],
)
async def test_the_pace_of_scrapes_follows_from_the_requests_of_engines(
    hands: Hands, text: str, sessions: int, engines: int, pace: Pace
) -> None:
    async with answering(text) as served, answering(STATISTICS.format(sessions=sessions)) as routed:
        hands.pods = [router(routed), *(engine(served, str(number)) for number in range(engines))]
        assert (await hands.scraper.scrape(KEY)).pace is pace


async def test_routers_are_scraped_often_while_one_engine_has_requests_and_another_has_none(hands: Hands) -> None:
    async with answering(LOADED) as busy, answering(IDLE) as idle, answering(STATISTICS.format(sessions=0)) as routed:
        hands.pods = [router(routed), engine(busy, "busy"), engine(idle, "idle")]
        scraped = await hands.scraper.scrape(KEY)
    assert (scraped.pace, scraped.pods) == (Pace.UNEVEN, 3), "all pods count for the bound on scrapes per second"


async def test_an_engine_out_of_traffic_is_asked_at_once_and_its_response_is_reported(hands: Hands) -> None:
    """As after a change of the leader: nothing is known of it, and it has no requests."""
    async with answering(IDLE, hangs=True) as served:
        hands.pods = [replace(engine(served), traffic=False)]
        assert (await hands.scraper.scrape(KEY)).pace is Pace.URGENT
        seen = await hands.scrape_until(NO_PROGRESS)
        assert has_stalled(seen.engines["uid-engine"], seconds=NO_PROGRESS)
        assert not has_responded(seen.engines["uid-engine"], seconds=NO_PROGRESS)
        hands.stalled.clear()
        served.released.set()
        while not hands.stalled:  # noqa: ASYNC110 - the callback sets no event
            await asyncio.sleep(0.01)
        seen = hands.store.of(hands.pods)
        assert has_responded(seen.engines["uid-engine"], seconds=NO_PROGRESS)
    assert len(served.probe_requests) == 1


async def test_an_engine_out_of_traffic_is_asked_again_after_a_timeout(hands: Hands) -> None:
    brief = SETTINGS.model_copy(update={"stall_seconds": 0.05})
    async with answering(IDLE, hangs=True) as served:
        hands.pods = [replace(engine(served), traffic=False)]
        scraper = Scraper(hands.targets, hands.store, hands.callbacks, brief, now=lambda: hands.now)
        await scraper.scrape(KEY)
        while len(served.probe_requests) < 3:  # noqa: ASYNC110 - the server sets no event
            await asyncio.sleep(0.01)
        hands.store.forget_all_but([])
        await asyncio.sleep(0.1)
        asked = len(served.probe_requests)
        await asyncio.sleep(0.1)
        assert len(served.probe_requests) == asked, "a pod that is gone is not asked"
        await scraper.close()


async def test_the_demand_of_an_engine_without_metrics_comes_from_the_routers(hands: Hands) -> None:
    hands.kind = Elsewhere()
    async with answering() as served, answering(STATISTICS.format(sessions=3)) as routed:
        hands.pods = [engine(served), router(routed)]
        seen = await hands.scrape()
        assert (seen.engines["uid-engine"].sample.running, seen.engines["uid-engine"].outstanding) == (3, 3)
        assert (served.scrapes, hands.scrapes) == (0, [(ROUTER, True)])
        seen = await hands.scrape_until(at=2 * STALL)
        assert not has_stalled(seen.engines["uid-engine"], seconds=NO_PROGRESS), "nobody knows whether it progresses"
        assert (served.probe_requests, hands.stalled, seen.unread) == ([], [], frozenset())


async def test_an_engine_with_two_pods_and_without_metrics_has_the_requests_of_its_leader(hands: Hands) -> None:
    hands.kind = Elsewhere()
    async with answering() as served, answering(STATISTICS.format(sessions=3)) as routed:
        hands.pods = [*grouped(engine(served), 2), router(routed)]
        seen = await hands.scrape()
    assert {uid: one.outstanding for uid, one in seen.engines.items()} == {"uid-engine": 3}


async def test_without_routers_nothing_is_known_of_an_engine_without_metrics(hands: Hands) -> None:
    hands.kind = Elsewhere()
    async with answering() as served:
        hands.pods = [engine(served)]
        seen = await hands.scrape()
        assert (seen.engines, seen.unread, hands.scrapes) == ({}, frozenset(), [])


async def test_metrics_are_read_from_the_path_and_port_that_the_engine_names(hands: Hands) -> None:
    async with answering() as served, answering(path="/prometheus/metrics") as apart:
        hands.kind = Elsewhere(metrics_page=MetricsPage("/prometheus/metrics", apart.port))
        hands.pods = [engine(served)]
        seen = await hands.scrape(ENGINES)
        assert seen.engines["uid-engine"].sample.running == 2
        assert (served.scrapes, apart.scrapes) == (0, 1)


async def test_an_engine_without_a_probe_request_is_stalled_by_its_own_metrics(hands: Hands) -> None:
    hands.kind = Unprobed()
    async with answering() as served:
        hands.pods = [engine(served)]
        seen = await hands.scrape_until(at=STALL + 2 * SETTINGS.scrape_seconds)
    assert has_stalled(seen.engines["uid-engine"], seconds=STALL)
    assert (served.probe_requests, hands.stalls) == ([], [KEY])


@pytest.mark.parametrize(("idle_seconds", "clients"), [(5.0, 2), (3600.0, 1)])
async def test_no_connection_is_kept_for_longer_than_the_engine_keeps_it(
    hands: Hands, idle_seconds: float, clients: int
) -> None:
    hands.kind = Elsewhere(metrics_page=MetricsPage(idle_seconds=idle_seconds))
    async with answering() as served, answering() as other:
        hands.pods = [engine(served, "a"), engine(other, "b")]
        await hands.scrape(ENGINES)  # two busy engines are read again soon
        served.clients.clear()
        await hands.scrape(ENGINES)
        await hands.scrape(ENGINES)
    assert len(served.clients) == clients


async def test_the_loop_ends_with_the_error_of_a_worker(hands: Hands, monkeypatch: pytest.MonkeyPatch) -> None:
    fast = SETTINGS.model_copy(update={"scrape_seconds": 0.05})
    intervals = {ROUTER: Intervals(0.02, 0.02, 0.02), ENGINES: Intervals(0.02, 0.02, 0.02)}
    scraper = Scraper(hands.targets, hands.store, hands.callbacks, fast, intervals=intervals)

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Schedule, "done", broken)
    with pytest.raises(ZeroDivisionError):
        await asyncio.wait_for(scraper.run(), 30)
