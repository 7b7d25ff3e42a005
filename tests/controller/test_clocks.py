"""Processes whose clocks differ by an hour take turns; the final state does not depend on the clock."""

from datetime import timedelta

import pytest

from tests.controller.test_invariants import LIFE, calm, persist
from tests.controller.virtual_time import run
from tests.controller.world import World
from tests.testing.builders import ENGINES, NOW, ROUTERS

HOUR = timedelta(hours=1)


@pytest.mark.parametrize("skew", [HOUR, -HOUR])
def test_processes_with_different_clocks_end_with_the_same_children(skew: timedelta) -> None:
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
def test_a_new_leader_with_another_clock_writes_nothing(skew: timedelta) -> None:
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
