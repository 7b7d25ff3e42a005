"""The lifecycle of an InferenceDeployment with a fault at each of its requests: invariants that hold afterwards.

Six invariants, whatever goes wrong: (1) the same children as without a fault; (2) no engine is replaced that would not
have been; (3) nothing is left over, and nothing is there twice; (4) the status tells the truth; (5) few more requests
than without a fault; (6) no router is replaced that would not have been, so that no request in flight is cut.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import pytest

from inference_operator.api.reasons import ConditionType
from inference_operator.controller.cluster import ClusterError, ConflictError, ForbiddenError, RejectedError
from inference_operator.manifest import CHILD_KINDS, STATEFUL_SET, Manifest, Ref
from inference_operator.objects.child import content_hash
from inference_operator.views.pod import GROUP_LABEL
from inference_operator.views.workload import WORKLOAD_KINDS
from tests.controller.group_world import GroupWorld
from tests.controller.virtual_time import run
from tests.controller.world import RESOURCE, World
from tests.testing.builders import BUDGET_OF_ENGINES, CONFIG, ENGINES, KEY, ROUTERS, SERVICE_OF_ROUTERS
from tests.testing.listings import listing, pages
from tests.testing.memory_cluster import Request

PODS, GROUPS = "pods", "groups"
WORLDS: Mapping[str, type[World]] = {PODS: World, GROUPS: GroupWorld}
"""An engine is a pod of a Deployment, or a group of two pods."""
MOST_ATTEMPTS = 20
MOST_MORE_REQUESTS = 12
"""A repeated reconcile costs a read and a write per child, one status write for the fault and one after it."""


class Killed(BaseException):
    """The process is killed."""


async def born(world: World) -> None:
    world.ask()
    await persist(world)


async def serving(world: World) -> None:
    """Pods become ready until none is missing."""
    for _ in range(world.rounds):
        world.pods_are_ready()
        await persist(world)


async def scaled_up(world: World) -> None:
    world.ask(replicas=2)
    await persist(world)
    await serving(world)


async def broken_by_hand(world: World) -> None:
    world.cluster.remove(SERVICE_OF_ROUTERS)
    world.edit(CONFIG, lambda manifest: manifest["data"].clear())
    await persist(world)


async def changed(world: World) -> None:
    world.ask(replicas=2, engine={"args": ["--seed=4096"]})
    await persist(world)
    await serving(world)


async def scaled_down(world: World) -> None:
    world.ask(replicas=1, engine={"args": ["--seed=4096"]})
    await persist(world)
    await serving(world)


LIFE: Sequence[Callable[[World], Awaitable[None]]] = (born, serving, scaled_up, broken_by_hand, changed, scaled_down)


async def persist(world: World) -> None:
    """Reconcile as the work queue does: again after a failure or a requeue, in a new process after a kill."""
    for _ in range(MOST_ATTEMPTS):
        try:
            again = await world.reconcile()
        except Killed:
            await world.restart()
            continue
        except ClusterError:
            continue
        if not world.deliver() and not (again and (again.backoff or again.seconds is not None)):
            return
    raise AssertionError(f"no rest after {MOST_ATTEMPTS} rounds: {world.conditions()}")


@dataclass(frozen=True, slots=True)
class Lived:
    """The final state of a world."""

    children: Mapping[Ref, Manifest]
    conditions: Mapping[str, tuple[str, str]]
    engines: Sequence[str]
    """The pod templates of the engines in order, each once."""
    routers: Sequence[str]
    requests: Sequence[Request]
    objects: frozenset[Ref]


def lived(
    kind: str = PODS,
    *,
    fault: Callable[[World], None] | None = None,
    each: Callable[[World], None] | None = None,
) -> Lived:
    """Run all steps of `LIFE`, with one planned fault or an accident before each step."""

    async def live() -> Lived:
        world = WORLDS[kind]()
        templates = Templates(world)
        if fault:
            fault(world)
        for step in LIFE:
            if each:
                each(world)
            await step(world)
            assert world.status().observed_generation == world.live(RESOURCE)["metadata"]["generation"]
        return Lived(
            world.children(),
            world.conditions(),
            templates.engines,
            templates.routers,
            tuple(world.cluster.requests),
            frozenset(world.cluster.live()),
        )

    return run(live())


class Templates:
    """Records every pod template that the workloads get. Groups of two templates are there at the same time."""

    def __init__(self, world: World) -> None:
        self.engines: list[str] = []
        self.routers: list[str] = []
        world.cluster.observe(self._on_stored)

    def _on_stored(self, ref: Ref, manifest: Manifest) -> None:
        if ref.kind in WORKLOAD_KINDS:
            seen = self.routers if ref == ROUTERS else self.engines
            template = content_hash(_without_group(manifest["spec"]["template"]))
            if template not in (seen if ref.kind == STATEFUL_SET else seen[-1:]):
                seen.append(template)


def _without_group(template: Manifest) -> Manifest:
    meta = template["metadata"]
    others = {name: value for name, value in meta["labels"].items() if name != GROUP_LABEL}
    return {**template, "metadata": {**meta, "labels": others}}


@cache
def calm(kind: str = PODS) -> Lived:
    """The run without faults."""
    return lived(kind)


def holds(found: Lived, kind: str = PODS) -> None:
    """Assert every invariant."""
    wanted = calm(kind)
    assert found.children == wanted.children
    assert found.engines == wanted.engines
    assert found.objects == wanted.objects
    assert found.conditions == wanted.conditions
    assert len(found.requests) <= len(wanted.requests) + MOST_MORE_REQUESTS
    assert found.routers == wanted.routers


REQUESTS = {PODS: 23, GROUPS: 31}
"""The number of requests of the run without faults; a test compares it."""
KINDS = pytest.mark.parametrize("kind", WORLDS)
NUMBERS = pytest.mark.parametrize(
    ("kind", "number"),
    [
        pytest.param(kind, number, marks=[pytest.mark.full] * (kind == GROUPS))
        for kind, most in REQUESTS.items()
        for number in range(1, most + 1)
    ],
)
WAYS = {
    "409": (ConflictError("somebody was faster"), False),
    "429": (ClusterError("HTTP 429: too many", retry_after=1.0), False),
    "500": (ClusterError("HTTP 500: etcd"), False),
    "403": (ForbiddenError("forbidden"), False),
    "422": (RejectedError("denied by policy"), False),
    "timeout": (ClusterError("no answer"), False),
    "timeout after commit": (ClusterError("no answer"), True),
    "killed before": (Killed(), False),
    "killed after": (Killed(), True),
}


@KINDS
def test_a_life_without_faults_takes_the_expected_number_of_requests(kind: str) -> None:
    found = calm(kind)
    assert len(found.requests) == REQUESTS[kind], [f"{r.verb} {r.ref}" for r in found.requests]
    assert len(found.engines) == 2
    assert found.conditions["Ready"] == ("True", "Serving")
    assert BUDGET_OF_ENGINES in found.objects
    assert len([ref for ref in found.objects if ref.kind in WORKLOAD_KINDS]) == 2, "routers and one engine"


@NUMBERS
@pytest.mark.parametrize("way", WAYS)
def test_a_single_fault_at_any_request_ends_in_the_same_state(way: str, kind: str, number: int) -> None:
    error, took_effect = WAYS[way]
    holds(lived(kind, fault=lambda world: world.cluster.fail_at(number, error, took_effect=took_effect)), kind)


@KINDS
@pytest.mark.parametrize("way", WAYS)
def test_a_fault_at_every_third_request_ends_in_the_same_state(way: str, kind: str) -> None:
    error, took_effect = WAYS[way]
    most = 10 * REQUESTS[kind]

    def often(world: World) -> None:
        for number in range(3, most, 3):
            world.cluster.fail_at(number, error, took_effect=took_effect)

    found = lived(kind, fault=often)
    holds(replace(found, requests=calm(kind).requests), kind)
    assert len(found.requests) <= most


def _nothing_is_told(world: World) -> None:
    world.cluster.events.clear()


def _all_is_told_twice(world: World) -> None:
    world.cluster.events.extend(list(world.cluster.events))


def _all_is_told_backwards(world: World) -> None:
    backwards = list(reversed(world.cluster.events))
    world.cluster.events.clear()
    world.cluster.events.extend(backwards)


@pytest.mark.parametrize("mishap", [_all_is_told_twice, _all_is_told_backwards])
def test_repeated_and_reordered_events_end_in_the_same_state(mishap: Callable[[World], None]) -> None:
    class Unruly(World):
        def deliver(self) -> set[object]:  # type: ignore[override]
            mishap(self)
            return super().deliver()  # type: ignore[return-value]

    wanted = calm()

    async def live() -> None:
        world = Unruly()
        for step in LIFE:
            await step(world)
        assert world.children() == wanted.children
        assert world.conditions() == wanted.conditions

    run(live())


def test_lost_events_are_repaired_by_the_next_listing() -> None:
    wanted = calm()

    async def live() -> None:
        world = World()
        for step in LIFE:
            await step(world)
            world.cluster.remove(CONFIG)
            _nothing_is_told(world)
            assert await world.list_all() == {KEY}
            await persist(world)
        assert world.children() == wanted.children
        assert world.conditions() == wanted.conditions

    run(live())


def test_an_outdated_listing_deletes_and_changes_nothing() -> None:
    async def live() -> None:
        world = World()
        for step in LIFE:
            old = [await listing(world.cluster, ref.kind) for ref in (RESOURCE, CONFIG, ENGINES, BUDGET_OF_ENGINES)]
            await step(world)
            before, generations = world.children(), _generations(world)
            for ref, found in zip((RESOURCE, CONFIG, ENGINES, BUDGET_OF_ENGINES), old, strict=True):
                await world.cache.replace(ref.kind, pages(found))
            await persist(world)
            assert (world.children(), _generations(world)) == (before, generations)

    run(live())


@pytest.mark.parametrize("number", range(1, len(LIFE)))
def test_a_restored_backup_of_etcd_with_larger_versions_is_noticed_by_the_next_listing(number: int) -> None:
    """A backup with smaller versions ends the process (tests/controller/test_lister.py)."""
    wanted = calm()

    async def live() -> None:
        world = World()
        for step in LIFE[:number]:
            await step(world)
        backup = world.cluster.backup()
        await LIFE[number](world)
        world.cluster.remove(SERVICE_OF_ROUTERS)
        await persist(world)
        await world.list_all()
        world.cluster.restore(backup, bump=1_000_000)
        await world.list_all()
        assert _versions(world.cache_children()) == _versions(_all_children(world))
        for step in LIFE[number:]:
            await step(world)
        assert world.children() == wanted.children
        assert world.conditions() == wanted.conditions

    run(live())


def _all_children(world: World) -> Mapping[Ref, Manifest]:
    return {ref: manifest for ref, manifest in world.cluster.live().items() if ref.kind in CHILD_KINDS}


def _versions(manifests: Mapping[Ref, Manifest]) -> Mapping[Ref, str]:
    return {ref: manifest["metadata"]["resourceVersion"] for ref, manifest in manifests.items()}


def _generations(world: World) -> Mapping[Ref, object]:
    return {ref: world.live(ref)["metadata"]["generation"] for ref in (ENGINES, ROUTERS)}


def test_another_operator_release_with_other_defaults_does_not_change_serving_engines() -> None:
    """After an upgrade and a downgrade of the operator the engines keep their pod template."""

    async def live() -> None:
        world = World()
        for step in LIFE[:3]:
            await step(world)
        before, generations = world.live(ENGINES), _generations(world)
        newer = world.settings.model_copy(
            update={"gpu_engine_image": "example.com/vllm:newer", "cpu_engine_image": "x"}
        )
        for settings in (newer, world.settings):
            world.settings = settings
            await world.restart()
            await persist(world)
            assert world.live(ENGINES)["spec"] == before["spec"]
            assert _generations(world) == generations
        condition = world.status().condition(ConditionType.READY)
        assert condition is not None
        assert (condition.status, condition.reason) == ("True", "Serving")

    run(live())
