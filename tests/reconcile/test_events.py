"""Events as the recipe tells them: with a status that was written, and never without."""

from inference_operator.api.resource import Resource
from inference_operator.reconcile.recipe import Reconciler
from inference_operator.status.events import Event
from tests.builders import KEY
from tests.reconcile.world import World


async def test_a_start_tells_one_event_and_a_restart_none(world: World) -> None:
    told: list[str] = []

    def tell(_: Resource, events: list[Event]) -> None:
        told.extend(event.reason for event in events)

    world.reconciler = Reconciler(world.cluster, world.cache, lambda: world.now, tell)  # type: ignore[arg-type]
    world.ask()
    await world.settle()
    assert told == []
    world.pods_are_ready()
    await world.settle()
    assert told == ["Serving"]
    await world.settle()
    await world.list_all()
    world.reconciler = Reconciler(world.cluster, world.cache, lambda: world.now, tell)  # type: ignore[arg-type]
    await world.reconciler.reconcile(KEY)
    assert told == ["Serving"]
