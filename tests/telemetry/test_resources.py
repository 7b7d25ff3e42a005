from datetime import timedelta

import pytest
from prometheus_client.samples import Sample

from inference_operator.api.resource import INFERENCE_DEPLOYMENT_API
from inference_operator.autoscaling.decision import Bound, Decision, Terms
from inference_operator.autoscaling.inputs import ScalingResult
from inference_operator.controller.cache import Cache
from inference_operator.diagnosis.restart_cause import RestartCause
from inference_operator.hardware.offers import prices
from inference_operator.manifest import INFERENCE_DEPLOYMENT, POD, Key, Manifest, Ref
from inference_operator.objects.names import (
    DOWNLOAD,
    ENGINE,
    INSPECTION,
    PREFILL,
    ROUTER,
    VERIFICATION,
    labels,
    workload_name,
)
from inference_operator.telemetry.resources import MAX_SERIES, ResourceMetrics
from inference_operator.views.pod import GROUP_LABEL, POD_INDEX_LABEL
from tests.testing.builders import NOW, SETTINGS, inference_deployment

MANY = 1000
SIZED = {"device": "GPU", "gpu": "H100-80GB", "gpusPerReplica": 2}


class World:
    """A cache, and the metrics of what it holds."""

    def __init__(self, *offers: str) -> None:
        self.cache = Cache(SETTINGS)
        self.metrics = ResourceMetrics()
        self.metrics.resources = self.cache.figures
        self.metrics.prices = prices(offers)
        self.version = 0

    def put(self, manifest: Manifest) -> None:
        self.version += 1
        manifest["metadata"]["resourceVersion"] = str(self.version)
        self.cache.put(manifest)

    def resource(self, name: str = "qwen", *, replicas: int = 1, **status: object) -> None:
        self.put({**inference_deployment(name=name, replicas=replicas), "status": status})
        self.workload(name)

    def workload(self, name: str, role: str = ENGINE) -> None:
        meta = {"name": workload_name(name, role), "namespace": "default", "labels": labels(name, role)}
        self.put({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": {}})

    def engine(
        self,
        name: str = "a",
        *,
        owner: str = "qwen",
        component: str = ENGINE,
        group: str = "",
        index: int = 0,
        **status: object,
    ) -> None:
        of_group = {GROUP_LABEL: group, POD_INDEX_LABEL: str(index)} if group else {}
        meta = {"name": name, "namespace": "default", "uid": name, "labels": {**labels(owner, component), **of_group}}
        meta["creationTimestamp"] = NOW.isoformat()
        node = status.pop("node", "")
        self.put({"kind": "Pod", "apiVersion": "v1", "metadata": meta, "spec": {"nodeName": node}, "status": status})

    def series(self) -> list[Sample]:
        return [sample for family in self.metrics.collect() for sample in family.samples]

    def samples(self, metric: str) -> dict[str, float]:
        """Values of a metric of the resource `qwen`, by its other labels."""
        own = [one for one in self.series() if one.name == metric and one.labels["name"] == "qwen"]
        return {
            ",".join(v for n, v in one.labels.items() if n not in ("resource_namespace", "name")): one.value
            for one in own
        }


def condition(kind: str, status: str, reason: str) -> dict[str, str]:
    return {"type": kind, "status": status, "reason": reason}


def decision(bound: Bound) -> Decision:
    return Decision(3, bound, Terms(steady=60, headroom=15.5, backlog=12), target_concurrency=32)


def reached(*, ready_after: int | None = None, restarts: int = 0) -> Manifest:
    """The status of a pod that was scheduled after 10 s and ran after 40 s."""

    def after(seconds: int) -> str:
        return (NOW + timedelta(seconds=seconds)).isoformat()

    ready = {"type": "Ready", "status": "False" if ready_after is None else "True"}
    running = {"name": ENGINE, "restartCount": restarts, "state": {"running": {"startedAt": after(40)}}}
    return {
        "node": "n1",
        "conditions": [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": after(10)},
            ready | {"lastTransitionTime": after(ready_after or 0)},
        ],
        "containerStatuses": [running],
    }


def test_every_condition_of_a_resource_is_a_series_with_its_status_and_reason() -> None:
    world = World()
    world.resource(conditions=[condition("Ready", "False", "ScaledToZero"), condition("Stalled", "True", "DiskFull")])
    assert world.samples("infd_condition") == {"Ready,False,ScaledToZero": 1, "Stalled,True,DiskFull": 1}
    world.resource(conditions=[condition("Ready", "True", "Serving")])
    assert world.samples("infd_condition") == {"Ready,True,Serving": 1}


def test_an_engine_with_two_pods_is_one_replica_with_the_gpus_of_both() -> None:
    world = World("H100:8@2.5")
    world.resource(replicas=2, plan=SIZED)
    for group in ("g", "h"):
        world.engine(f"{group}0", group=group, index=0, **reached(ready_after=90))
    world.engine("g1", group="g", index=1, **reached(ready_after=70))
    world.engine("h1", group="h", index=1)
    counted = world.samples("infd_replicas")
    assert (counted["ready"], counted["starting"], counted["unscheduled"]) == (1, 0, 1)
    assert world.samples("infd_gpus") == {"H100-80GB,allocated": 3, "H100-80GB,pending": 1}
    assert world.samples("infd_cost_per_hour") == {"H100-80GB": 7.5}


def test_the_start_of_an_engine_with_two_pods_ends_with_the_later_one() -> None:
    world = World()
    world.resource()
    world.engine("g0", group="g", index=0, **reached())
    world.engine("g1", group="g", index=1, **reached(ready_after=70))
    assert world.samples("infd_engine_start_seconds") == {}
    world.engine("g0", group="g", index=0, **reached(ready_after=100))
    assert world.samples("infd_engine_start_seconds") == {"node": 10, "prepare": 30, "load": 60}


def test_replicas_gpus_and_cost_are_counted_from_the_engine_pods() -> None:
    world = World("H100:8@2.5", "L4:4")
    world.resource(replicas=5, plan=SIZED)
    world.engine("a", **reached(ready_after=90))
    world.engine("b", **reached())
    world.engine("c")
    world.engine("d", node="n2", phase="Failed")
    for component in (ROUTER, DOWNLOAD, INSPECTION, VERIFICATION):  # the pods of Jobs are ready while they run
        world.engine(component, component=component, **reached(ready_after=9))
    assert world.samples("infd_replicas") == {
        "desired": 5,
        "ready": 1,
        "starting": 1,
        "unscheduled": 1,
        "terminating": 0,
    }
    assert world.samples("infd_gpus") == {"H100-80GB,allocated": 4, "H100-80GB,pending": 2}
    assert world.samples("infd_cost_per_hour") == {"H100-80GB": 10}


def test_gpus_of_each_role_are_counted_by_its_own_sizes_and_engines_that_answer_are_replicas() -> None:
    world = World("H100:8@2.5", "L4:4@1")
    small = {"device": "GPU", "gpu": "L4", "gpusPerReplica": 1}
    world.resource(plan=SIZED, roles=[{"name": ENGINE, "plan": SIZED}, {"name": PREFILL, "plan": small}])
    world.workload("qwen", PREFILL)
    world.engine("a", **reached(ready_after=90))
    for name in ("p", "q"):
        world.engine(name, component=PREFILL, **reached(ready_after=90))
    world.engine("r", component=PREFILL)
    assert world.samples("infd_replicas")["ready"] == 1
    assert world.samples("infd_gpus") == {
        "H100-80GB,allocated": 2,
        "H100-80GB,pending": 0,
        "L4,allocated": 2,
        "L4,pending": 1,
    }
    assert world.samples("infd_cost_per_hour") == {"H100-80GB": 5, "L4": 2}


def test_the_most_engines_of_autoscaling_are_told_only_with_autoscaling() -> None:
    world = World()
    world.resource()
    assert world.samples("infd_max_replicas") == {}
    scaled = inference_deployment(name="qwen", autoscaling={"maxReplicas": 6})
    world.put(scaled)
    assert world.samples("infd_max_replicas") == {"": 6}


@pytest.mark.parametrize(
    ("bound", "name"),
    [(Bound.DEMAND, "demand"), (Bound.MAX_REPLICAS, "max_replicas"), (Bound.SCALE_DOWN_DELAY, "scale_down_delay")],
)
def test_the_last_decision_of_autoscaling_is_told_with_its_parts_and_what_set_it(bound: Bound, name: str) -> None:
    world = World()
    world.resource()
    of = ("infd_scaling_demand_requests", "infd_scaling_target_concurrency", "infd_scaling_bound")
    assert [world.samples(metric) for metric in of] == [{}, {}, {}], "no decision"
    world.metrics.scaling = {Key("default", "qwen"): ScalingResult(decision(bound))}.get
    parts = {"steady": 60, "headroom": 15.5, "backlog": 12}
    assert [world.samples(metric) for metric in of] == [parts, {"": 32}, {name: 1}]


def test_faults_of_engines_are_counted_from_zero_and_end_with_their_resource() -> None:
    world, key = World(), Key("default", "qwen")
    world.resource()
    of = ("infd_engine_no_progress_total", "infd_engine_stalls_total")
    assert [world.samples(metric) for metric in of] == [{"": 0}, {"": 0}]
    world.metrics.count_no_progress(key)
    world.metrics.count_no_progress(key)
    world.metrics.count_stall(key)
    assert [world.samples(metric) for metric in of] == [{"": 2}, {"": 1}]
    world.cache.remove(Ref(INFERENCE_DEPLOYMENT, key.namespace, key.name))
    assert world.series() == []
    world.resource()
    assert [world.samples(metric) for metric in of] == [{"": 0}, {"": 0}]


RESTARTS = "infd_engine_restarts_total"


def restarted(count: int, *, ready: bool = False, **ended: object) -> Manifest:
    """The status of a pod whose container was restarted so often, the last time after this end."""
    container = {"name": ENGINE, "restartCount": count, "state": {"running": {}}}
    last = {"lastState": {"terminated": {"exitCode": 1, **ended}}} if count else {}
    conditions = [{"type": "Ready", "status": str(ready)}]
    return {"node": "n1", "conditions": conditions, "containerStatuses": [{**container, **last}]}


def causes(world: World) -> dict[str, float]:
    """The restarts that were counted, by cause."""
    return {cause: count for cause, count in world.samples(RESTARTS).items() if count}


def group(world: World, *restarts: Manifest, uid: str = "g") -> None:
    """The pods of a group. A pod with another uid has the same name."""
    for index, status in enumerate(restarts):
        world.engine(f"{uid if index == 0 else 'g'}-{index}", group="g", index=index, **status)


def test_restarts_are_counted_once_by_their_cause_and_not_again_by_the_next_operator() -> None:
    world = World()
    world.resource()
    world.engine("a", **restarted(0))
    assert world.samples(RESTARTS) == dict.fromkeys(RestartCause, 0), "from zero"
    world.engine("a", **restarted(1))
    assert [causes(world), causes(world)] == [{"ended": 1}] * 2
    world.engine("a", **restarted(2, exitCode=137, reason="OOMKilled"))
    world.engine("b", **restarted(1, exitCode=137))
    assert causes(world) == {"ended": 1, "out_of_memory": 1, "probe": 1}
    world.metrics = ResourceMetrics()
    world.metrics.resources = world.cache.figures
    assert causes(world) == {}, "the next operator"
    world.engine("a", **restarted(3))
    assert causes(world) == {"ended": 1}
    world.cache.remove(Ref(INFERENCE_DEPLOYMENT, "default", "qwen"))
    assert world.series() == []


@pytest.mark.parametrize(
    ("leader", "worker", "cause"),
    [
        ({}, {"message": "Member g-0 ended first: exit status 1."}, "ended"),
        ({"message": "Member g-1 ended first: exit status 3."}, {}, "ended"),
        ({"message": "Member g-1 ended first: its connection broke."}, {}, "lost"),
        ({"message": "Member g-1 ended first: its connection broke."}, {"reason": "OOMKilled"}, "out_of_memory"),
        ({"message": "Member g-1 has been silent for 10 s."}, {"message": "Member g-0 has been silent."}, "silent"),
        ({"message": "Member g-1 was stopped."}, {}, "stopped"),
        ({}, {"message": "Member g-0 ended first: its engine was not healthy within 60 s."}, "slow_start"),
        ({"exitCode": 0}, {"message": "Member g-0 was stopped."}, "probe"),
        ({"exitCode": None}, {}, "unknown"),
    ],
)
def test_a_restart_of_a_group_is_counted_once_by_the_cause_of_its_first_member(
    leader: Manifest, worker: Manifest, cause: str
) -> None:
    world = World()
    world.resource()
    group(world, restarted(0), restarted(0))
    world.series()
    group(world, restarted(0), restarted(1, **worker))
    assert causes(world) == {}, "the leader follows"
    group(world, restarted(1, **leader), restarted(1, **worker))
    assert [causes(world), causes(world)] == [{cause: 1}] * 2
    group(world, restarted(1, ready=True, **leader), restarted(1, ready=True, **worker))
    assert causes(world) == {cause: 1}


@pytest.mark.parametrize(("how", "cause"), [("was stopped", "stopped"), ("has been silent for 10 s", "silent")])
def test_a_restart_because_the_pod_of_the_leader_is_replaced_is_counted_once(how: str, cause: str) -> None:
    world = World()
    world.resource()
    group(world, restarted(0, ready=True), restarted(0, ready=True), restarted(0, ready=True))
    world.series()
    follows = restarted(1, message=f"Member g-0 {how}.")
    group(world, restarted(0), follows, restarted(0))
    assert causes(world) == {}, "the former leader is still there"
    world.cache.remove(Ref(POD, "default", "g-0"))
    assert causes(world) == {}
    group(world, restarted(0), follows, follows, uid="new")
    assert [causes(world), causes(world)] == [{cause: 1}] * 2
    ready = restarted(1, ready=True, message=f"Member g-0 {how}.")
    group(world, restarted(0, ready=True), ready, ready, uid="new")
    group(world, restarted(1), restarted(2), restarted(2), uid="new")
    assert causes(world) == {cause: 1, "ended": 1}


def test_restarts_are_not_counted_again_after_a_pod_of_the_group_has_failed() -> None:
    world = World()
    world.resource()
    group(world, restarted(0), restarted(0))
    world.series()
    group(world, restarted(1), restarted(1))
    assert causes(world) == {"ended": 1}
    group(world, restarted(1), {**restarted(1), "phase": "Failed", "reason": "Evicted"})
    assert causes(world) == {"ended": 1}
    group(world, restarted(1), restarted(1))
    assert causes(world) == {"ended": 1}


def test_a_group_that_waits_and_gets_other_pods_is_not_restarted() -> None:
    world = World()
    world.resource()
    group(world, restarted(0), restarted(0))
    world.series()
    world.cache.remove(Ref(POD, "default", "g-0"))
    group(world, restarted(0), restarted(0), uid="new")
    assert causes(world) == {}


@pytest.mark.parametrize("plan", [{}, {"device": "CPU", "gpusPerReplica": 0}])
def test_a_resource_without_gpus_has_no_series_of_gpus_or_cost(plan: dict[str, object]) -> None:
    world = World("H100:8@2.5")
    world.resource(plan=plan)
    world.engine("a", **reached(ready_after=90))
    assert world.samples("infd_gpus") == world.samples("infd_cost_per_hour") == {}


def test_gpus_whose_kind_has_no_price_have_no_cost() -> None:
    world = World("L4:4@0.7")
    world.resource(plan=SIZED)
    assert world.samples("infd_cost_per_hour") == {}


def test_the_phases_of_the_last_start_are_told_once_its_engine_is_ready() -> None:
    world = World()
    world.resource(startup={"pod": "a", "step": "LoadingWeights"})
    world.engine("a", **reached())
    assert world.samples("infd_engine_start_seconds") == {}
    assert world.samples("infd_startup_step") == {"LoadingWeights": 1}
    world.engine("a", **reached(ready_after=100))
    world.resource()
    assert world.samples("infd_engine_start_seconds") == {"node": 10, "prepare": 30, "load": 60}
    assert world.samples("infd_startup_step") == {}
    world.engine("a", **reached(ready_after=5000))
    assert world.samples("infd_engine_start_seconds")["load"] == 60, "a return from a busy moment is no start"


def test_an_engine_that_was_ready_before_the_first_scrape_or_was_restarted_tells_no_start() -> None:
    world = World()
    world.resource()
    world.engine("a", **reached(ready_after=100))
    world.engine("b", **reached(restarts=1))
    world.series()
    world.engine("b", **reached(ready_after=100, restarts=1))
    assert world.samples("infd_engine_start_seconds") == {}


def test_the_series_of_a_thousand_resources_are_bounded_and_end_with_their_resource() -> None:
    world = World("H100:8@2.5", "L4:4@1")
    world.metrics.scaling = lambda _: ScalingResult(decision(Bound.DEMAND))
    roles = [{"name": ENGINE, "plan": SIZED}, {"name": PREFILL, "plan": {**SIZED, "gpu": "L4"}}]
    conditions = [condition(kind, "True", "Reason") for kind in INFERENCE_DEPLOYMENT_API.conditions]
    status: Manifest = {"conditions": conditions, "plan": SIZED, "startup": {"step": "PullingImages"}, "roles": roles}
    for number in range(MANY):
        name = f"m{number}"
        world.put({**inference_deployment(name=name, autoscaling={"maxReplicas": 4}), "status": status})
        world.workload(name)
        world.engine(f"{name}-a", owner=name, **reached())
    world.series()
    for number in range(MANY):
        world.engine(f"m{number}-a", owner=f"m{number}", **reached(ready_after=90))
    assert len(world.series()) == MANY * MAX_SERIES
    assert MAX_SERIES == 46
    for key in world.cache.resource_keys()[1:]:
        world.cache.remove(Ref(INFERENCE_DEPLOYMENT, key.namespace, key.name))
    assert len(world.series()) == MAX_SERIES


def test_the_routers_pods_and_the_restarts_of_all_their_containers_are_counted() -> None:
    world = World()
    world.resource(replicas=0)

    def router(name: str, *restarts: int, ready: bool = True) -> None:
        containers = [{"name": f"haproxy-{n}", "restartCount": count} for n, count in enumerate(restarts, 1)]
        condition = {"type": "Ready", "status": str(ready)}
        world.engine(name, component=ROUTER, conditions=[condition], containerStatuses=containers)

    router("a", 3, 4)
    router("b", 0, 0, ready=False)
    assert world.samples("infd_router_pods") == {"ready": 1, "unready": 1}
    assert world.samples("infd_router_restarts_total") == {"": 0}, "the operator before this one has counted them"
    router("a", 4, 6)
    router("c", 1, 0)
    assert world.samples("infd_router_restarts_total") == {"": 4}
    world.cache.remove(Ref(POD, "default", "a"))
    assert world.samples("infd_router_restarts_total") == {"": 4}
    assert world.samples("infd_router_pods") == {"ready": 1, "unready": 1}
