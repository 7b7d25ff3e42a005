"""When the operator lists: at the start, in intervals, after lost events, and for kinds that are missing."""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

import pytest

from inference_operator.controller.cluster import NotFoundError
from inference_operator.controller.relist_loop import RelistLoop
from inference_operator.manifest import HTTP_ROUTE, INFERENCE_DEPLOYMENT, Kind
from inference_operator.settings import Settings
from tests.controller.guarded import A, B, Scene, asked
from tests.controller.virtual_time import run

INTERVAL, SEARCH = 600.0, 30.0
GONE = NotFoundError("the server could not find the requested resource")


class Looping:
    """The loop of a scene at work, and what it has watched."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.loop = RelistLoop(scene.lister, Settings(resync_seconds=INTERVAL))
        self.watched: list[tuple[Collection[Kind], Collection[str | None]]] = []

    async def revise(self, kinds: Collection[Kind], namespaces: Collection[str | None]) -> None:
        self.watched.append((kinds, namespaces))

    def listings(self, kind: Kind = INFERENCE_DEPLOYMENT) -> int:
        """How often a kind was listed, or tried to be."""
        return sum(tried == kind for tried, _ in self.scene.cluster.tried)


@asynccontextmanager
async def looping(scene: Scene) -> AsyncIterator[Looping]:
    """The loop, after its first listing, until the block ends."""
    at_work = Looping(scene)
    stop = asyncio.Event()
    await at_work.loop.begin(stop)
    scene.cluster.tried.clear()
    work = asyncio.create_task(at_work.loop.work(stop, at_work.revise))
    try:
        yield at_work
    finally:
        work.cancel()
        await asyncio.wait({work})
    assert work.cancelled()
    assert not stop.is_set()


def test_everything_is_listed_in_intervals_and_nothing_between_if_no_kind_is_missing() -> None:
    async def scene() -> None:
        async with looping(Scene()) as at_work:
            await asyncio.sleep(2.5 * INTERVAL)
            assert at_work.listings() == at_work.listings(HTTP_ROUTE) == 2

    run(scene())


def test_a_missing_kind_is_looked_for_every_half_minute_and_watched_when_it_has_come() -> None:
    async def scene() -> None:
        without = Scene()
        without.cluster.routes_error = GONE
        async with looping(without) as at_work:
            await asyncio.sleep(10.5 * SEARCH)
            assert (at_work.listings(HTTP_ROUTE), at_work.listings()) == (10, 0)
            assert all(HTTP_ROUTE not in kinds for kinds, _ in at_work.watched)
            without.cluster.routes_error = None
            await asyncio.sleep(SEARCH)
            kinds, namespaces = at_work.watched[-1]
            assert (HTTP_ROUTE in kinds, namespaces) == (True, {None})
            await asyncio.sleep(INTERVAL / 3)
            assert (at_work.listings(HTTP_ROUTE), at_work.listings()) == (11, 0)

    run(scene())


def test_a_search_of_missing_kinds_delays_no_listing_of_everything() -> None:
    async def scene() -> None:
        without = Scene()
        without.cluster.routes_error = GONE
        async with looping(without) as at_work:
            await asyncio.sleep(3.5 * INTERVAL)
            assert at_work.listings() == 3

    run(scene())


def test_lost_events_are_listed_at_once() -> None:
    async def scene() -> None:
        async with looping(Scene()) as at_work:
            await asyncio.sleep(INTERVAL / 2)
            at_work.loop.on_events_lost()
            await asyncio.sleep(0.01)
            assert at_work.listings() == 1

    run(scene())


def test_events_that_are_lost_all_the_time_are_listed_less_and_less_often() -> None:
    """As while a CustomResourceDefinition comes and goes every second."""

    async def scene() -> None:
        async with looping(Scene()) as at_work:
            for _ in range(3600):
                at_work.loop.on_events_lost()
                await asyncio.sleep(1)
            # In each interval after 0, 1, 3, 7, 15, 31 s, and then every 30 s.
            assert at_work.listings() <= 3600 / INTERVAL * (5 + INTERVAL / 30)
            assert len(at_work.watched) == at_work.listings() + 1

    run(scene())


def test_after_a_listing_in_its_turn_lost_events_are_listed_at_once_again() -> None:
    async def scene() -> None:
        async with looping(Scene()) as at_work:
            for _ in range(4):
                at_work.loop.on_events_lost()
                await asyncio.sleep(30)
            await asyncio.sleep(INTERVAL)
            before = at_work.listings()
            at_work.loop.on_events_lost()
            await asyncio.sleep(0.01)
            assert at_work.listings() == before + 1

    run(scene())


async def never_revised(*_: object) -> None:
    """Watches that nothing changes."""


async def test_a_listing_that_is_older_than_the_one_before_ends_the_process_and_changes_no_cache() -> None:
    """As after a restore of etcd: half of a cache that is replaced kind by kind would plan serving engines anew."""
    scene = Scene()
    backup = scene.cluster.backup()
    scene.cluster.apply_as("kubectl", asked(A, replicas=2))
    assert await scene.lister.list_all()
    scene.added.clear()
    scene.cluster.restore(backup)
    loop, stop = RelistLoop(scene.lister, Settings(resync_seconds=1)), asyncio.Event()
    work = asyncio.create_task(loop.work(stop, never_revised))
    await asyncio.wait_for(stop.wait(), 30)
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    assert scene.lister.history_went_back
    assert scene.added == []
    assert scene.cache.resource_keys() == [A, B]


@pytest.mark.parametrize("steps", range(5))
async def test_a_loop_that_is_cancelled_while_a_watch_loses_events_ends(steps: int) -> None:
    """`wait_for` of Python 3.11 loses a cancellation that comes together with what it waits for."""
    loop = RelistLoop(Scene().lister, Settings())
    work = asyncio.create_task(loop.work(asyncio.Event(), never_revised))
    await asyncio.sleep(0)  # it waits
    await asyncio.sleep(0)
    loop.on_events_lost()
    for _ in range(steps):
        await asyncio.sleep(0)
    work.cancel()
    await asyncio.wait({work}, timeout=5)
    assert work.cancelled()
