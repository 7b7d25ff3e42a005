"""The decision between surge and replace, and its reason."""

from dataclasses import replace
from datetime import timedelta

import pytest

from inference_operator.api.reasons import Reason
from inference_operator.api.spec import RolloutStrategy
from inference_operator.manifest import Manifest
from inference_operator.views.engine import engines_of
from inference_operator.views.lookups import ClusterGpus, FreeGpusLookup, Lookup, LookupResult, NodeGpus, Unavailable
from inference_operator.views.node import node_view
from inference_operator.views.pod import PodProblem, PodView
from inference_operator.workload.eviction.obstacles import UNSCHEDULABLE_LIMIT
from inference_operator.workload.eviction.rollout import (
    ROLLOUT_ANNOTATION,
    EngineSet,
    Rollout,
    RolloutReason,
    rollout,
    switch_due,
)
from tests.testing.builders import NOW
from tests.testing.nodes import GPU, container, node

AUTO, SURGE, REPLACE = RolloutStrategy
LOOK = FreeGpusLookup(GPU)
OLD, NEW = "old", "new"
NO_ROOM = PodProblem(Reason.UNSCHEDULABLE, "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.")
NO_SUCH_NODE = PodProblem(Reason.UNSCHEDULABLE, "0/3 nodes are available: 3 node(s) didn't match Pod's node selector.")


def pod(template: str = OLD, *, problem: PodProblem | None = None, age: int = 0) -> PodView:
    return PodView(
        name=f"qwen-engine-{template}",
        component="engine",
        created=NOW - timedelta(seconds=age),
        ready=problem is None,
        terminating=False,
        failed=False,
        problem=problem,
        template=template,
    )


def deployment(*, gpus: int = 1, carries: Rollout | None = None) -> Manifest:
    annotations = ROLLOUT_ANNOTATION.entry(carries)
    return {
        "metadata": {"annotations": annotations},
        "spec": {"template": {"spec": {"containers": [container(gpus)]}}},
    }


def moving(
    *pods: PodView, asked: RolloutStrategy = AUTO, live: Manifest | None = None, template: str = NEW, gpus: int = 1
) -> EngineSet:
    return EngineSet(
        strategy=asked,
        template=template,
        pod={"containers": [container(gpus)]},
        workloads=[live] if live else [],
        engines=engines_of(pods),
        gpu_resource=GPU,
        longest_start=timedelta(0),
        eviction_wait=None,
    )


def free_gpus_result(*free: int, total: int = 8) -> dict[Lookup, LookupResult]:
    """The free GPUs of each node."""
    return {LOOK: ClusterGpus(tuple(NodeGpus(node_view(node(f"n{n}")), total, left) for n, left in enumerate(free)), 0)}


def decided(
    engines: EngineSet, seen: dict[Lookup, LookupResult] | None = None, *, visible: bool = True
) -> Rollout | FreeGpusLookup:
    return rollout(engines, seen or {}, nodes_visible=visible, now=NOW)


FIRST = Rollout(OLD, SURGE, RolloutReason.NOTHING_RUNS)
LIVE = deployment(carries=FIRST)


def test_a_workload_without_running_pods_surges_because_nothing_runs() -> None:
    assert decided(moving()) == Rollout(NEW, SURGE, RolloutReason.NOTHING_RUNS)
    assert decided(moving(live=LIVE)) == Rollout(NEW, SURGE, RolloutReason.NOTHING_RUNS)
    leaving = replace(pod(), terminating=True)
    assert decided(moving(leaving, live=LIVE)) == Rollout(NEW, SURGE, RolloutReason.NOTHING_RUNS)


@pytest.mark.parametrize("asked", [SURGE, REPLACE])
def test_a_requested_rollout_strategy_is_used_without_a_lookup(asked: RolloutStrategy) -> None:
    for live, template in ((None, NEW), (LIVE, NEW), (LIVE, OLD)):
        engines = moving(pod(), asked=asked, live=live, template=template)
        assert decided(engines) == Rollout(template, asked, RolloutReason.ASKED)
        assert switch_due(engines, {}) is None


