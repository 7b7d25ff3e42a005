"""The reconciler records Events only after it has written a status."""

from inference_operator.api.resource import Resource
from inference_operator.controller.reconciler import Reconciler
from inference_operator.status.events import Event
from tests.controller.world import World
from tests.testing.builders import KEY


async def test_a_first_start_records_its_steps_once_each_and_a_restart_records_none(world: World) -> None:
    told: list[str] = []

    def tell(_: Resource, events: list[Event]) -> None:
        told.extend(event.reason for event in events)

    world.reconciler = Reconciler(world.cluster, world.cache, lambda: world.now, tell)  # type: ignore[arg-type]
    world.ask()
    await world.settle()
    assert told == ["Starting"]
    world.pods_are_ready()
    await world.settle()
    assert told == ["Starting", "Serving"]
    await world.settle()
    await world.list_all()
    world.reconciler = Reconciler(world.cluster, world.cache, lambda: world.now, tell)  # type: ignore[arg-type]
    await world.reconciler.reconcile(KEY)
    assert told == ["Starting", "Serving"]
