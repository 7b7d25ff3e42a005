"""How engines move away from nodes that are leaving: what starts, what ends, and until when a drain waits."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from inference_operator.api.reasons import Reason
from inference_operator.manifest import Manifest
from inference_operator.views.draining_node import DrainingNode
from inference_operator.views.engine import EngineView, engines_of
from inference_operator.views.lookups import (
    ClusterGpus,
    EventsLookup,
    EventSummary,
    FreeGpusLookup,
    LookupResults,
    NodeGpus,
    ObjectEvents,
    Unavailable,
)
from inference_operator.views.node import node_view
from inference_operator.views.pod import TEMPLATE_HASH_ANNOTATION, PodProblem, PodView
from inference_operator.views.pod_startup import PodStartup, StartupStage, StartupTimes
from inference_operator.views.workload import TEMPORARY_ANNOTATION, role_view
from inference_operator.workload.eviction.drain import (
    DRAINING_COST,
    MOVE_ANNOTATION,
    Move,
    MoveRecord,
    move,
)
from inference_operator.workload.eviction.obstacles import UNSCHEDULABLE_LIMIT
from inference_operator.workload.eviction.rollout import EngineSet, creation_lookups
from tests.testing.builders import NOW
from tests.testing.nodes import GPU, node

OLD, NEW = "old", "new"
MINUTE = timedelta(minutes=1)
CORDONED = {"gone": DrainingNode("gone", "which is cordoned")}
SPOT = {"gone": DrainingNode("gone", "which has the taint `spot`", is_soon=True)}
POD: Manifest = {"containers": [{"resources": {"limits": {GPU: "1"}}}]}
LOOKUP = FreeGpusLookup(GPU)


def engine(name: str, on: str = "", **more: object) -> EngineView:
    before = NOW - 24 * 60 * MINUTE
    view = PodView(name, "engine", before, ready=True, terminating=False, failed=False, problem=None, template=NEW)
    fields = {"uid": name, "node": on, **more}
    return engines_of([replace(view, **fields)])[0]  # type: ignore[arg-type]


def starting(name: str, on: str = "good") -> EngineView:
    return engine(name, on, ready=False)


def pending(name: str, age: timedelta = timedelta(0)) -> EngineView:
    return engine(name, ready=False, created=NOW - age, problem=PodProblem(Reason.UNSCHEDULABLE, "no node"))


def marked(one: EngineView) -> EngineView:
    return EngineView(replace(one.leader, deletion_cost=DRAINING_COST))


def workload(temporary: int = 0, record: MoveRecord | None = None, replicas: int = 1) -> Manifest:
    notes = {TEMPORARY_ANNOTATION: f"{temporary}/{replicas + temporary}"} if temporary else {}
    notes |= MOVE_ANNOTATION.entry(record)
    meta = {"name": "qwen-engine", "annotations": notes}
    return {"kind": "Deployment", "metadata": meta, "spec": {"replicas": replicas + temporary}}


BASE = EngineSet(
    engines=[],
    template=NEW,
    pod=POD,
    wanted=1,
    workloads=[workload()],
    leaving=CORDONED,
    gpu_resource=GPU,
    longest_start=30 * MINUTE,
    eviction_wait=None,
)


def free(*counts: int) -> LookupResults:
    """The free GPUs of each node."""
    names = ("good", "other")
    nodes = (NodeGpus(node_view(node(name, gpus=8)), 8, left) for name, left in zip(names, counts, strict=False))
    return {LOOKUP: ClusterGpus(tuple(nodes), pending=0)}


def decided(*engines: EngineView, results: LookupResults | None = None, now: datetime = NOW, **more: object) -> Move:
    inputs = replace(BASE, engines=engines, **more)  # type: ignore[arg-type]
    return move(inputs, free(1) if results is None else results, now)


def test_a_service_of_one_engine_refuses_evictions_from_the_start() -> None:
    found = decided(engine("a", "good"))
    assert found == Move(wanted=1, may_refuse=True, refuses=True)
    two = decided(engine("a", "good"), engine("b", "good"), wanted=2)
    assert two.disruption((1, 1)).keeps is None, "one of two may go"


@pytest.mark.parametrize("more", [{"eviction_wait": timedelta(0)}, {"budgets": False}, {"leaving": None}])
def test_without_a_wait_a_budget_or_the_right_to_see_nodes_nothing_is_refused(more: Mapping[str, Any]) -> None:
    found = decided(engine("a", "good"), **more)
    assert (found.may_refuse, found.refuses, found.temporary) == (False, False, 0)
    assert ("cannot see nodes" in found.notice) == ("leaving" in more)


def test_an_engine_on_a_cordoned_node_gets_its_successor_first() -> None:
    first = decided(engine("a", "gone"))
    assert (first.temporary, first.moves, first.refuses, first.record) == (1, True, True, MoveRecord(NOW))
    assert first.notice == (
        "Node `gone`, which is cordoned, has the only engine of this service. Its successor starts before it ends."
        " A drain waits for it until 03:34:35 UTC at the latest."
    )
    live = [workload(1, first.record)]
    loads = decided(engine("a", "gone"), starting("b"), workloads=live, results=free(0))
    assert (loads.temporary, loads.refuses, loads.record) == (1, True, first.record)
    unmarked = decided(engine("a", "gone"), engine("b", "good"), workloads=live, results=free(0))
    assert unmarked.temporary == 1, "the ReplicaSet could end the successor"
    serves = decided(marked(engine("a", "gone")), engine("b", "good"), workloads=live, results=free(0))
    assert (serves.temporary, serves.moves) == (0, True)
    over = decided(engine("b", "good"), workloads=live)
    assert (over.record, over.temporary, over.refuses) == (None, 0, True)


def test_without_a_free_gpu_on_fixed_nodes_the_engine_may_go_at_once() -> None:
    found = decided(engine("a", "gone"), results=free(0))
    assert (found.temporary, found.moves, found.refuses) == (0, False, False)
    assert found.notice.endswith("a drain interrupts the service until it has started elsewhere.")
    assert decided(engine("a", "gone"), results=free(1), workloads=[workload(0, found.record)]).temporary == 1


@pytest.mark.parametrize(("counts", "moves"), [((2, 0), False), ((1, 1), True)])
def test_a_group_moves_only_where_all_of_its_pods_find_free_gpus(counts: tuple[int, ...], *, moves: bool) -> None:
    leader = engine("a-0", "gone", group="a").leader
    pair = EngineView(leader, (engine("a-1", "gone", group="a", index=1).leader,))
    found = decided(pair, results=free(*counts), pods_per_engine=2)
    assert (found.moves, found.groups) == (moves, frozenset({"a"} if moves else ()))


@pytest.mark.parametrize(
    ("seconds", "words"), [(101, "2 minutes"), (120, "2 minutes"), (85, "90 seconds"), (1750, "30 minutes")]
)
def test_the_notice_of_an_interruption_tells_how_long_the_last_start_took(seconds: int, words: str) -> None:
    took = StartupTimes(NOW - timedelta(seconds=seconds), NOW, NOW, NOW)
    found = decided(engine("a", "gone", startup_times=took), results=free(0))
    assert found.notice.endswith(f"started elsewhere. Its last start took about {words}.")


def test_nothing_is_decided_before_free_gpus_are_counted() -> None:
    found = decided(engine("a", "gone"), results={})
    assert (found.temporary, found.moves, found.refuses, found.lookups) == (0, False, True, (LOOKUP,))
    assert decided(engine("a", "gone"), results={LOOKUP: Unavailable("no right")}).temporary == 1


def test_where_nodes_may_come_the_successor_waits_for_one_and_is_not_tried_twice() -> None:
    live = [workload(1, MoveRecord(NOW - 10 * MINUTE))]
    waits = decided(engine("a", "gone"), pending("b", 10 * MINUTE), workloads=live, node_wait=15 * MINUTE, results={})
    assert (waits.temporary, waits.refuses, waits.lookups, waits.due) == (1, True, (), NOW + 5 * MINUTE)
    live = [workload(1, MoveRecord(NOW - 15 * MINUTE))]
    late = decided(engine("a", "gone"), pending("b", 15 * MINUTE), workloads=live, node_wait=15 * MINUTE, results={})
    assert (late.temporary, late.refuses) == (0, False)
    assert late.record is not None
    assert late.record.gave_up
    again = decided(engine("a", "gone"), workloads=[workload(0, late.record)], node_wait=15 * MINUTE, results={})
    assert (again.temporary, again.refuses) == (0, False)
    assert decided(engine("a", "good"), workloads=[workload(0, late.record)]).record is None, "the cordon is over"


def test_a_successor_that_fits_nowhere_is_given_up_after_the_time_of_a_rollout() -> None:
    live = [workload(1, MoveRecord(NOW))]
    found = decided(engine("a", "gone"), pending("b"), workloads=live)
    assert (found.temporary, found.due) == (1, NOW + UNSCHEDULABLE_LIMIT)
    found = decided(engine("a", "gone"), pending("b"), workloads=live, now=NOW + UNSCHEDULABLE_LIMIT)
    assert (found.temporary, found.refuses) == (0, False)


FULL = "exceeded quota: gpus, requested: pods=1, used: pods=1, limited: pods=1"


def refused(live: Manifest, why: str = FULL) -> Manifest:
    failure = {"type": "ReplicaFailure", "status": "True", "message": why, "lastTransitionTime": NOW.isoformat()}
    return {**live, "status": {"conditions": [failure]}}


@pytest.mark.parametrize(
    ("why", "words"),
    [
        (FULL, "A quota of the namespace allows no successor beside it"),
        ('admission webhook "w" denied the request', "Kubernetes refuses the pod of its successor"),
    ],
)
def test_a_successor_that_kubernetes_refuses_holds_a_drain_no_longer_than_the_limit(why: str, words: str) -> None:
    live = refused(workload(1, MoveRecord(NOW)), why)
    waits = decided(engine("a", "gone"), workloads=[live], node_wait=15 * MINUTE, results={})
    assert (waits.temporary, waits.refuses, waits.due) == (1, True, NOW + UNSCHEDULABLE_LIMIT)
    late = NOW + UNSCHEDULABLE_LIMIT
    over = decided(engine("a", "gone"), workloads=[live], node_wait=15 * MINUTE, results={}, now=late)
    assert (over.temporary, over.moves, over.refuses) == (0, False, False)
    kept = {**live, **workload(0, over.record)}
    again = decided(engine("a", "gone"), workloads=[kept], node_wait=15 * MINUTE, results={}, now=late)
    assert (again.temporary, again.moves, again.refuses) == (0, False, False), "it is not tried again"
    assert f"{words}: a drain interrupts the service" in again.notice


def test_a_refused_pod_that_is_no_successor_does_not_end_the_wait_of_a_drain() -> None:
    live = refused(workload(0, MoveRecord(NOW)))
    found = decided(engine("a", "gone"), workloads=[live], now=NOW + 2 * UNSCHEDULABLE_LIMIT)
    assert (found.temporary, found.refuses) == (1, True)


def test_a_new_engine_of_a_rollout_that_kubernetes_refuses_holds_a_drain_no_longer_either() -> None:
    """As with the strategy Surge under a full quota, which never switches."""
    old, live = engine("a", "gone", template=OLD), refused(workload(0, MoveRecord(NOW)))
    waits = decided(old, workloads=[live])
    assert (waits.moves, waits.refuses, waits.due) == (True, True, NOW + UNSCHEDULABLE_LIMIT)
    over = decided(old, workloads=[live], now=NOW + UNSCHEDULABLE_LIMIT)
    assert (over.moves, over.refuses) == (False, False)
    assert "A quota of the namespace allows no successor beside it" in over.notice


def test_a_quota_that_refuses_the_pods_of_a_successor_that_is_a_group_holds_a_drain_no_longer_than_the_limit() -> None:
    """Only Events of its StatefulSet show it, so they are asked for."""
    leader = engine("a-0", "gone", group="a").leader
    pair = EngineView(leader, (engine("a-1", "gone", group="a", index=1).leader,))

    def group(name: str) -> Manifest:
        created = {"namespace": "chat", "uid": name, "creationTimestamp": NOW.isoformat()}
        template = {"metadata": {"annotations": {TEMPLATE_HASH_ANNOTATION: NEW}}}
        notes = {"annotations": MOVE_ANNOTATION.entry(MoveRecord(NOW))}
        return {
            "kind": "StatefulSet",
            "metadata": {"name": name, **created, **notes},
            "spec": {"replicas": 2, "template": template},
        }

    live, late = [group("b"), group("a")], NOW + UNSCHEDULABLE_LIMIT
    inputs = replace(BASE, engines=[pair], workloads=live, pods_per_engine=2)
    (lookup,) = creation_lookups(inputs)
    assert lookup == EventsLookup("chat", "b", "b")
    failed = ObjectEvents((EventSummary("FailedCreate", f"create Pod b-0 in StatefulSet b failed error: {FULL}"),))
    assert move(inputs, {**free(1, 1)}, late).refuses
    assert move(inputs, {**free(1, 1), lookup: failed}, NOW).due == late
    assert not move(inputs, {**free(1, 1), lookup: failed}, late).refuses


def test_a_successor_that_cannot_mount_the_volume_of_its_engine_holds_no_drain() -> None:
    waits = PodStartup(StartupStage.SANDBOX, NOW, None)
    said = 'Multi-Attach error for volume "weights" Volume is already used by pod(s) a'
    events: LookupResults = {EventsLookup("", "b", "b"): ObjectEvents((EventSummary("FailedAttachVolume", said),))}
    pods = engine("a", "gone"), engine("b", "good", ready=False, start=waits)
    live, late = [workload(1, MoveRecord(NOW))], NOW + UNSCHEDULABLE_LIMIT
    assert decided(*pods, workloads=live, results={**free(0)}, now=late).refuses
    assert not decided(*pods, workloads=live, results={**free(0), **events}, now=late).refuses


def test_no_successor_starts_before_the_claims_are_looked_up_nor_where_one_node_mounts_them() -> None:
    unknown = decided(engine("a", "gone"), one_node=None)
    assert (unknown.temporary, unknown.refuses, unknown.lookups) == (0, True, ())
    known = decided(engine("a", "gone"), one_node=True, workloads=[workload(0, unknown.record)])
    assert (known.temporary, known.moves, known.refuses) == (0, False, False)


@pytest.mark.parametrize(
    ("asked", "times", "wait"),
    [
        (5 * MINUTE, None, 5 * MINUTE),
        (None, None, 30 * MINUTE + UNSCHEDULABLE_LIMIT),
        (None, 4 * MINUTE, 8 * MINUTE + UNSCHEDULABLE_LIMIT),
        (None, 40 * MINUTE, 30 * MINUTE + UNSCHEDULABLE_LIMIT),
    ],
)
def test_a_drain_waits_as_long_as_requested_or_as_a_start_takes(
    asked: timedelta | None, times: timedelta | None, wait: timedelta
) -> None:
    started = StartupTimes(NOW - times, NOW, NOW, NOW) if times else None
    leaver, live = engine("a", "gone", startup_times=started), [workload(1, MoveRecord(NOW))]
    before = decided(leaver, starting("b"), workloads=live, eviction_wait=asked, now=NOW + wait - timedelta(seconds=1))
    assert (before.refuses, before.due) == (True, NOW + wait)
    after = decided(leaver, starting("b"), workloads=live, eviction_wait=asked, now=NOW + wait)
    assert (after.refuses, after.temporary, after.due) == (False, 1, None), "the successor starts on"


def may_go(found: Move, *, healthy: int, size: int = 1, serving: int | None = None) -> int:
    """The pods that Kubernetes lets go (Kubernetes 1.36, pkg/controller/disruption/disruption.go).

    The operator decided when so many pods served; by default as many as now.
    """
    pods = healthy if serving is None else serving
    least = found.disruption((size,) * (pods // size), planned_pods=size).keeps
    assert least is not None, "Kubernetes counts what the workload asks for, temporary engines included"
    return max(0, healthy - least)


@pytest.mark.parametrize("wanted", [1, 2, 3])
def test_a_drain_goes_on_after_the_wait_although_the_successor_never_serves(wanted: int) -> None:
    """Kubernetes expects the temporary engine to be healthy too."""
    engines = [engine("a", "gone"), *(engine(f"c{n}", "good") for n in range(1, wanted)), starting("b")]
    live = [workload(1, MoveRecord(NOW), replicas=wanted)]
    waits = decided(*engines, workloads=live, wanted=wanted, eviction_wait=MINUTE)
    assert (waits.temporary, waits.due) == (1, NOW + MINUTE)
    assert may_go(waits, healthy=wanted) == 0, "the successor does not serve yet"
    assert may_go(waits, healthy=wanted + 1) == 1
    late = decided(*engines, workloads=live, wanted=wanted, eviction_wait=MINUTE, now=NOW + MINUTE)
    assert late.temporary == 1
    assert may_go(late, healthy=wanted) == 1
    soon = decided(*engines, workloads=live, wanted=wanted, leaving=SPOT)
    assert may_go(soon, healthy=wanted) == 1
    never = decided(*engines, workloads=live, wanted=wanted, eviction_wait=timedelta(0))
    assert may_go(never, healthy=wanted) == 1


def test_a_pod_of_the_only_group_may_go_after_the_wait_although_its_successor_never_serves() -> None:
    late = Move(wanted=1, draining=(engine("a", "gone"),), moves=True, may_refuse=True)
    assert may_go(late, healthy=4, size=4) == 1


@pytest.mark.parametrize("wanted", [1, 2, 3])
def test_one_pod_may_go_and_so_one_group_once_a_successor_of_several_pods_serves(wanted: int) -> None:
    """A group ends with any of its pods: four evictions at once could end four groups."""
    waits = Move(wanted=wanted, draining=(engine("a", "gone"),), moves=True, may_refuse=True, refuses=True)
    assert may_go(waits, healthy=4 * wanted, size=4) == 0
    assert may_go(waits, healthy=4 * wanted + 4, size=4) == 1
    late = replace(waits, refuses=False)
    assert may_go(late, healthy=4 * wanted + 4, size=4) == 1


def test_a_group_that_serves_as_a_successor_stays_where_its_gpus_were_the_last_free_ones() -> None:
    three = [engine(f"{name}-0", on, group=name) for name, on in (("a", "gone"), ("b", "gone"), ("c", "good"))]
    live = [{**workload(record=MoveRecord(NOW)), "kind": "StatefulSet"}]
    found = decided(*three, wanted=2, workloads=live, results=free(0))
    assert (found.moves, found.refuses, found.groups) == (True, True, frozenset("ab"))


def test_a_drain_still_waits_in_the_moment_in_which_the_first_of_two_successors_serves() -> None:
    """Its GPU was the only free one, so no place is left for the second successor before the first leaver ends."""
    live = [workload(1, MoveRecord(NOW), replicas=2)]
    two = (marked(engine("a", "gone")), marked(engine("b", "gone")))
    found = decided(*two, engine("c", "good"), wanted=2, workloads=live, results=free(0))
    assert (found.temporary, found.moves, found.refuses) == (0, True, True)


def test_a_machine_that_ends_soon_lets_its_engine_go_at_once_and_a_successor_starts() -> None:
    found = decided(engine("a", "gone"), leaving=SPOT)
    assert (found.temporary, found.refuses) == (1, False)


def test_a_claim_that_one_node_mounts_leaves_no_place_for_a_successor() -> None:
    found = decided(engine("a", "gone"), one_node=True)
    assert (found.temporary, found.refuses) == (0, False)


def test_several_leavers_get_as_many_successors_as_there_are_places() -> None:
    two = (engine("a", "gone"), engine("b", "gone"))
    assert decided(*two, wanted=2, results=free(1)).temporary == 1
    assert decided(*two, wanted=2, results=free(5)).temporary == 2
    live = [workload(2, MoveRecord(NOW), replicas=2)]
    half = decided(*two, engine("c", "good"), starting("d"), wanted=2, workloads=live, results=free(0))
    assert half.temporary == 2, "with fewer pods the ReplicaSet would end the one that starts"
    left = decided(two[0], starting("c"), starting("d"), wanted=2, workloads=live, results=free(0))
    assert left.temporary == 1, "one of them was evicted"


def test_engines_that_do_not_serve_and_services_at_zero_do_not_move() -> None:
    for left in (starting("a", "gone"), engine("a", "gone", terminating=True)):
        assert decided(left).temporary == 0
    assert decided(engine("a", "gone"), wanted=0) == Move(may_refuse=True)


def test_a_rollout_brings_the_successor_itself() -> None:
    found = decided(engine("a", "gone", template=OLD), starting("b"))
    assert (found.temporary, found.moves, found.refuses) == (0, True, True)


def test_where_others_serve_the_leaver_is_the_one_that_goes() -> None:
    found = decided(engine("a", "gone"), engine("b", "good"), results=free(0))
    assert (found.temporary, found.moves) == (0, True)


def test_an_edited_annotation_is_no_record() -> None:
    live = {**workload(), "metadata": {"name": "qwen-engine", "annotations": {MOVE_ANNOTATION.key: "{}"}}}
    assert decided(engine("a", "gone"), workloads=[live]).record == MoveRecord(NOW)


def test_a_sign_that_keeps_no_pods_away_costs_one_successor_and_no_more() -> None:
    live = [workload(1, MoveRecord(NOW - MINUTE))]
    both = (engine("a", "gone"), engine("b", "gone", created=NOW))
    found = decided(*both, workloads=live)
    assert (found.temporary, found.moves, found.record) == (0, False, MoveRecord(NOW - MINUTE, gave_up=True))
    again = decided(both[0], workloads=[workload(0, found.record)])
    assert (again.temporary, again.refuses) == (0, False)
    label_only = {"good": DrainingNode("good", "which is maintained")}
    assert decided(engine("a", "good"), leaving=label_only, results=free(1)).temporary == 0, "its free GPU is no place"


def test_an_engine_whose_node_is_cordoned_in_the_second_of_its_creation_moves_too() -> None:
    young = engine("a", "gone", created=NOW.replace(microsecond=0))
    first = decided(young)
    assert (first.temporary, first.moves) == (1, True)
    assert first.record is not None
    live = [workload(1, first.record)]
    again = decided(young, starting("b"), workloads=live, results=free(0))
    assert (again.temporary, again.moves, again.record) == (1, True, first.record)
    came = engine("b", "gone", created=NOW + timedelta(seconds=2))
    assert decided(young, came, workloads=live).record == replace(first.record, gave_up=True)


def test_a_leaver_moves_also_if_another_engine_was_created_on_its_node_in_the_same_second() -> None:
    young = engine("b", "gone", ready=False, created=NOW.replace(microsecond=0))
    first = decided(engine("a", "gone"), young, wanted=2, results=free(2))
    assert first.record is not None
    again = decided(engine("a", "gone"), young, wanted=2, workloads=[workload(1, first.record, 2)], results=free(2))
    assert again.record == first.record


def test_a_successor_stays_while_its_engine_is_not_ready_for_a_moment_or_has_lost_its_node() -> None:
    live = [workload(1, MoveRecord(NOW - MINUTE))]
    unready = decided(engine("a", "gone", ready=False), pending("b"), workloads=live, node_wait=15 * MINUTE)
    assert (unready.temporary, unready.refuses) == (1, True)
    no_node = decided(engine("a", "deleted", ready=False), pending("b"), workloads=live, node_wait=15 * MINUTE)
    assert (no_node.temporary, no_node.record) == (1, MoveRecord(NOW - MINUTE))
    evicted = decided(pending("b"), workloads=live, node_wait=15 * MINUTE)
    assert (evicted.temporary, evicted.record) == (0, None)


def test_an_eviction_is_not_refused_where_nobody_could_know_for_how_long() -> None:
    assert not decided(engine("a", "gone"), can_record=False).refuses
    recorded = [workload(1, MoveRecord(NOW))]
    assert decided(engine("a", "gone"), can_record=False, workloads=recorded).refuses


def test_replicas_that_somebody_else_writes_are_all_wanted() -> None:
    live = workload(1, MoveRecord(NOW))
    assert (role_view([live]).desired, role_view([live]).temporary) == (1, 1)
    live["spec"]["replicas"] = 1
    assert (role_view([live]).desired, role_view([live]).temporary) == (1, 0)


@dataclass
class Cluster:
    """Engines as a ReplicaSet, a scheduler and kubelets make them, on nodes with one GPU each."""

    nodes: list[str]
    wanted: int
    node_wait: timedelta | None
    now: datetime = NOW
    leaving: set[str] = field(default_factory=set)
    engines: list[EngineView] = field(default_factory=list)
    live: Manifest = field(default_factory=workload)
    made: int = 0

    def replicas(self) -> int:
        found: int = self.live["spec"]["replicas"]
        return found

    def operate(self) -> Move:
        gone = {name: DrainingNode(name, "which is cordoned") for name in self.leaving}
        taken = {one.leader.node for one in self.engines}
        gpus = [NodeGpus(node_view(node(n, gpus=1, cordoned=n in gone)), 1, int(n not in taken)) for n in self.nodes]
        waits = sum(not one.leader.node for one in self.engines)
        inputs = replace(
            BASE,
            engines=tuple(self.engines),
            leaving=gone,
            wanted=self.wanted,
            workloads=[self.live],
            node_wait=self.node_wait,
        )
        found = move(inputs, {LOOKUP: ClusterGpus(tuple(gpus), waits)}, self.now)
        names = {one.name for one in found.draining if found.moves}
        self.live = workload(found.temporary, found.record, self.wanted)
        self.control()
        self.engines = [marked(one) if one.name in names else one for one in self.engines]
        return found

    def control(self) -> None:
        """What a ReplicaSet does (Kubernetes 1.36, ActivePodsWithRanks), and a scheduler."""

        def rank(one: EngineView) -> tuple[bool, bool, int, int]:
            pod = one.leader
            return bool(pod.node), pod.ready, pod.deletion_cost, -self.engines.index(one)

        while len(self.engines) > self.replicas():
            self.engines.remove(min(self.engines, key=rank))
        while len(self.engines) < self.replicas():
            self.made += 1
            self.engines.append(pending(f"e{self.made}", NOW - self.now))
        for number, one in enumerate(self.engines):
            taken = {other.leader.node for other in self.engines}
            places = [name for name in self.nodes if name not in taken | self.leaving]
            if not one.leader.node and places:
                self.engines[number] = EngineView(replace(one.leader, node=places[0], problem=None))

    def become_ready(self, number: int) -> None:
        loading = [at for at, one in enumerate(self.engines) if one.leader.node and not one.ready]
        if loading:
            at = loading[number % len(loading)]
            self.engines[at] = EngineView(replace(self.engines[at].leader, ready=True, ready_since=self.now))

    @property
    def serving(self) -> int:
        return sum(one.ready for one in self.engines)


NAMES = ("n0", "n1", "n2", "n3", "n4")
STEPS = st.lists(
    st.tuples(st.sampled_from(("ready", "cordon", "uncordon", "wait", "operate")), st.integers(0, 4)), max_size=30
)


def rest(cluster: Cluster) -> Iterator[int]:
    """What serves while everything that loads becomes ready, and time passes."""
    for _ in range(3 * len(NAMES)):
        cluster.operate()
        yield cluster.serving
        cluster.become_ready(0)
        cluster.now += MINUTE


@given(wanted=st.integers(1, 3), room=st.integers(1, 5), elastic=st.booleans(), steps=STEPS)
@example(wanted=2, room=1, elastic=True, steps=[("cordon", 0), ("operate", 0), ("uncordon", 0)])
def test_cordons_and_uncordons_in_any_order_never_cost_an_engine_that_is_wanted(
    *, wanted: int, room: int, elastic: bool, steps: Sequence[tuple[str, int]]
) -> None:
    cluster = Cluster(list(NAMES[:room]), wanted, 5 * MINUTE if elastic else None)
    cluster.operate()
    for _ in range(wanted):
        cluster.become_ready(0)
    least = cluster.serving
    for act, number in steps:
        match act:
            case "ready":
                cluster.become_ready(number)
            case "cordon":
                cluster.leaving.add(NAMES[number])
            case "uncordon":
                cluster.leaving.discard(NAMES[number])
            case "wait":
                cluster.now += MINUTE
            case _:
                cluster.operate()
        assert cluster.serving >= least, "nothing was evicted"
        assert len(cluster.engines) <= 3 * wanted
        least = min(wanted, cluster.serving)
    made = [(tuple(one.name for one in cluster.engines), cluster.made) for serving in rest(cluster) if serving >= least]
    assert made[-1] == made[-2], "it comes to rest"
    assert len(cluster.engines) == wanted
    stay = [name for name in cluster.nodes if name not in cluster.leaving]
    on_leaving = sum(one.leader.node in cluster.leaving for one in cluster.engines)
    assert on_leaving <= max(0, wanted - len(stay)) or any(move_gave_up(cluster))


def move_gave_up(cluster: Cluster) -> Iterator[bool]:
    """Whether a successor has waited too long: then the others stay until somebody evicts them."""
    yield '"gave_up":true' in cluster.live["metadata"]["annotations"].get(MOVE_ANNOTATION.key, "")
