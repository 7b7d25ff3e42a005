"""Which groups a role has, while groups start, serve, fail, are scaled and rolled."""

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_operator.api.spec import RolloutStrategy
from inference_operator.manifest import STATEFUL_SET, Ref
from inference_operator.pipeline.decide import outcome
from inference_operator.views.pod import PodView, pod_template_hash
from inference_operator.views.samples import EngineActivity, EngineSample, Samples
from inference_operator.workload.groups import Groups, LiveGroup, groups
from tests.testing.builders import NOW, inference_deployment, inputs, planned

SURGE, REPLACE = RolloutStrategy.SURGE, RolloutStrategy.REPLACE


def decided(*live: LiveGroup, replicas: int = 1, strategy: RolloutStrategy = SURGE, old_engines: int = 0) -> Groups:
    return groups(live, {one.slot for one in live}, replicas, strategy, old_engines)


def serving(slot: int, *, current: bool = True, requests: int = 0) -> LiveGroup:
    return LiveGroup(slot, is_current=current, serves=True, is_placed=True, requests=requests)


def test_a_new_role_gets_all_groups_at_once() -> None:
    assert decided(replicas=3).current == (0, 1, 2)


def test_a_name_that_pods_of_a_former_group_have_is_not_used() -> None:
    found = groups([], {0, 2}, 2, SURGE)
    assert found.current == (1, 3)


def test_the_group_with_the_fewest_requests_ends_first_and_before_it_one_without_nodes() -> None:
    busy, idle = serving(0, requests=9), serving(1)
    unplaced = LiveGroup(2, is_current=True)
    assert decided(busy, idle, unplaced, replicas=2).current == (0, 1)
    assert decided(busy, idle, unplaced, replicas=1).current == (0,)


def member(group: str, index: int, template: str | None) -> PodView:
    view = PodView(
        f"{group}-{index}", "engine", NOW, ready=True, terminating=False, failed=False, problem=None, template=template
    )
    return replace(view, uid=view.name, group=group, index=index, node=f"node-of-{view.name}", traffic=not index)


@pytest.mark.parametrize("idle", [0, 1])
def test_the_samples_of_leaders_tell_which_group_has_the_fewest_requests(idle: int) -> None:
    two, one = (inference_deployment(parallelism={"tensor": 1, "nodes": 2}, replicas=count) for count in (2, 1))
    sets = {ref.name: made for ref, made in planned(two).desired.items() if ref.kind == STATEFUL_SET}
    hashes = {name: pod_template_hash(made["spec"]["template"]["metadata"]) for name, made in sets.items()}
    pods = [member(name, index, of) for name, of in hashes.items() for index in range(2)]
    running = {f"qwen-engine-{slot}-0": 1 if slot == idle else 5 for slot in range(2)}
    samples = {uid: EngineActivity(EngineSample("qwen", count, 0, ()), 0, 1.0) for uid, count in running.items()}
    live = replace(inputs(one, children=planned(two).desired.values(), pods=pods), samples=Samples(samples))
    kept = [ref for ref in outcome(live).desired if ref.kind == STATEFUL_SET]
    assert kept == [Ref(STATEFUL_SET, "default", f"qwen-engine-{1 - idle}")]


def test_a_surge_creates_one_group_and_ends_an_old_one_only_when_a_new_one_serves() -> None:
    old = serving(0, current=False), serving(1, current=False)
    first = decided(*old, replicas=2)
    assert (first.current, first.old) == ((2,), (0, 1))
    starting = LiveGroup(2, is_current=True, is_placed=True)
    assert decided(starting, *old, replicas=2) == first
    second = decided(serving(2), *old, replicas=2)
    assert (second.current, second.old) == ((2, 3), (0,))


def test_a_replacement_ends_an_old_group_for_each_new_one() -> None:
    old = serving(0, current=False), serving(1, current=False)
    found = decided(*old, replicas=2, strategy=REPLACE)
    assert (found.current, found.old) == ((2,), (0,))


