from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from inference_operator.manifest import Manifest, Ref
from tests.controller.virtual_time import run
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


@dataclass(frozen=True, slots=True)
class Reference:
    """The final state without faults."""

    children: Mapping[Ref, Manifest]
    conditions: Mapping[str, tuple[str, str]]


@pytest.fixture(scope="session")
def reference() -> Reference:
    async def live() -> Reference:
        world = World()
        world.ask()
        await world.settle()
        return Reference(world.children(), world.conditions())

    return run(live())
