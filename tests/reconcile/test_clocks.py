"""Processes whose clocks differ by an hour take turns: nothing of what becomes depends on whose clock it is."""

from datetime import timedelta

import pytest

from tests.builders import ENGINES, NOW, ROUTERS
from tests.reconcile.test_invariants import LIFE, calm, persist
from tests.reconcile.virtual_time import run
from tests.reconcile.world import World

HOUR = timedelta(hours=1)


@pytest.mark.parametrize("skew", [HOUR, -HOUR])
def test_a_life_under_clocks_that_differ_ends_as_under_one(skew: timedelta) -> None:
    wanted = calm()

    async def live() -> None:
        world = World()
        for number, step in enumerate(LIFE):
            world.now = NOW + (skew if number % 2 else timedelta(0))
            await world.restart()
            await step(world)
        assert world.children() == wanted.children
        assert world.conditions() == wanted.conditions

    run(live())


@pytest.mark.parametrize("skew", [HOUR, -HOUR])
def test_who_takes_over_with_another_clock_writes_nothing(skew: timedelta) -> None:
    async def live() -> None:
        world = World()
        for step in LIFE[:2]:
            await step(world)
        before = [world.live(ref)["metadata"]["generation"] for ref in (ENGINES, ROUTERS)]
        status, writes = world.status(), len(world.cluster.writes)
        for moved in (skew, timedelta(0)):
            world.now = NOW + moved
            await world.restart()
            await persist(world)
        assert len(world.cluster.writes) == writes
        assert world.status() == status
        assert [world.live(ref)["metadata"]["generation"] for ref in (ENGINES, ROUTERS)] == before

    run(live())
