"""Looks at servers that answer over HTTP; only the clock is the test's."""

import asyncio
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from inference_operator.engines.vllm.vllm import Vllm
from inference_operator.manifest import Key
from inference_operator.observed.pod import PodView
from inference_operator.observed.samples import Asked, RouterSample, Samples
from inference_operator.reconcile.samples import SampleStore
from inference_operator.rollout.watchdog import has_stalled
from inference_operator.scrape.fetch import MOST_BYTES
from inference_operator.scrape.scraper import WORKERS, Known, Scraper, Told
from inference_operator.settings import Settings
from tests.scrape.pods import IDLE, LOADED, STATISTICS, answering, engine, router

KEY = Key("default", "qwen")
SETTINGS = Settings()
STALL = SETTINGS.stall_seconds


@dataclass(slots=True)
class Hands:
    """The test's hands on a scraper."""

    pods: Sequence[PodView] = ()
    now: float = 0.0
    store: SampleStore = field(default_factory=SampleStore)
    stalled: list[Key] = field(default_factory=list)
    stalls: list[Key] = field(default_factory=list)
    looks: list[tuple[str, bool]] = field(default_factory=list)
    caches: list[Key] = field(default_factory=list)
    scraper: Scraper = field(init=False)

    def __post_init__(self) -> None:
        told = Told(stalled=self.stalled.append, stall=self.stalls.append, look=self.looked, cache=self.caches.append)
        known = Known(lambda: [KEY], lambda _: self.pods)
        self.scraper = Scraper(known, self.store, Vllm(), told, SETTINGS, now=lambda: self.now)

    def looked(self, component: str, *, answered: bool) -> None:
        self.looks.append((component, answered))

    async def look(self, *, at: float = 0.0) -> Samples:
        self.now = at
        await self.scraper.look(KEY)
        await asyncio.sleep(0.01)  # lets a question get through to its server, on this very loop
        return self.store.of(self.pods)

    async def look_until(self, at: float) -> Samples:
        """Look every round from now on."""
        while self.now < at:
            await self.look(at=min(at, self.now + SETTINGS.scrape_seconds))
        return self.store.of(self.pods)


@pytest.fixture
def hands() -> Hands:
    return Hands()


async def test_engines_and_routers_are_read(hands: Hands) -> None:
    async with answering() as served, answering(STATISTICS.format(sessions=3)) as routed:
        hands.pods = [engine(served), router(routed)]
        seen = await hands.look()
    assert seen.routers == {"uid-router": RouterSample({"127.0.0.1": 3}, 0, 0)}
    assert seen.engines["uid-engine"].sessions == 3
    assert seen.engines["uid-engine"].sample.waiting == 8
    assert sorted(hands.looks) == [("engine", True), ("router", True)]


async def test_how_much_a_cache_holds_is_told_once_for_each_start(hands: Hands) -> None:
    async with answering() as served:
        hands.pods = [engine(served)]
        await hands.look(at=0)
        seen = await hands.look(at=15)
        assert seen.engines["uid-engine"].sample.kv_cache_tokens == 2_097_152
        assert hands.caches == [KEY]
        served.text = LOADED.replace('kv_cache_size_tokens="2097152"', 'kv_cache_size_tokens="1048576"')
        await hands.look(at=30)
        assert hands.caches == [KEY, KEY]
        served.text = LOADED.replace('kv_cache_size_tokens="2097152"', "")
        await hands.look(at=45)
    assert hands.caches == [KEY, KEY]


async def test_all_processes_of_a_router_count_and_none_may_be_missing(hands: Hands) -> None:
    async with answering(STATISTICS.format(sessions=3)) as one, answering(STATISTICS.format(sessions=4)) as other:
        hands.pods = [router(one, other)]
        assert (await hands.look()).routers["uid-router"].sessions == {"127.0.0.1": 7}
        other.text = "out of order"
        assert (await hands.look()).routers == {}
        one.text = "out of order"
        assert (await hands.look()).routers == {}
    assert hands.looks == [("router", True), ("router", False), ("router", False)]
    assert (one.looks, other.looks) == (3, 2), "what one does not tell the others cannot"


async def test_a_router_without_a_port_for_it_is_missing_not_idle(hands: Hands) -> None:
    hands.pods = [router()]
    assert (await hands.look()).routers == {}


async def test_what_loads_or_goes_is_left_alone(hands: Hands) -> None:
    async with answering() as served:
        hands.pods = [engine(served, "a", ready=False), engine(served, "b", terminating=True)]
        await hands.look()
    assert served.looks == 0


