"""Predictions against the reconciler on an in-memory cluster: what is predicted is what is written."""

from collections.abc import Collection
from dataclasses import replace

import pytest

from inference_operator.api.resource import resource
from inference_operator.cli.plan.consequences import HELD, NO_LOSS, UNANSWERED, RoleConsequence, consequences
from inference_operator.cli.plan.prediction import Prediction, prediction
from inference_operator.controller.drift import first_drift
from inference_operator.kube.lookup_poller import look_up
from inference_operator.manifest import INFERENCE_DEPLOYMENT, POD, Manifest, Ref
from inference_operator.pipeline.inputs import Inputs
from inference_operator.views.lookups import Lookup, LookupResult
from tests.controller.group_world import PAIR, GroupWorld
from tests.controller.test_histories import ask, resource_of, served
from tests.controller.test_rollout import change, looked_up, put, put_engine
from tests.controller.world import World
from tests.testing.builders import ENGINES, KEY, ROUTERS, ready_pod
from tests.testing.memory_cluster import Request
from tests.testing.nodes import gpu_pod, node
from tests.testing.random_specs import Specs


@pytest.fixture
async def serving() -> World:
    """A cluster with one InferenceDeployment whose pods are ready."""
    world = World()
    world.ask()
    await world.settle()
    world.pods_are_ready()
    await world.settle()
    return world


EDITS = 40


def observed(world: World, spec: Manifest) -> Inputs:
    """The observations of the operator, with another specification."""
    found = world.cache.inputs(KEY, now=world.now)
    assert found is not None
    edited = resource(resource_of(spec))
    return replace(found, resource=replace(found.resource, spec=edited.spec))


def children_of(writes: Collection[Request]) -> set[tuple[str, Ref]]:
    return {(one.verb, one.ref) for one in writes if one.ref.kind not in (POD, INFERENCE_DEPLOYMENT)}


def told(found: Prediction) -> set[tuple[str, Ref]]:
    return {("apply" if one.desired else "delete", one.ref) for one in found.writes}


@pytest.mark.parametrize("seed", range(EDITS))
async def test_what_is_predicted_for_a_random_edit_is_what_the_operator_writes(seed: int) -> None:
    source, world = Specs(seed), World()
    await ask(world, served(source))
    if world.cluster.peek(ENGINES) and world.cluster.peek(ROUTERS):  # neither groups nor `External`
        world.pods_are_ready()
    await world.settle()
    wanted = source.valid()
    found = prediction(observed(world, wanted))
    world.ask(source="", **{name: value for name, value in wanted.items() if name != "model"}, model=wanted["model"])
    assert told(found) == children_of(await world.settle()), wanted
    for one in found.writes:
        live = world.cluster.peek(one.ref)
        assert (live is None) is (one.desired is None)
        assert first_drift(live, one.desired) is None


async def foretold(world: World, spec: Manifest) -> tuple[Inputs, Prediction]:
    """The observations and the prediction from them, with the lookups that it needs."""
    before, results = observed(world, spec), dict[Lookup, LookupResult]()
    found = prediction(before)
    while found.lookups:
        results |= {look: await look_up(world.cluster, look) for look in found.lookups}
        found = prediction(replace(before, lookups=results))
    return before, found


SEED: Manifest = {"model": {"source": "hf://Qwen/Qwen3-8B"}, "engine": {"args": ["--seed=8"]}, "replicas": 1}


@pytest.mark.parametrize(
    ("engines", "free", "strategy", "most"), [(1, True, "Surge", 2), (1, False, "Surge", 2), (2, False, "Replace", 2)]
)
async def test_the_consequences_of_a_restart_are_those_of_the_rollout_that_follows(
    serving: World, engines: int, strategy: str, most: int, *, free: bool
) -> None:
    serving.ask(replicas=engines)
    await serving.settle()
    for number in range(engines):
        put_engine(serving, f"qwen-engine-{number}", ready_pod())
    put(serving, node("gpu-a", gpus=1))
    if not free:
        put(serving, gpu_pod("foreign", 1, on="gpu-a"))
    await serving.settle()
    before, found = await foretold(serving, {**SEED, "replicas": engines})
    (told_of,) = consequences(before, found).roles
    assert (told_of.restarts, told_of.strategy, told_of.requests) == (engines, strategy, NO_LOSS)
    assert (told_of.gpus_before, told_of.gpus_after, told_of.gpus_most) == (engines, engines, max(most, engines))
    change(serving, replicas=engines)
    assert children_of(await looked_up(serving)) == told(found)


async def test_the_consequences_of_a_restart_of_groups_are_those_of_the_rollout_that_follows() -> None:
    world, edited = GroupWorld(), {**SEED, **PAIR, "replicas": 2}
    world.ask(replicas=2)
    await world.settle()
    world.pods_are_ready()
    await world.settle()
    before, found = await foretold(world, edited)
    (told_of,) = consequences(before, found).roles
    assert (told_of.restarts, told_of.strategy, told_of.requests) == (2, "Surge", NO_LOSS)
    assert (told_of.gpus_before, told_of.gpus_after, told_of.gpus_most) == (4, 4, 6)
    world.ask(replicas=2, engine=SEED["engine"])
    assert children_of(await world.settle()) == told(found)


def consequence(**fields: float | str) -> RoleConsequence:
    """One engine that is replaced."""
    usual: dict[str, object] = {"name": "engine", "engines_before": 1, "engines_after": 1, "gpus_before": 1}
    usual |= {"gpus_after": 1, "gpus_most": 1, "restarts": 1, "strategy": "Replace", "why": "it was asked for"}
    return RoleConsequence(**{**usual, **fields})  # type: ignore[arg-type]  # of a table


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"requests": NO_LOSS, "start_seconds": 90.0}, "No request is lost."),
        ({"requests": HELD, "held_seconds": 300, "start_seconds": 90.0}, "routers hold requests for up to 300 s."),
        ({"requests": UNANSWERED, "held_seconds": 300, "start_seconds": 900.0}, "for a start of 900 s."),
        ({"requests": UNANSWERED, "held_seconds": 300}, "for a start of unknown length."),
        ({"requests": UNANSWERED}, "no router holds requests: they are refused."),
        ({"restarts": 2, "start_seconds": 90.0}, "Time: about 180 s (90 s for each start, as measured)"),
        ({"restarts": 2}, "Time: unknown, because no start of an engine was measured."),
        ({"restarts": 0}, "No engine restarts."),
        ({"restarts": 0, "engines_after": 3, "gpus_after": 3}, "Engines: 1 -> 3.\nGPUs: 1 -> 3."),
        ({"gpus_most": 2, "strategy": "Surge"}, "GPUs: 1 -> 1 (2 while engines are replaced)."),
    ],
)
def test_consequences_are_told_in_sentences(fields: dict[str, float | str], said: str) -> None:
    assert said in "\n".join(consequence(**fields).sentences())