def test_an_old_group_that_does_not_serve_ends_once_a_current_one_exists() -> None:
    broken = LiveGroup(0, is_current=False, is_placed=True)
    assert decided(broken).old == (0,)
    assert decided(broken, LiveGroup(1, is_current=True)).old == ()


def test_without_replicas_the_newest_group_stays_without_pods() -> None:
    found = decided(serving(4, current=False), serving(1), serving(0), replicas=0)
    assert found == Groups(current=(), off=1)
    assert decided(LiveGroup(1, is_current=True)).current == (1,)


def test_engines_of_a_deployment_stay_until_groups_serve() -> None:
    assert decided(replicas=2, old_engines=2) == Groups(current=(0,), old_engines=2)
    assert decided(serving(0), replicas=2, old_engines=2) == Groups(current=(0, 1), old_engines=1)
    assert decided(serving(0), serving(1), replicas=2, old_engines=2) == Groups(current=(0, 1))
    assert decided(replicas=2, old_engines=2, strategy=REPLACE) == Groups(current=(0,), old_engines=1)


@dataclass
class Fleet:
    """Groups that start when they are created, and serve when the test says so."""

    live: list[LiveGroup] = field(default_factory=list)

    def reconcile(self, replicas: int, strategy: RolloutStrategy) -> Groups:
        found = groups(tuple(self.live), {one.slot for one in self.live}, replicas, strategy)
        known = {one.slot: one for one in self.live}
        kept = {*found.current, *found.old, *([found.off] if found.off is not None else [])}
        created = [LiveGroup(slot, is_current=True) for slot in found.current if slot not in known]
        self.live = [*reversed(created), *(one for one in self.live if one.slot in kept)]
        if found.off is not None:
            self.live = [replace(one, serves=False) for one in self.live]
        return found

    def serve(self, number: int) -> None:
        if self.live:
            index = number % len(self.live)
            self.live[index] = replace(self.live[index], serves=True, is_placed=True)

    def change(self) -> None:
        """Another template is desired: every group is old."""
        self.live = [replace(one, is_current=False) for one in self.live]

    @property
    def serving(self) -> int:
        return sum(one.serves for one in self.live)


STEPS = st.lists(st.tuples(st.sampled_from(["serve", "change", "scale"]), st.integers(0, 4)), max_size=25)


@given(STEPS, st.integers(1, 4), st.sampled_from([SURGE, REPLACE]))
def test_groups_always_come_to_rest_as_wanted(
    steps: list[tuple[str, int]], replicas: int, strategy: RolloutStrategy
) -> None:
    fleet = Fleet()
    for step, number in steps:
        match step:
            case "serve":
                fleet.serve(number)
            case "change":
                fleet.change()
            case _:
                replicas = number
        found = fleet.reconcile(replicas, strategy)
        assert not set(found.current) & set(found.old)
        assert len(fleet.live) <= max(replicas + 1, 1)
    for _ in range(2 * len(fleet.live) + 2 * replicas + 4):
        for number in range(len(fleet.live)):
            fleet.serve(number)
        fleet.reconcile(replicas, strategy)
    assert len(fleet.live) == replicas or (not replicas and len(fleet.live) <= 1)
    if replicas:
        assert all(one.is_current and one.serves for one in fleet.live)


@given(st.integers(1, 5), st.lists(st.integers(0, 9), max_size=30))
def test_a_surge_never_serves_with_fewer_engines_than_wanted(replicas: int, order: list[int]) -> None:
    fleet = Fleet([serving(slot, current=False) for slot in range(replicas)])
    for number in order:
        fleet.reconcile(replicas, SURGE)
        assert fleet.serving >= replicas
        assert len(fleet.live) <= replicas + 1
        fleet.serve(number)


@given(st.integers(1, 5), st.lists(st.integers(0, 9), max_size=30))
def test_a_replacement_never_has_more_groups_than_wanted(replicas: int, order: list[int]) -> None:
    fleet = Fleet([serving(slot, current=False) for slot in range(replicas)])
    for number in order:
        fleet.reconcile(replicas, REPLACE)
        assert len(fleet.live) <= replicas
        assert fleet.serving >= replicas - 1
        fleet.serve(number)