def test_a_rollout_is_undecided_until_free_gpus_are_looked_up() -> None:
    assert decided(moving(pod(), live=LIVE)) == LOOK


@pytest.mark.parametrize(
    ("seen", "strategy", "why"),
    [
        (free_gpus_result(1), SURGE, RolloutReason.FREE_SLOT),
        (free_gpus_result(0), REPLACE, RolloutReason.NO_FREE_SLOT),
        (free_gpus_result(0, total=0), SURGE, RolloutReason.NO_USE),
        ({LOOK: Unavailable("the operator has no right to it")}, SURGE, RolloutReason.UNKNOWN),
    ],
)
def test_the_rollout_strategy_of_a_new_template_depends_on_free_gpus(
    seen: dict[Lookup, LookupResult], strategy: RolloutStrategy, why: RolloutReason
) -> None:
    assert decided(moving(pod(), live=LIVE), seen) == Rollout(NEW, strategy, why)


def test_the_rollout_surges_when_nodes_or_gpus_are_not_visible() -> None:
    assert decided(moving(pod(), live=LIVE), visible=False) == Rollout(NEW, SURGE, RolloutReason.UNKNOWN)
    live = deployment(gpus=0, carries=FIRST)
    assert decided(moving(pod(), live=live, gpus=0)) == Rollout(NEW, SURGE, RolloutReason.NO_GPUS)


@pytest.mark.parametrize(
    ("free", "strategy", "why"),
    [((2, 0), REPLACE, RolloutReason.NO_FREE_SLOT), ((1, 1), SURGE, RolloutReason.FREE_SLOT)],
)
def test_a_group_surges_only_where_all_of_its_pods_find_free_gpus(
    free: tuple[int, ...], strategy: RolloutStrategy, why: RolloutReason
) -> None:
    of_two_pods = replace(moving(pod(), live=LIVE), pods_per_engine=2)
    assert decided(of_two_pods, free_gpus_result(*free)) == Rollout(NEW, strategy, why)


@pytest.mark.parametrize("seen", [free_gpus_result(1), {LOOK: Unavailable("no")}])
def test_the_rollout_surges_when_ending_an_engine_frees_too_few_gpus(seen: dict[Lookup, LookupResult]) -> None:
    assert decided(moving(pod(), live=LIVE, gpus=2), seen) == Rollout(NEW, SURGE, RolloutReason.NO_USE)
    assert decided(moving(pod(), live=LIVE, gpus=2), free_gpus_result(2)) == Rollout(
        NEW, SURGE, RolloutReason.FREE_SLOT, needs_more=True
    )


@pytest.mark.parametrize(
    "standing", [Rollout(NEW, REPLACE, RolloutReason.NO_FREE_SLOT), Rollout(NEW, SURGE, RolloutReason.FREE_SLOT)]
)
def test_a_recorded_rollout_decision_stays_when_free_gpus_change(standing: Rollout) -> None:
    live = deployment(carries=standing)
    for pods in ((), (pod(NEW),), (pod(OLD), pod(NEW))):
        assert decided(moving(*pods, live=live), free_gpus_result(0)) == standing
        assert decided(moving(*pods, live=live), free_gpus_result(8)) == standing


def surging(why: RolloutReason = RolloutReason.FREE_SLOT, *, age: int, problem: PodProblem = NO_ROOM) -> EngineSet:
    live = deployment(carries=Rollout(NEW, SURGE, why))
    return moving(pod(OLD), pod(NEW, problem=problem, age=age), live=live)


def test_an_unschedulable_surge_switches_to_replace_once() -> None:
    young, old = surging(age=29), surging(age=30)
    assert decided(young) == Rollout(NEW, SURGE, RolloutReason.FREE_SLOT)
    assert switch_due(young, {}) == NOW + timedelta(seconds=1)
    switched = decided(old)
    assert switched == Rollout(NEW, REPLACE, RolloutReason.UNSCHEDULABLE)
    after = replace(old, workloads=[deployment(carries=switched)])
    assert decided(after) == switched
    assert switch_due(after, {}) is None
    assert decided(replace(after, engines=engines_of([pod(NEW, problem=NO_ROOM, age=900)]))) == switched


