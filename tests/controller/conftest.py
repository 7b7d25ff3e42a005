import pytest

from tests.controller.world import World


@pytest.fixture
def world() -> World:
    """A cluster without any InferenceDeployment."""
    return World()


@pytest.fixture
async def settled(world: World) -> World:
    """A cluster with one InferenceDeployment: all its children exist, and no pod has started."""
    world.ask()
    await world.settle()
    return world


@pytest.fixture
async def serving(settled: World) -> World:
    """A cluster with one InferenceDeployment whose pods are ready."""
    settled.pods_are_ready()
    await settled.settle()
    return settled


@pytest.fixture
async def reference() -> World:
    """The final state without faults."""
    world = World()
    world.ask()
    await world.settle()
    return world