async def test_an_engine_that_stands_still_and_owes_an_answer_is_told_once_and_looked_at_each_time(
    hands: Hands,
) -> None:
    async with answering(hangs=True) as served:
        hands.pods = [engine(served)]
        await hands.look()
        await hands.look_until(STALL / 2 - 1)
        assert served.asked == []
        await hands.look_until(STALL - 1)
        assert served.asked == [{"model": "tiny", "prompt": "1", "max_tokens": 1}]
        assert hands.stalled == []
        await hands.look_until(STALL + 2 * SETTINGS.scrape_seconds)
    assert len(served.asked) == 1
    assert hands.stalls == [KEY]
    assert set(hands.stalled) == {KEY}


async def test_a_client_that_does_not_send_its_request_is_no_standstill(hands: Hands) -> None:
    async with answering(IDLE) as served, answering(STATISTICS.format(sessions=1)) as routed:
        hands.pods = [engine(served), router(routed)]
        await hands.look()
        await hands.look_until(3 * STALL)
    assert len(served.asked) >= 1, "it has been asked, and has answered"
    assert hands.stalled == []


async def test_an_engine_that_hung_while_idle_stands_still_once_it_is_used(hands: Hands) -> None:
    async with answering(IDLE, hangs=True) as served, answering(STATISTICS.format(sessions=0)) as routed:
        hands.pods = [engine(served), router(routed)]
        await hands.look()
        await hands.look_until(2 * STALL)
        assert served.asked == []
        routed.text = STATISTICS.format(sessions=1)
        used = hands.now
        await hands.look_until(used + STALL + 2 * SETTINGS.scrape_seconds)
    assert hands.stalls == [KEY]


@pytest.mark.parametrize(("text", "stalls"), [(LOADED, [KEY]), (IDLE, [])])
async def test_an_engine_that_takes_no_question_counts_by_what_it_says_itself(
    hands: Hands, text: str, stalls: list[Key]
) -> None:
    async with answering(text, status=404) as served, answering(STATISTICS.format(sessions=1)) as routed:
        hands.pods = [engine(served), router(routed)]
        await hands.look()
        await hands.look_until(STALL + SETTINGS.scrape_seconds)
    assert hands.stalls == stalls
    assert len(served.asked) == 1


async def test_while_metrics_are_missing_there_is_no_verdict(hands: Hands) -> None:
    async with answering(hangs=True) as served:
        hands.pods = [engine(served)]
        await hands.look()
        await hands.look_until(STALL - 1)
        served.text = ""
        seen = await hands.look(at=STALL + 1)
        assert (seen.engines, hands.stalled) == ({}, [])
        served.text = LOADED
        seen = await hands.look(at=STALL + 16)
        assert has_stalled(seen.engines["uid-engine"], stall_seconds=STALL), "one look that failed forgets nothing"


async def test_what_nobody_listens_on_is_missing(hands: Hands) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    async with answering() as served:
        served.port = port
        hands.pods = [engine(served), router(served)]
        assert await hands.look() == Samples()
    assert sorted(hands.looks) == [("engine", False), ("router", False)]


async def test_an_answer_without_end_is_missing(hands: Hands) -> None:
    async with answering(LOADED + "x" * MOST_BYTES) as served:
        hands.pods = [engine(served)]
        assert (await hands.look()).engines == {}


async def test_pods_that_are_gone_are_forgotten(hands: Hands) -> None:
    async with answering() as served:
        hands.pods = [engine(served)]
        await hands.look()
    hands.store.forget_all_but([])
    assert hands.store.engine("uid-engine") is None


async def test_it_works_by_itself_and_ends_when_told(hands: Hands) -> None:
    async with answering(hangs=True) as served:
        hands.pods = [engine(served)]
        settings = Settings(scrape_seconds=1.0)
        told = Told(
            stalled=hands.stalled.append, stall=hands.stalls.append, look=hands.looked, cache=hands.caches.append
        )
        scraper = Scraper(Known(lambda: [KEY], lambda _: hands.pods), hands.store, Vllm(), told, settings)
        task = asyncio.create_task(scraper.run())
        await asyncio.sleep(0)
        began_with = asyncio.all_tasks()
        while not hands.looks:  # noqa: ASYNC110 - it is told in passing
            await asyncio.sleep(0.01)
        assert len(began_with) > WORKERS, "who stops it waits for no task of a later time"
        assert not [one for one in asyncio.all_tasks() - began_with if "scrape" in repr(one)]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    seen = hands.store.engine("uid-engine")
    assert seen is not None
    assert seen.asked is Asked.NOT
