import pytest

from tests.reconcile.world import World


@pytest.fixture
def world() -> World:
    """A cluster in which nothing has been asked for yet."""
    return World()


@pytest.fixture
async def settled(world: World) -> World:
    """A cluster in which a new InferenceDeployment has all its children, and no pod has started."""
    world.ask()
    await world.settle()
    return world


@pytest.fixture
async def serving(settled: World) -> World:
    """A cluster in which an InferenceDeployment serves."""
    settled.pods_are_ready()
    await settled.settle()
    return settled


@pytest.fixture
async def reference() -> World:
    """What a world without faults comes to."""
    world = World()
    world.ask()
    await world.settle()
    return world
