"""Groups with nodes for a part of their pods: which give them back, when, and that each gets its turn."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_operator.api.reasons import Reason
from inference_operator.manifest import Manifest
from inference_operator.models.source import HubModel, model_source
from inference_operator.pipeline.contexts import live_roles, role_contexts, role_specs
from inference_operator.roles.context import RoleContext
from inference_operator.views.engine import EngineView, engines_of
from inference_operator.views.lookups import EventsLookup, EventSummary, LogLookup, LookupResults, ObjectEvents
from inference_operator.views.node import NodeView, node_view
from inference_operator.views.pod import PodProblem, PodView, Terminated
from inference_operator.views.pod_startup import PodStartup, StartupStage
from inference_operator.workload.eviction.half_placed import (
    GIVEN_BACK_ANNOTATION,
    GROUP_WAIT,
    LONGEST_BACKOFF,
    NODE_WAIT,
    RECHECK,
    GivenBack,
    HalfPlaced,
    Yielding,
    half_placed,
    is_half_placed,
    yielding,
)
from tests.testing.builders import NOW, inference_deployment, inputs
from tests.testing.nodes import GPU, container, node

SECOND = timedelta(seconds=1)
NO_GPU = "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient nvidia.com/gpu."
BEFORE = NOW - timedelta(hours=1)


def _context() -> RoleContext:
    asked = inputs(inference_deployment(parallelism={"tensor": 1, "nodes": 2}))
    specs, source = role_specs(asked), model_source("hf://Qwen/Qwen3-8B")
    assert isinstance(source, HubModel)
    (found,) = role_contexts(asked, specs, live_roles(asked, specs), source)
    return found


CONTEXT = _context()


def member(
    group: str, index: int, *, on: str = "", cause: str = NO_GPU, created: datetime = NOW, ready: bool = False
) -> PodView:
    """A pod that is on a node, or fits on none."""
    name = f"{group}-{index}"
    return PodView(
        name,
        "engine",
        created,
        ready=ready,
        terminating=False,
        failed=False,
        problem=None if on else PodProblem(Reason.UNSCHEDULABLE, cause),
        start=PodStartup(StartupStage.PROCESS, created, None) if on else None,
        uid=f"uid-{name}",
        node=on,
        group=group,
        index=index,
    )


def engine(*pods: PodView) -> EngineView:
    (found,) = engines_of(pods)
    return found


def half(group: str = "qwen-engine-1", **parts: object) -> EngineView:
    return engine(member(group, 0, on="gpu-1"), replace(member(group, 1), **parts))  # type: ignore[arg-type]


def stateful_set(
    name: str, *, born: datetime = BEFORE, namespace: str = "default", size: int = 2, notes: Mapping[str, str] = {}
) -> Manifest:
    return {
        "kind": "StatefulSet",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "creationTimestamp": born.isoformat(),
            "annotations": dict(notes),
        },
        "spec": {"replicas": size, "template": {"spec": {"containers": [container(1)]}}},
    }


def found(one: EngineView, **parts: object) -> HalfPlaced:
    made = half_placed(one, stateful_set(one.leader.group, **parts))  # type: ignore[arg-type]
    assert made
    return made


MINE = half()
OLDER = found(half("qwen-engine-0"), born=BEFORE - SECOND)
NO_EVENTS: LookupResults = {
    EventsLookup("default", "qwen-engine-1-1", "uid-qwen-engine-1-1"): ObjectEvents(()),
}


def decided(
    *others: HalfPlaced,
    after: timedelta = GROUP_WAIT,
    one: EngineView = MINE,
    live: Manifest | None = None,
    lookups: LookupResults = NO_EVENTS,
    nodes: Sequence[NodeView] | None = None,
) -> Yielding:
    """What the group `qwen-engine-1` does beside others."""
    group = live or stateful_set("qwen-engine-1")
    role = replace(CONTEXT.live, engines=[one], workloads=[group])
    context = replace(CONTEXT, live=role, now=NOW + after, lookups=lookups, nodes=nodes)
    mine = half_placed(one, group)
    return yielding(context, [*others, *([mine] if mine else [])])


def test_the_younger_group_gives_its_nodes_back_after_a_wait() -> None:
    early = decided(OLDER, after=GROUP_WAIT - SECOND)
    assert (early.off, early.due) == (frozenset(), NOW + GROUP_WAIT - SECOND + RECHECK)
    given_back = decided(OLDER)
    assert given_back.off == {"qwen-engine-1"}
    assert given_back.due == NOW + GROUP_WAIT + timedelta(seconds=30)
    assert given_back.notice == (
        "Group `qwen-engine-1` had nodes for a part of its pods only and gave them back for the older group"
        " `qwen-engine-0`; it tries again at 03:05:35 UTC."
    )


def test_the_name_of_a_group_in_another_namespace_is_not_told() -> None:
    secret = found(half("secret"), born=BEFORE - SECOND, namespace="other")
    assert "secret" not in str(decided(secret))
    assert "for an older group in another namespace;" in decided(secret).notice


@pytest.mark.parametrize(
    "others",
    [
        [],
        [found(half("qwen-engine-2"), born=BEFORE + SECOND)],
        [found(half("qwen-engine-2"))],
        [replace(OLDER, lacks=frozenset({"amd.com/gpu"}))],
    ],
    ids=["alone", "the other is younger", "of the same age, with a later name", "lacks something else"],
)
def test_a_group_keeps_its_nodes_while_no_older_one_lacks_them(others: list[HalfPlaced]) -> None:
    result = decided(*others, after=timedelta(hours=1))
    assert (result.off, result.notice) == (frozenset(), "")
    assert result.due == NOW + timedelta(hours=1) + RECHECK


def test_a_group_keeps_a_node_that_the_older_one_may_not_use() -> None:
    older = replace(OLDER, pod={"nodeSelector": {"pool": "b"}})
    assert not decided(older, nodes=[node_view(node("gpu-1", gpus=8, labels={"pool": "a"}))]).off
    assert decided(older, nodes=[node_view(node("gpu-1", gpus=8, labels={"pool": "b"}))]).off
    assert decided(older, nodes=[]).off  # a node without GPUs is not known


def test_a_group_that_has_run_goes_before_one_that_has_not() -> None:
    ended = Terminated("", LogLookup("default", "p", "u", "engine", run=0, previous=False, running=False))
    crashed = PodProblem(Reason.CRASH_LOOP, "ended", ended)
    ran = engine(
        replace(member("qwen-engine-1", 0, on="gpu-1"), problem=crashed, start=None), member("qwen-engine-1", 1)
    )
    assert not decided(OLDER, one=ran).off
    assert not decided(
        OLDER, one=engine(member("qwen-engine-1", 0, on="gpu-1", ready=True), member("qwen-engine-1", 1))
    ).off
    assert decided(replace(OLDER, has_run=True), one=ran).off


def answered(reason: str, message: str) -> LookupResults:
    return dict.fromkeys(NO_EVENTS, ObjectEvents((EventSummary(reason, message),)))


def test_a_group_waits_longer_for_a_node_that_comes() -> None:
    comes = answered("TriggeredScaleUp", "pod triggered scale-up: [{h100 0->1 (max: 4)}]")
    assert not decided(OLDER, lookups=comes, after=NODE_WAIT - SECOND).off
    assert decided(OLDER, lookups=comes, after=NODE_WAIT).off
    assert decided(OLDER, lookups=answered("NotTriggerScaleUp", "pod didn't trigger scale-up: 1 max size")).off


def test_a_group_waits_until_it_is_known_what_an_autoscaler_says() -> None:
    result = decided(OLDER, lookups={}, after=timedelta(hours=1))
    assert (result.off, set(result.lookups)) == (frozenset(), set(NO_EVENTS))
    assert decided(after=timedelta(hours=1)).lookups == ()


@pytest.mark.parametrize(
    "one",
    [
        engine(member("g", 0, on="a"), member("g", 1, on="b")),
        engine(member("g", 0), member("g", 1)),
        engine(member("g", 0, on="a"), member("g", 1, cause="0/1 nodes are available: 1 node(s) were unschedulable.")),
        engine(replace(member("g", 0, on="a"), terminating=True), member("g", 1)),
        engine(replace(member("", 0, on="a"), group="")),
    ],
    ids=["all placed", "none placed", "lacks no resource", "is being deleted", "no group"],
)
def test_other_engines_are_not_half_placed(one: EngineView) -> None:
    assert not is_half_placed(one)


def test_the_wait_begins_with_the_last_pod_that_was_placed() -> None:
    late = engine(member("g", 0, on="a", created=NOW + SECOND), member("g", 1))
    assert found(late).since == NOW + SECOND
    assert found(half("g", created=NOW + 2 * SECOND)).since == NOW + 2 * SECOND


def recorded(times: int = 1, *, size: int = 0) -> Manifest:
    return stateful_set("qwen-engine-1", notes=GIVEN_BACK_ANNOTATION.entry(GivenBack(NOW, times, "x")), size=size)


def test_a_group_that_gave_its_nodes_back_tries_again_and_waits_longer_each_time() -> None:
    live = recorded()
    off = decided(OLDER, live=live, after=timedelta(seconds=29))
    assert (set(off.off), off.due) == ({"qwen-engine-1"}, NOW + timedelta(seconds=30))
    again = decided(OLDER, live=live, after=timedelta(seconds=30))
    assert (again.off, again.texts) == (
        frozenset(),
        {"qwen-engine-1": live["metadata"]["annotations"][GIVEN_BACK_ANNOTATION.key]},
    )
    second = decided(OLDER, live=live)
    assert second.due == NOW + GROUP_WAIT + timedelta(seconds=60)
    assert GivenBack(NOW, 100).until == NOW + LONGEST_BACKOFF


def test_the_record_ends_when_all_pods_have_nodes() -> None:
    one = engine(member("qwen-engine-1", 0, on="a"), member("qwen-engine-1", 1, on="b"))
    assert decided(one=one, live=recorded(size=2)).texts == {"qwen-engine-1": ""}
    only_one = engine(member("qwen-engine-1", 0, on="a"))
    assert decided(one=only_one, live=recorded(size=2)).texts["qwen-engine-1"]
    assert decided(one=one, live=stateful_set("qwen-engine-1")).texts == {}


@pytest.mark.parametrize("text", ["", "{}", '{"at":"2026-01-02T03:04:05"}', '{"at":"9999-01-01T00:00:00Z"}', "[[["])
def test_a_record_that_somebody_edited_keeps_no_group_off(text: str) -> None:
    live = stateful_set("qwen-engine-1", notes={GIVEN_BACK_ANNOTATION.key: text})
    assert not decided(live=live).off


# A simulation: nodes with one slot each, a scheduler that places pods in any order, and the operator.

STEP = RECHECK
MOST_STEPS = 400


@dataclass
class Simulated:
    """A group in the simulation."""

    name: str
    size: int
    born: datetime
    placed: dict[int, datetime] = field(default_factory=dict)
    made: datetime = NOW
    record: GivenBack | None = None
    off: bool = False

    def engine(self) -> EngineView | None:
        if self.off:
            return None
        pods = [
            replace(
                member(self.name, index, on=f"n-{self.name}-{index}" if index in self.placed else ""),
                created=self.made,
                start=PodStartup(StartupStage.PROCESS, self.placed[index], None) if index in self.placed else None,
            )
            for index in range(self.size)
        ]
        return engine(*pods)

    def manifest(self) -> Manifest:
        notes = GIVEN_BACK_ANNOTATION.entry(self.record)
        return stateful_set(self.name, born=self.born, size=0 if self.off else self.size, notes=notes)

    @property
    def is_whole(self) -> bool:
        return len(self.placed) == self.size


@dataclass
class Pool:
    """A cluster of slots."""

    slots: int
    groups: list[Simulated]
    now: datetime = NOW

    @property
    def free(self) -> int:
        return self.slots - sum(len(one.placed) for one in self.groups)

    def schedule(self, draw: Sequence[int]) -> None:
        """Place pods round robin in an order that the test chooses, which is the worst: each gets a part."""
        waiting = [(one, index) for one in self.groups if not one.off for index in range(one.size)]
        waiting = [(one, index) for one, index in waiting if index not in one.placed]
        waiting.sort(key=lambda pair: (pair[1], draw[self.groups.index(pair[0]) % len(draw)]))
        for one, index in waiting[: max(0, self.free)]:
            one.placed[index] = self.now

    def half(self) -> list[HalfPlaced]:
        made = ((one.engine(), one.manifest()) for one in self.groups)
        return [seen for view, group in made if view and (seen := half_placed(view, group))]

    def reconcile(self, one: Simulated) -> None:
        view = one.engine()
        role = replace(CONTEXT.live, engines=[view] if view else [], workloads=[one.manifest()])
        events: LookupResults = dict.fromkeys(
            (EventsLookup("default", f"{one.name}-{i}", f"uid-{one.name}-{i}") for i in range(one.size)),
            ObjectEvents(()),
        )
        context = replace(CONTEXT, live=role, now=self.now, lookups=events, nodes=None)
        result = yielding(context, self.half())
        was_off, one.off = one.off, one.name in result.off
        one.record = result.records.get(one.name)
        if one.off:
            one.placed.clear()
        elif was_off:
            one.made = self.now


@given(
    st.lists(st.integers(2, 4), min_size=1, max_size=6),
    st.integers(0, 6),
    st.lists(st.integers(0, 9), min_size=6, max_size=6),
    st.lists(st.integers(0, 3), min_size=6, max_size=6),
)
def test_every_group_is_placed_in_the_end_where_there_is_room_for_one(
    sizes: list[int], spare: int, draw: list[int], ages: list[int]
) -> None:
    """A group that is whole serves for a while and ends. Then another one has its turn."""
    groups = [Simulated(f"g{n}", size, BEFORE + ages[n] * SECOND) for n, size in enumerate(sizes)]
    pool = Pool(max(sizes) + spare, groups)
    for step in range(MOST_STEPS):
        pool.schedule(draw[step % 6 :] + draw[: step % 6])
        before = pool.half()
        for one in pool.groups:
            pool.reconcile(one)
        if before:
            oldest = min(before, key=lambda one: one.order).name
            assert not next(one for one in pool.groups if one.name == oldest).off
        pool.now += STEP
        pool.groups = [one for one in pool.groups if not one.is_whole]
        if not pool.groups:
            return
    raise AssertionError([(one.name, one.placed, one.record) for one in pool.groups])


def test_groups_that_are_half_placed_for_long_give_way_to_exactly_one() -> None:
    views = [half(f"g{number}") for number in range(3)]
    for order in permutations(range(3)):
        groups = [stateful_set(view.leader.group, born=BEFORE + order[n] * SECOND) for n, view in enumerate(views)]
        others = [one for view, group in zip(views, groups, strict=True) if (one := half_placed(view, group))]
        keeping = []
        for view, group in zip(views, groups, strict=True):
            look = EventsLookup("default", view.workers[0].name, view.workers[0].uid)
            role = replace(CONTEXT.live, engines=[view], workloads=[group])
            context = replace(CONTEXT, live=role, now=NOW + GROUP_WAIT, lookups={look: ObjectEvents(())}, nodes=None)
            keeping += [order[views.index(view)]] if not yielding(context, others).off else []
        assert keeping == [0]


def test_what_a_pod_requests_may_be_any_resource() -> None:
    assert found(
        half(problem=PodProblem(Reason.UNSCHEDULABLE, "0/2 nodes are available: 2 Insufficient cpu."))
    ).lacks == {"cpu"}
    assert OLDER.lacks == {GPU}