@pytest.mark.parametrize("why", [RolloutReason.UNKNOWN, RolloutReason.NO_GPUS, RolloutReason.ASKED])
def test_an_unschedulable_surge_without_counted_gpus_switches_to_replace(why: RolloutReason) -> None:
    assert decided(surging(why, age=31)) == Rollout(NEW, REPLACE, RolloutReason.UNSCHEDULABLE)


def test_a_surge_never_switches_to_replace_where_that_would_not_help() -> None:
    """A new engine that fits no node must not end the engine that serves."""
    assert switch_due(surging(age=600, problem=NO_SUCH_NODE), {}) is None
    assert switch_due(surging(RolloutReason.NO_USE, age=600), {}) is None
    assert switch_due(surging(age=600, problem=PodProblem(Reason.IMAGE_PULL_FAILED, "not found")), {}) is None
    alone = surging(age=600)
    assert switch_due(replace(alone, engines=alone.engines[1:]), {}) is None


def test_the_unschedulable_limit_is_30_seconds_as_documented() -> None:
    assert timedelta(seconds=30) == UNSCHEDULABLE_LIMIT


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"template": "new", "strategy": "Sideways", "why": "Asked"}'])
def test_an_invalid_rollout_annotation_is_decided_again(text: str) -> None:
    live = deployment()
    live["metadata"]["annotations"] = {ROLLOUT_ANNOTATION.key: text}
    assert decided(moving(pod(), live=live), free_gpus_result(0)) == Rollout(NEW, REPLACE, RolloutReason.NO_FREE_SLOT)


WAIT = timedelta(minutes=15)


def elastic(engines: EngineSet, *more: PodView) -> EngineSet:
    return replace(engines, node_wait=WAIT, engines=(*engines.engines, *engines_of(more)))


def test_where_nodes_can_be_added_the_last_ready_engine_is_kept_and_a_node_awaited() -> None:
    full = free_gpus_result(0)
    assert decided(elastic(moving(pod(), live=LIVE)), full) == Rollout(NEW, SURGE, RolloutReason.NODE_MAY_COME)
    assert decided(moving(pod(), live=LIVE), full) == Rollout(NEW, REPLACE, RolloutReason.NO_FREE_SLOT)


def test_of_several_ready_engines_one_is_replaced_without_waiting_for_a_node() -> None:
    two = elastic(moving(pod(), live=LIVE), pod())
    assert decided(two, free_gpus_result(0)) == Rollout(NEW, REPLACE, RolloutReason.NO_FREE_SLOT)
    assert switch_due(elastic(surging(age=0), pod()), {}) == NOW + UNSCHEDULABLE_LIMIT


@pytest.mark.parametrize("why", [RolloutReason.NODE_MAY_COME, RolloutReason.FREE_SLOT, RolloutReason.UNKNOWN])
def test_a_surge_that_got_no_node_in_time_switches_to_replace(why: RolloutReason) -> None:
    waiting, late = elastic(surging(why, age=899)), elastic(surging(why, age=900))
    assert decided(waiting) == Rollout(NEW, SURGE, why)
    assert switch_due(waiting, {}) == NOW + timedelta(seconds=1)
    assert decided(late) == Rollout(NEW, REPLACE, RolloutReason.NO_NODE_CAME)


@pytest.mark.parametrize(("node", "one_node", "then"), [("b", 1, REPLACE), ("a", 1, SURGE), ("b", 0, SURGE)])
def test_a_surge_whose_claim_is_mounted_on_another_node_switches_to_replace(
    node: str, one_node: int, then: RolloutStrategy
) -> None:
    started = Rollout(NEW, SURGE, RolloutReason.FREE_SLOT)
    old, new = replace(pod(), node="a"), replace(pod(NEW), ready=False, node=node)
    request = replace(moving(old, new, live=deployment(carries=started)), one_node=bool(one_node))
    decided = rollout(request, {}, nodes_visible=True, now=NOW)
    assert isinstance(decided, Rollout)
    assert decided.strategy is then
