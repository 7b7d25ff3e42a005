"""The objects of a service whose engine or only router is on a node that is leaving."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from inference_operator.api.administrator_policy import AdministratorPolicy
from inference_operator.api.reasons import ConditionType, Reason
from inference_operator.manifest import STATEFUL_SET, Manifest, Ref
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.outcomes import Outcome, Paused, Planned, Refused
from inference_operator.settings import Settings
from inference_operator.status.report import report
from inference_operator.views.draining_node import DrainingNode
from inference_operator.views.engine import engines_of
from inference_operator.views.node import node_view
from inference_operator.views.pod import TEMPLATE_HASH_ANNOTATION, PodView, pod_view
from inference_operator.views.workload import TEMPORARY_ANNOTATION, role_view
from inference_operator.workload.eviction.drain import DRAINING_COST, MOVE_ANNOTATION
from inference_operator.workload.eviction.obstacles import UNSCHEDULABLE_LIMIT
from tests.testing.builders import (
    BUDGET_OF_ENGINES,
    BUDGET_OF_ROUTERS,
    ENGINES,
    NOW,
    ROUTERS,
    deployment_status,
    inference_deployment,
    inputs,
    planned,
    pod,
    ready_pod,
)
from tests.testing.nodes import node

LEAVING = {"gone": DrainingNode("gone", "which is cordoned")}
OPEN, CLOSED = {"maxUnavailable": 1}, {"minAvailable": 1}
GOES_ON = {"minAvailable": 0}
"""The only one may go, although Kubernetes expects its temporary successor to be healthy."""
QWEN = inference_deployment()


def as_live(manifest: Manifest, number: int = 0) -> Manifest:
    """A child as the API server has it."""
    system = {"uid": f"uid-{number}", "generation": 1, "creationTimestamp": NOW.isoformat()}
    found = {**manifest, "metadata": {**manifest["metadata"], **system}}
    count = manifest.get("spec", {}).get("replicas")
    return found if count is None else {**found, "status": deployment_status(count)}


def living(desired: Mapping[Ref, Manifest]) -> list[Manifest]:
    return [as_live(one, number) for number, one in enumerate(desired.values())]


def template_of(children: Iterable[Manifest], component: str = "engine") -> str:
    """The hash of the pod template of the engines or routers."""
    workloads = (one for one in children if one["kind"] in {"Deployment", "StatefulSet"})
    named = next(one for one in workloads if one["metadata"]["name"].startswith(f"qwen-{component}"))
    found: str = named["spec"]["template"]["metadata"]["annotations"][TEMPLATE_HASH_ANNOTATION]
    return found


def engine(
    template: str, name: str, on: str, *, ready: bool = True, group: str = "", index: int = 0, cost: int = 0
) -> PodView:
    status, age = ready_pod() if ready else {}, timedelta(days=1)
    view = pod_view(pod(name=name, status=status, age=age), component="engine")
    more = {"node": on, "template": template, "group": group, "index": index, "deletion_cost": cost}
    return replace(view, **more)  # type: ignore[arg-type]


def router(template: str, name: str, on: str, *, ready: bool = True, cost: int = 0) -> PodView:
    view = pod_view(pod(name=name, component="router", status=ready_pod() if ready else {}), component="router")
    return replace(view, node=on, template=template, deletion_cost=cost)


def observed(raw: Manifest, children: Sequence[Manifest], *pods: PodView, settings: Settings | None = None) -> Inputs:
    return replace(inputs(raw, children=children, pods=pods, settings=settings or Settings()), leaving=LEAVING)


def costs(found: Outcome) -> dict[str, int]:
    """The deletion costs that pods get, by their names."""
    return {one.pod.name: one.deletion_cost for one in found.pods if one.deletion_cost is not None}


def budget(found: Outcome, of: Ref = BUDGET_OF_ENGINES) -> Manifest:
    spec: Manifest = found.desired[of]["spec"]
    return {name: value for name, value in spec.items() if name in {"minAvailable", "maxUnavailable"}}


def after(found: Outcome, children: Sequence[Manifest]) -> list[Manifest]:
    """The live children after the outcome was applied."""
    return [*living(found.desired), *(one for one in children if Ref.of(one) not in found.desired)]


def test_the_only_engine_is_kept_from_the_start_and_several_are_not() -> None:
    assert budget(planned(QWEN)) == CLOSED
    assert budget(planned(inference_deployment(replicas=2))) == OPEN
    scaled = inference_deployment(autoscaling={"minReplicas": 1, "maxReplicas": 4})
    assert budget(planned(scaled)) == CLOSED, "one engine runs now"
    assert BUDGET_OF_ENGINES not in planned(inference_deployment(scheduling={"evictionWait": "0s"})).desired
    assert BUDGET_OF_ENGINES not in planned(QWEN, settings=Settings(single_engine_budgets=False)).desired


def test_the_wait_of_an_eviction_changes_no_pod() -> None:
    other = inference_deployment(scheduling={"evictionWait": "10m"})
    assert planned(other).desired[ENGINES] == planned(QWEN).desired[ENGINES]


@pytest.mark.parametrize("spec", [{}, {"autoscaling": {"minReplicas": 1, "maxReplicas": 1}}], ids=["fixed", "scaled"])
def test_a_move_from_the_cordon_to_the_end_of_the_leaver(spec: Manifest) -> None:
    """The limit of autoscaling holds for the wanted number: one engine."""
    raw = inference_deployment(**spec)
    children = living(planned(raw).desired)
    template = template_of(children)
    first = outcome(observed(raw, children, engine(template, "a", "gone")))
    assert first.desired[ENGINES]["spec"]["replicas"] == 2
    assert first.desired[ENGINES]["metadata"]["annotations"][TEMPORARY_ANNOTATION] == "1/2"
    assert costs(first) == {"a": DRAINING_COST}
    assert budget(first) == CLOSED, "Kubernetes allows the eviction once the successor is ready"

    children = after(first, children)
    assert role_view([one for one in children if Ref.of(one) == ENGINES]).desired == 1
    old = engine(template, "a", "gone", cost=DRAINING_COST)
    loads = outcome(observed(raw, children, old, engine(template, "b", "good", ready=False)))
    assert loads.desired[ENGINES] == first.desired[ENGINES]
    assert costs(loads) == {}

    serves = outcome(observed(raw, children, old, engine(template, "b", "good")))
    assert serves.desired[ENGINES]["spec"]["replicas"] == 1
    assert TEMPORARY_ANNOTATION not in serves.desired[ENGINES]["metadata"]["annotations"]
    over = outcome(observed(raw, after(serves, children), engine(template, "b", "good")))
    assert MOVE_ANNOTATION.key not in over.desired[ENGINES]["metadata"]["annotations"]
    assert budget(over) == CLOSED


def test_the_status_says_that_an_engine_moves_and_until_when_a_drain_waits() -> None:
    children = living(planned(QWEN).desired)
    template = template_of(children)
    given = observed(QWEN, children, engine(template, "a", "gone"), pod_of_router())
    status = report(given, outcome(given), []).status
    moving = status.condition(ConditionType.RECONCILING)
    assert moving is not None
    assert (moving.status, moving.reason) == ("True", Reason.NODE_LEAVING)
    ready = status.condition(ConditionType.READY)
    assert ready is not None
    assert ready.status == "True"
    assert "Node `gone`, which is cordoned, has the only engine of this service." in ready.message
    assert status.ready == "1/1"


def pod_of_router() -> PodView:
    return pod_view(pod(name="qwen-router-a", component="router", status=ready_pod()), component="router")


ONE_ROUTER = inference_deployment(router={"replicas": 1})


def test_the_only_router_is_kept_from_the_start_and_several_are_not() -> None:
    assert budget(planned(ONE_ROUTER), BUDGET_OF_ROUTERS) == CLOSED
    assert budget(planned(QWEN), BUDGET_OF_ROUTERS) == OPEN
    no_wait = inference_deployment(router={"replicas": 1}, scheduling={"evictionWait": "0s"})
    assert BUDGET_OF_ROUTERS not in planned(no_wait).desired
    assert BUDGET_OF_ROUTERS not in planned(ONE_ROUTER, settings=Settings(single_engine_budgets=False)).desired
    unseen = outcome(replace(inputs(ONE_ROUTER), leaving=None))
    assert BUDGET_OF_ROUTERS not in unseen.desired


def test_a_move_of_the_only_router_from_the_cordon_to_its_end() -> None:
    children = living(planned(ONE_ROUTER).desired)
    template, here = template_of(children, "router"), engine(template_of(children), "e", "good")
    first = outcome(observed(ONE_ROUTER, children, here, router(template, "a", "gone")))
    assert first.desired[ROUTERS]["spec"]["replicas"] == 2
    assert first.desired[ENGINES]["spec"]["replicas"] == 1
    assert costs(first) == {"a": DRAINING_COST}
    assert budget(first, BUDGET_OF_ROUTERS) == CLOSED

    children = after(first, children)
    old = router(template, "a", "gone", cost=DRAINING_COST)
    starts = observed(ONE_ROUTER, children, here, old, router(template, "b", "good", ready=False))
    assert outcome(starts).desired[ROUTERS] == first.desired[ROUTERS]
    late = outcome(replace(starts, now=NOW + timedelta(hours=1)))
    assert budget(late, BUDGET_OF_ROUTERS) == GOES_ON, "the pull took too long"

    serves = outcome(observed(ONE_ROUTER, children, here, old, router(template, "b", "good")))
    assert serves.desired[ROUTERS]["spec"]["replicas"] == 1
    over = outcome(observed(ONE_ROUTER, after(serves, children), here, router(template, "b", "good")))
    assert MOVE_ANNOTATION.key not in over.desired[ROUTERS]["metadata"]["annotations"]
    assert over.desired[ROUTERS] == planned(ONE_ROUTER).desired[ROUTERS]


@pytest.mark.parametrize("message", ["exceeded quota: q, requested: pods=1, used: pods=4, limited: pods=4", "denied"])
def test_a_temporary_router_that_kubernetes_refuses_holds_no_drain_after_the_limit(message: str) -> None:
    children = living(planned(ONE_ROUTER).desired)
    pods = engine(template_of(children), "e", "good"), router(template_of(children, "router"), "a", "gone")
    first = outcome(observed(ONE_ROUTER, children, *pods))
    failure = {"type": "ReplicaFailure", "status": "True", "message": message, "lastTransitionTime": NOW.isoformat()}
    children = [
        {**one, "status": {**one["status"], "conditions": [failure]}} if Ref.of(one) == ROUTERS else one
        for one in after(first, children)
    ]
    given = observed(ONE_ROUTER, children, *pods)
    begin = NOW + timedelta(seconds=1)  # the router is as old as the cordon
    waits, late = outcome(given), outcome(replace(given, now=begin + UNSCHEDULABLE_LIMIT))
    assert [one.desired[ROUTERS]["spec"]["replicas"] for one in (waits, late)] == [2, 1]
    assert [budget(one, BUDGET_OF_ROUTERS) for one in (waits, late)] == [CLOSED, GOES_ON]


def test_failed_pods_of_engines_and_routers_are_deleted_but_three_and_none_where_nothing_is_done() -> None:
    children = living(planned(QWEN).desired)

    def failed(component: str) -> list[PodView]:
        views = [
            pod_view(
                pod(name=f"{component}-{number}", component=component, status={"phase": "Failed"}), component=component
            )
            for number in range(5)
        ]
        return [replace(view, created=NOW + timedelta(seconds=number)) for number, view in enumerate(views)]

    given = inputs(QWEN, children=children, pods=[*failed("engine"), *failed("router")])
    assert outcome(given).due == NOW + timedelta(seconds=11)
    late = outcome(replace(given, now=NOW + timedelta(minutes=2)))
    assert sorted(patch.pod.name for patch in late.pods if patch.delete) == [
        f"{component}-{number}" for component in ("engine", "router") for number in (1, 2)
    ]
    paused = {**QWEN, "spec": {**QWEN["spec"], "paused": True}}
    still = outcome(replace(inputs(paused, children=children, pods=given.pods), now=NOW + timedelta(minutes=2)))
    assert [patch for patch in still.pods if patch.delete] == []


def test_a_wait_by_default_is_no_longer_than_the_administrator_allows() -> None:
    """A service could else hold a drain for longer by leaving out how long."""
    policy = AdministratorPolicy(evictionWait={"most": "2m"})
    children, settings = living(planned(ONE_ROUTER).desired), Settings(policy=policy)
    of_engines, of_routers = template_of(children), template_of(children, "router")
    leavers = engine(of_engines, "a", "gone"), router(of_routers, "r", "gone")
    children = after(outcome(observed(ONE_ROUTER, children, *leavers, settings=settings)), children)
    starting = engine(of_engines, "b", "good", ready=False), router(of_routers, "s", "good", ready=False)
    for seconds, allowed in ((119, CLOSED), (121, GOES_ON)):
        moving = observed(ONE_ROUTER, children, *leavers, *starting, settings=settings)
        late = outcome(replace(moving, now=NOW + timedelta(seconds=seconds)))
        assert [budget(late, one) for one in (BUDGET_OF_ENGINES, BUDGET_OF_ROUTERS)] == [allowed, allowed]


def test_engine_and_only_router_of_one_node_move_together_and_the_status_says_both() -> None:
    children = living(planned(ONE_ROUTER).desired)
    here = [engine(template_of(children), "e", "gone"), router(template_of(children, "router"), "a", "gone")]
    given = observed(ONE_ROUTER, children, *here)
    found = outcome(given)
    assert [found.desired[ref]["spec"]["replicas"] for ref in (ENGINES, ROUTERS)] == [2, 2]
    status = report(given, found, []).status
    ready, moving = status.condition(ConditionType.READY), status.condition(ConditionType.RECONCILING)
    assert ready is not None
    assert moving is not None
    assert moving.reason == Reason.NODE_LEAVING
    for what in ("the only engine", "the only router"):
        assert f"Node `gone`, which is cordoned, has {what} of this service." in ready.message
    moves = after(found, children)
    alone = observed(ONE_ROUTER, moves, engine(template_of(children), "e", "good"), here[1])
    moving = report(alone, outcome(alone), []).status.condition(ConditionType.RECONCILING)
    assert moving is not None
    assert moving.message.startswith("The only router moves away from a node that is leaving.")


def test_two_routers_on_a_leaving_node_stay_until_a_drain_ends_them_one_by_one() -> None:
    children = living(planned(QWEN).desired)
    template = template_of(children, "router")
    two = [router(template, name, "gone") for name in "ab"]
    found = outcome(observed(QWEN, children, engine(template_of(children), "e", "good"), *two))
    assert found.desired[ROUTERS]["spec"]["replicas"] == 2
    assert costs(found) == {}


def test_where_nothing_new_is_decided_a_drain_need_not_wait() -> None:
    children = living(planned(ONE_ROUTER).desired)
    here = [engine(template_of(children), "a", "gone"), router(template_of(children, "router"), "r", "gone")]
    for raw, kind in (
        ({**ONE_ROUTER, "spec": {**ONE_ROUTER["spec"], "paused": True}}, Paused),
        (inference_deployment(source="ftp://a/b", router={"replicas": 1}), Refused),
    ):
        found = outcome(observed(raw, children, *here))
        assert isinstance(found, kind)
        stays = outcome(replace(observed(raw, children, *here), leaving={}))
        unseen = outcome(replace(observed(raw, children, *here), leaving=None))
        for of in (BUDGET_OF_ENGINES, BUDGET_OF_ROUTERS):
            assert budget(found, of) == GOES_ON
            assert budget(stays, of) == CLOSED, "no drain"
            assert budget(unseen, of) == GOES_ON


def test_a_drain_goes_on_where_a_resource_is_paused_in_the_middle_of_a_move() -> None:
    children = living(planned(ONE_ROUTER).desired)
    here = [engine(template_of(children), "a", "gone"), router(template_of(children, "router"), "r", "gone")]
    moves = after(outcome(observed(ONE_ROUTER, children, *here)), children)
    paused = {**ONE_ROUTER, "spec": {**ONE_ROUTER["spec"], "paused": True}}
    found = outcome(observed(paused, moves, *here))
    assert isinstance(found, Paused)
    for of in (BUDGET_OF_ENGINES, BUDGET_OF_ROUTERS):
        assert budget(found, of) == GOES_ON
    served = [*here, engine(template_of(children), "b", "good"), router(template_of(children, "router"), "s", "good")]
    uncordoned = replace(observed(paused, after(found, moves), *served), leaving={})
    for of in (BUDGET_OF_ENGINES, BUDGET_OF_ROUTERS):
        assert budget(outcome(uncordoned), of) == CLOSED, "for the rest of the pause"


def test_a_router_that_stays_only_until_something_else_routes_holds_no_drain() -> None:
    keyed = {"keys": {"secretRef": {"name": "keys"}}}
    before = inference_deployment(router={"replicas": 1, **keyed})
    children = living(planned(before).desired)
    here = [engine(template_of(children), "a", "good"), router(template_of(children, "router"), "r", "gone")]
    found = outcome(observed(inference_deployment(router={"strategy": "External"}), children, *here))
    assert ROUTERS in found.desired, "engines still ask for their key"
    assert budget(found, BUDGET_OF_ROUTERS) == GOES_ON


def test_the_mark_of_a_leaver_is_taken_back_where_its_node_stays() -> None:
    children = living(planned(ONE_ROUTER).desired)
    pods = [
        engine(template_of(children), "a", "good", cost=DRAINING_COST),
        router(template_of(children, "router"), "r", "good", cost=DRAINING_COST),
    ]
    given = replace(observed(ONE_ROUTER, children, *pods), nodes=[node_view(node("good", gpus=1))])
    assert costs(outcome(given)) == {"a": 0, "r": 0}
    gone = replace(given, nodes=[])
    assert costs(outcome(gone)) == {}, "a pod whose node was deleted still goes first"


def test_of_several_engines_one_goes_when_its_successor_serves_or_after_the_wait() -> None:
    raw = inference_deployment(replicas=3, scheduling={"evictionWait": "10m"})
    children = living(planned(raw).desired)
    template = template_of(children)
    three = [engine(template, name, on) for name, on in (("a", "gone"), ("b", "good"), ("c", "good"))]
    first = outcome(observed(raw, children, *three))
    assert (first.desired[ENGINES]["spec"]["replicas"], budget(first)) == (4, {"minAvailable": 3})
    given = observed(raw, after(first, children), *three, engine(template, "d", "good", ready=False))
    assert budget(outcome(given)) == {"minAvailable": 3}
    late = outcome(replace(given, now=NOW + timedelta(minutes=10)))
    assert (late.desired[ENGINES]["spec"]["replicas"], budget(late)) == (4, {"minAvailable": 2})
    stays = outcome(replace(given, leaving={}))
    assert budget(stays) == OPEN


def test_one_group_goes_at_a_time_while_nothing_is_decided() -> None:
    raw = inference_deployment(replicas=2, parallelism={"tensor": 1, "nodes": 2})
    paused = {**raw, "spec": {**raw["spec"], "paused": True}}
    children = living(planned(raw).desired)
    template = template_of(children)
    pods = [engine(template, f"g{g}-{n}", "gone", group=f"qwen-engine-{g}", index=n) for g in (0, 1) for n in (0, 1)]
    assert budget(outcome(observed(paused, children, *pods))) == {"minAvailable": 3}
    ends = [replace(pods[0], terminating=True, ready=False), replace(pods[1], ready=False), *pods[2:]]
    assert budget(outcome(observed(paused, children, *ends))) == {"minAvailable": 3}, "the other group stays"


def test_a_pause_leaves_evictions_alone_where_they_may_not_be_refused() -> None:
    raw = inference_deployment(autoscaling={"minReplicas": 1, "maxReplicas": 4}, scheduling={"evictionWait": "0s"})
    paused = {**raw, "spec": {**raw["spec"], "paused": True}}
    children = living(planned(raw).desired)
    here = engine(template_of(children), "a", "gone")
    moves = after(outcome(observed(raw, children, here)), children)
    stays = outcome(replace(observed(paused, moves, here), leaving={}))
    assert budget(stays) == OPEN


def test_a_drain_goes_on_while_groups_that_are_wanted_are_not_made_yet() -> None:
    spec: Manifest = {"parallelism": {"tensor": 1, "nodes": 2}}
    children = living(planned(inference_deployment(**spec)).desired)
    template = template_of(children)
    pair = [engine(template, f"g0-{n}", "gone", group="qwen-engine-0", index=n) for n in (0, 1)]
    more = observed(
        inference_deployment(**spec, replicas=3, cache={"size": "40Gi", "accessMode": "ReadWriteMany"}), children, *pair
    )
    waits = outcome(more)
    assert isinstance(waits, Planned)
    assert waits.model_wait is not None
    assert (groups(waits), budget(waits)) == (["qwen-engine-0"], {"minAvailable": 1})
    assert budget(outcome(replace(more, leaving={}))) == {"minAvailable": 2}, "it is still the only one"


def test_marks_and_what_does_not_move_while_engines_wait_for_their_model() -> None:
    spec: Manifest = {"replicas": 2, "router": {"replicas": 1}}
    raw = inference_deployment(**spec, cache={"size": "40Gi"})
    children = living(planned(inference_deployment(**spec)).desired)
    template = template_of(children)
    here = [engine(template, "a", "gone"), engine(template, "b", "good")]
    here.append(router(template_of(children, "router"), "r", "gone"))
    found = outcome(replace(observed(raw, children, *here), jobs=True))
    assert isinstance(found, Planned)
    assert found.model_wait is not None
    assert set(costs(found)) == {"a", "r"}
    assert found.desired[ROUTERS]["spec"]["replicas"] == 2
    assert found.desired[ENGINES]["spec"]["replicas"] == 2
    assert budget(found) == {"minAvailable": 1}
    assert budget(found, BUDGET_OF_ROUTERS) == CLOSED
    assert "has the only router of this service. Its successor starts before it ends." in found.notice
    assert found.notice.endswith(
        "Engines on a node that is leaving do not move meanwhile: a drain ends them before their successors start."
    )


def test_without_the_right_to_see_nodes_the_status_says_what_a_drain_does() -> None:
    children = living(planned(QWEN).desired)
    here = engine(template_of(children), "a", "gone")
    given = replace(observed(QWEN, children, here, pod_of_router()), leaving=None)
    found = outcome(given)
    assert BUDGET_OF_ENGINES not in found.desired
    ready = report(given, found, []).status.condition(ConditionType.READY)
    assert ready is not None
    assert ready.status == "True"
    assert "The operator cannot see nodes, so a drain ends the only engine" in ready.message
    given = replace(observed(ONE_ROUTER, children, here, pod_of_router()), leaving=None)
    ready = report(given, outcome(given), []).status.condition(ConditionType.READY)
    assert ready is not None
    assert "so a drain ends the only router before another one is ready." in ready.message


def test_on_fixed_nodes_without_a_free_gpu_a_drain_need_not_wait() -> None:
    children = living(planned(QWEN).desired)
    given = observed(QWEN, children, engine(template_of(children), "a", "gone"), settings=Settings(capacity="Fixed"))
    asked = outcome(given)
    assert asked.desired[ENGINES]["spec"]["replicas"] == 1
    assert budget(asked) == CLOSED, "free GPUs are not counted yet"
    assert asked.lookups


def test_a_group_on_a_leaving_node_is_replaced_by_another_group_first() -> None:
    raw = inference_deployment(parallelism={"tensor": 1, "nodes": 2})
    children = living(planned(raw).desired)
    template = template_of(children)
    old = [engine(template, f"g0-{n}", ("gone", "good")[n], group="qwen-engine-0", index=n) for n in (0, 1)]
    first = outcome(observed(raw, children, *old))
    assert groups(first) == ["qwen-engine-0", "qwen-engine-1"]
    assert budget(planned(raw)) == {"minAvailable": 2}
    assert budget(first) == {"minAvailable": 3}, "one pod may go once all four serve"
    children = after(first, children)
    new = [
        replace(engine(template, f"g1-{n}", "good", ready=False, group="qwen-engine-1", index=n), created=NOW)
        for n in (0, 1)
    ]
    assert groups(outcome(observed(raw, children, *old, *new))) == ["qwen-engine-0", "qwen-engine-1"]
    serve = [replace(one, ready=True) for one in new]
    assert len(engines_of(serve)) == 1
    assert groups(outcome(observed(raw, children, *old, *serve))) == ["qwen-engine-1"]
    late = replace(observed(raw, children, *old, *new), now=NOW + timedelta(days=1))
    assert budget(outcome(late)) == {"minAvailable": 1}, "one pod of the old group may go"


def groups(found: Outcome) -> list[str]:
    return sorted(ref.name for ref in found.desired if ref.kind == STATEFUL_SET)
