"""Which obstacles of a new engine end an old one: the table, each strategy, and what is never a cause to end one."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_operator.api.reasons import Reason
from inference_operator.api.spec import RolloutStrategy
from inference_operator.manifest import Manifest
from inference_operator.views.draining_node import DrainingNode
from inference_operator.views.engine import engines_of
from inference_operator.views.lookups import EventsLookup, EventSummary, LogLookup, LookupResults, ObjectEvents
from inference_operator.views.pod import TEMPLATE_HASH_ANNOTATION, PodProblem, PodView, Terminated
from inference_operator.views.pod_startup import PodStartup, StartupStage
from inference_operator.views.workload import WorkloadView
from inference_operator.workload.eviction.drain import move
from inference_operator.workload.eviction.obstacles import APART, ROOM, UNFIT, Lasting, Start, _has_place_for_one
from inference_operator.workload.eviction.rollout import (
    ROLLOUT_ANNOTATION,
    EngineSet,
    Rollout,
    RolloutReason,
    creation_lookups,
    lasting_obstacle,
    rollout,
    surge_cure,
    switch_due,
)
from tests.testing.builders import NOW
from tests.testing.nodes import GPU, container

AUTO, SURGE, REPLACE = RolloutStrategy
OLD, NEW = "old", "new"
NODE_WAIT, LIMIT = timedelta(minutes=15), timedelta(seconds=30)
AGE = timedelta(hours=1)
NODES = "0/5 nodes are available: 1 node(s) "
QUOTA = 'pods "qwen-x" is forbidden: exceeded quota: gpus, requested: {}, used: {}, limited: {}'
GPUS = "requests.nvidia.com/gpu={}"
ONE_MORE = QUOTA.format(GPUS.format(1), GPUS.format(1), GPUS.format(1))
FULL, NO_NODE, IN_USE = RolloutReason.QUOTA_FULL, RolloutReason.NO_NODE_CAME, RolloutReason.VOLUME_IN_USE
MULTI_ATTACH = 'Multi-Attach error for volume "weights" Volume is already used by pod(s) {}'
MAY_SWITCH = (RolloutReason.FREE_SLOT, RolloutReason.UNKNOWN, RolloutReason.NO_GPUS, RolloutReason.NODE_MAY_COME)


def pod(template: str, **more: object) -> PodView:
    view = PodView(f"engine-{template}", "engine", NOW - AGE, ready=True, terminating=False, failed=False, problem=None)
    return replace(view, template=template, uid=template, **more)  # type: ignore[arg-type]


def unready(**more: object) -> PodView:
    return pod(NEW, ready=False, **more)


def unschedulable(words: str) -> PodView:
    return unready(problem=PodProblem(Reason.UNSCHEDULABLE, NODES + words))


def waiting_for_volumes() -> PodView:
    return unready(node="far", start=PodStartup(StartupStage.SANDBOX, NOW - AGE, None))


def events(message: str) -> LookupResults:
    return {EventsLookup("chat", f"engine-{NEW}", NEW): ObjectEvents((EventSummary("FailedAttachVolume", message),))}


def surging(
    *pods: PodView, refused: str = "", asked: RolloutStrategy = AUTO, recorded: Rollout | None = None
) -> EngineSet:
    """One engine of the earlier template serves, and a new one should start."""
    decided = recorded or Rollout(NEW, SURGE, RolloutReason.FREE_SLOT if asked is AUTO else RolloutReason.ASKED)
    since = (NOW - AGE).isoformat()
    failure = {"type": "ReplicaFailure", "status": "True", "message": refused, "lastTransitionTime": since}
    live: Manifest = {
        "kind": "Deployment",
        "metadata": {"namespace": "chat", "annotations": ROLLOUT_ANNOTATION.entry(decided)},
        "spec": {"template": {"spec": {"containers": [container(1)]}}},
        "status": {"conditions": [failure] if refused else []},
    }
    return EngineSet(
        engines=engines_of([pod(OLD), *pods]),
        workloads=[live],
        template=NEW,
        pod={"containers": [container(1)]},
        gpu_resource=GPU,
        strategy=asked,
        node_wait=NODE_WAIT,
        longest_start=timedelta(0),
        eviction_wait=None,
    )


CASES: dict[str, tuple[EngineSet, LookupResults, RolloutReason | None, timedelta]] = {
    "no room": (surging(unschedulable("Insufficient nvidia.com/gpu")), {}, NO_NODE, NODE_WAIT),
    "too many pods": (surging(unschedulable("Too many pods")), {}, NO_NODE, NODE_WAIT),
    "anti-affinity": (surging(unschedulable("didn't match pod anti-affinity rules")), {}, NO_NODE, NODE_WAIT),
    "anti-affinity of others": (
        surging(unschedulable("didn't satisfy existing pods anti-affinity rules")),
        {},
        NO_NODE,
        NODE_WAIT,
    ),
    "spread": (surging(unschedulable("didn't match pod topology spread constraints")), {}, NO_NODE, NODE_WAIT),
    "ports": (surging(unschedulable("didn't have free ports for the requested pod ports")), {}, NO_NODE, NODE_WAIT),
    "claim of one pod": (
        surging(
            unschedulable(
                "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"
            )
        ),
        {},
        IN_USE,
        timedelta(0),
    ),
    "quota": (surging(refused=ONE_MORE), {}, FULL, LIMIT),
    "volume elsewhere": (surging(waiting_for_volumes()), events(MULTI_ATTACH.format("engine-old")), IN_USE, LIMIT),
    "volume elsewhere, of whom is unknown": (
        surging(waiting_for_volumes()),
        events('Multi-Attach error for volume "weights" Volume is already exclusively attached to one node'),
        IN_USE,
        LIMIT,
    ),
    "volume of others": (surging(waiting_for_volumes()), events(MULTI_ATTACH.format("batch-1")), None, LIMIT),
    "missing volume": (surging(waiting_for_volumes()), events('secret "a" not found'), None, LIMIT),
    "quota below one pod": (
        surging(refused=QUOTA.format("memory=2Gi", "memory=0", "memory=1Gi")),
        {},
        None,
        LIMIT,
    ),
    "quota below what runs": (surging(refused=QUOTA.format("pods=1", "pods=4", "pods=2")), {}, None, LIMIT),
    "quota that counts more": (surging(refused="failed quota: q: must specify memory for: engine"), {}, None, LIMIT),
    "quota in unknown words": (surging(refused="exceeded quota: q"), {}, None, LIMIT),
    "limit range": (surging(refused="forbidden: maximum memory usage per Container is 1Gi"), {}, None, LIMIT),
    "admission": (surging(refused='admission webhook "w" denied the request'), {}, None, LIMIT),
    "spread without a label": (
        surging(unschedulable("didn't match pod topology spread constraints (missing required label)")),
        {},
        None,
        LIMIT,
    ),
    "selector": (surging(unschedulable("didn't match Pod's node affinity/selector")), {}, None, LIMIT),
    "image": (surging(unready(problem=PodProblem(Reason.IMAGE_PULL_FAILED, "not found"))), {}, None, LIMIT),
    "crash": (surging(unready(problem=PodProblem(Reason.CRASH_LOOP, "ended"))), {}, None, LIMIT),
    "never ready": (surging(unready()), {}, None, LIMIT),
    "rejected by its node": (
        surging(unready(failed=True, problem=PodProblem(Reason.POD_REJECTED, "UnexpectedAdmissionError"))),
        {},
        None,
        LIMIT,
    ),
}
"""Each obstacle: what is seen, why the rollout switches to replace if it does, and after which time."""


@pytest.mark.parametrize("name", CASES)
def test_only_an_obstacle_that_the_end_of_an_engine_removes_ends_one_after_its_limit(name: str) -> None:
    engines, results, why, limit = CASES[name]
    begin = NOW - AGE
    due = switch_due(engines, results)
    assert due == (begin + limit if why else None)
    before = rollout(engines, results, nodes_visible=True, now=begin + limit - timedelta(seconds=1))
    after = rollout(engines, results, nodes_visible=True, now=begin + AGE)
    assert before == Rollout(NEW, SURGE, RolloutReason.FREE_SLOT)
    assert after == (Rollout(NEW, REPLACE, why) if why else before)


@pytest.mark.parametrize("name", CASES)
def test_a_surge_as_asked_never_switches_and_names_the_strategy_that_would_help(name: str) -> None:
    engines, results, why, _ = CASES[name]
    asked = surging_as(engines, SURGE, RolloutReason.ASKED)
    assert rollout(asked, results, nodes_visible=True, now=NOW) == Rollout(NEW, SURGE, RolloutReason.ASKED)
    assert ("spec.rollout.strategy: Replace" in surge_cure(asked, results)) is bool(why)
    assert switch_due(asked, results) is None
    assert surge_cure(engines, results) == ""


def surging_as(engines: EngineSet, asked: RolloutStrategy, why: RolloutReason, /, **more: object) -> EngineSet:
    """The same with another record."""
    meta = {**engines.workloads[0]["metadata"], "annotations": ROLLOUT_ANNOTATION.entry(Rollout(NEW, SURGE, why))}
    return replace(engines, strategy=asked, workloads=[{**engines.workloads[0], "metadata": meta}], **more)  # type: ignore[arg-type]


OTHER_LIMITS = {"never ready": None, "rejected by its node": None}
"""One is the progress deadline's matter. The other's pods are replaced all the time: the first one kept shows it."""
STALL = timedelta(minutes=10)


def stall_of(name: str) -> Lasting | None:
    engines, _, _, _ = CASES[name]
    waits = any(row.node_helps for row in (ROOM, APART, UNFIT) if row.since(start_of(engines)))
    return OTHER_LIMITS.get(name, Lasting(NOW - AGE, NODE_WAIT if waits else STALL))


def start_of(engines: EngineSet) -> Start:
    return Start(new=engines.engines[1:], old=engines.engines[:1], workload=WorkloadView(), results={})


@pytest.mark.parametrize("name", CASES)
def test_what_holds_a_rollout_for_which_no_engine_ends_has_a_limit(name: str) -> None:
    engines, results, why, _ = CASES[name]
    assert lasting_obstacle(engines, results) == (None if why else stall_of(name))
    for asked in (SURGE, REPLACE):
        assert lasting_obstacle(surging_as(engines, asked, RolloutReason.ASKED), results) == stall_of(name)
    assert lasting_obstacle(surging_as(engines, AUTO, RolloutReason.NO_USE), results) == stall_of(name)
    assert lasting_obstacle(replace(engines, engines=engines.engines[1:]), results) is None


def test_the_limit_counts_from_the_first_end_of_a_container_and_from_the_end_of_old_engines() -> None:
    log = LogLookup("chat", "engine", "u", "engine", 0, previous=True, running=False)
    ended = Terminated("", log, timedelta(minutes=8))
    crashing = surging(unready(problem=PodProblem(Reason.CRASH_LOOP, "ended", ended)))
    assert lasting_obstacle(crashing, {}) == Lasting(NOW - AGE + timedelta(minutes=8), STALL)
    served = surging(unready(problem=PodProblem(Reason.CRASH_LOOP, "ended", ended), has_served=True))
    assert lasting_obstacle(served, {}) is None, "nobody knows when it first ended: the progress deadline counts"
    ends_by = NOW + timedelta(minutes=5)
    ending = engines_of([pod(OLD, terminating=True, ends_by=ends_by)])
    later = replace(crashing, engines=[*crashing.engines, *ending])
    assert lasting_obstacle(later, {}) == Lasting(ends_by, STALL)


def test_a_full_quota_ends_no_engine_for_one_that_requests_more() -> None:
    live: Manifest = {**surging().workloads[0], "metadata": {"annotations": {}}}
    larger = {"containers": [{**container(1), "resources": {"limits": {GPU: "1"}, "requests": {"memory": "2Gi"}}}]}
    first = replace(surging(), workloads=[live], pod=larger)
    decided = rollout(first, {}, nodes_visible=False, now=NOW)
    assert decided == Rollout(NEW, SURGE, RolloutReason.UNKNOWN, needs_more=True)
    assert switch_due(surging(refused=ONE_MORE, recorded=decided), {}) is None
    assert switch_due(surging(refused=ONE_MORE, recorded=replace(decided, needs_more=False)), {}) is not None


def test_an_engine_that_still_ends_may_free_the_quota_by_itself() -> None:
    ends_by = NOW + timedelta(minutes=5)
    ending = pod(OLD, terminating=True, ends_by=ends_by)
    assert switch_due(surging(ending, refused=ONE_MORE), {}) == ends_by + LIMIT


def test_a_refusal_of_an_earlier_specification_ends_no_engine() -> None:
    engines = surging(refused=ONE_MORE)
    live = engines.workloads[0]
    unseen = {
        **live,
        "metadata": {**live["metadata"], "generation": 2},
        "status": {**live["status"], "observedGeneration": 1},
    }
    assert switch_due(replace(engines, workloads=[unseen]), {}) is None


@given(
    name=st.sampled_from([name for name, (_, _, why, _) in CASES.items() if why is None]),
    why=st.sampled_from(MAY_SWITCH),
    asked=st.sampled_from((AUTO, SURGE)),
    waits=st.booleans(),
    drained=st.booleans(),
    budgets=st.booleans(),
    serving=st.integers(1, 3),
    hours=st.integers(0, 100),
)
def test_no_engine_ends_for_an_obstacle_that_this_does_not_remove(
    *,
    name: str,
    why: RolloutReason,
    asked: RolloutStrategy,
    waits: bool,
    drained: bool,
    budgets: bool,
    serving: int,
    hours: int,
) -> None:
    """It is named as what holds the rollout, until its limit. A drain waits for no successor longer than it says."""
    engines, results, _, _ = CASES[name]
    recorded, now = RolloutReason.ASKED if asked is SURGE else why, NOW + timedelta(hours=hours)
    drawn = surging_as(
        engines,
        asked,
        recorded,
        engines=[*engines_of([pod(OLD, node="near")] * serving), *engines.engines[1:]],
        node_wait=NODE_WAIT if waits else None,
        leaving={"near": DrainingNode("near", "which is cordoned")} if drained else {},
        wanted=serving,
        budgets=budgets,
    )
    assert rollout(drawn, results, nodes_visible=True, now=now) == Rollout(NEW, SURGE, recorded)
    assert (lasting_obstacle(drawn, results) is None) is (name in OTHER_LIMITS)
    moving = move(drawn, results, now)
    assert moving.temporary == 0
    assert moving.due is not None or not (drained and moving.refuses)
    assert moving.may_refuse is (budgets or serving > 1)


def test_a_quota_that_refuses_the_pods_of_a_new_group_ends_an_old_one() -> None:
    """Only Events show it, so they are asked for."""
    engines = surging()
    meta = {"name": "qwen-engine-1", "namespace": "chat", "uid": "set", "creationTimestamp": (NOW - AGE).isoformat()}
    template = {"metadata": {"annotations": {TEMPLATE_HASH_ANNOTATION: NEW}}}
    group: Manifest = {
        "kind": "StatefulSet",
        "metadata": {**meta, "annotations": engines.workloads[0]["metadata"]["annotations"]},
        "spec": {"replicas": 2, "template": template},
    }
    waiting = replace(engines, workloads=[group])
    (lookup,) = creation_lookups(waiting)
    failed = EventSummary("FailedCreate", f"create Pod a in StatefulSet b failed error: {ONE_MORE}")
    events: LookupResults = {lookup: ObjectEvents((failed, EventSummary("SuccessfulCreate", "create Pod b")))}
    assert switch_due(waiting, {}) is None
    assert rollout(waiting, events, nodes_visible=True, now=NOW) == Rollout(NEW, REPLACE, FULL)
    members = [unready(group="qwen-engine-1", index=index) for index in range(2)]
    whole = replace(waiting, engines=engines_of([pod(OLD), *members]))
    assert (creation_lookups(whole), switch_due(whole, events)) == ([], None)


def test_a_quota_with_a_place_for_one_pod_is_only_full() -> None:
    text = "exceeded quota: q, requested: {0}, used: {1}, limited: {1}"
    assert _has_place_for_one(text.format("pods=1", "pods=1"))
    assert not _has_place_for_one(text.format("memory=2Gi", "memory=1Gi"))
