"""Autoscaling, from rounds of samples to the replicas of the engines, on an in-memory cluster."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from math import inf

import pytest

from inference_operator.autoscaling.loop import ScrapeRound
from inference_operator.autoscaling.target import TargetBound
from inference_operator.kube.lookup_poller import look_up
from inference_operator.manifest import HORIZONTAL_POD_AUTOSCALER, POD, Manifest, Ref
from inference_operator.objects.names import DOWNLOAD, ENGINE, INSPECTION, ROUTER, VERIFICATION
from inference_operator.settings import Capacity
from inference_operator.views.pod import DELETION_COST_ANNOTATION, GROUP_LABEL, POD_INDEX_LABEL, TRAFFIC_LABEL
from inference_operator.views.samples import EngineActivity, EngineSample, Histogram, RouterSample, Samples, TokenCounts
from tests.controller.world import RESOURCE, USER, World
from tests.testing.builders import (
    BUDGET_OF_ENGINES,
    CONFIG,
    ENGINES,
    KEY,
    NOW,
    SETTINGS,
    pod,
    ready_pod,
    unschedulable,
    waiting,
)
from tests.testing.memory_cluster import SYSTEM_METADATA, Request

CONTROLLERS = "kube-controller-manager"
ROUND = 5.0
"""Seconds between two rounds of scrapes."""
WINDOW = 330.0
"""Longer than the window of scaling down, and shorter than `idleTimeout`."""


@dataclass(slots=True)
class Histograms:
    """Latencies of one engine, in the buckets of vLLM 0.32."""

    ttft: Histogram = field(default_factory=lambda: Histogram((0.1, 1.0, 2.5, inf), (0.0,) * 4, 0.0))
    tpot: Histogram = field(default_factory=lambda: Histogram((0.025, 0.05, 0.075, inf), (0.0,) * 4, 0.0))
    tokens: TokenCounts = field(default_factory=lambda: TokenCounts(0.0, 0.0, 0.0))

    def finish(self, requests: int, *, ttft: float, tpot: float) -> None:
        self.ttft = _with(self.ttft, requests, ttft)
        self.tpot = _with(self.tpot, requests, tpot)

    def count(self, requests: int, *, prompt: float, answer: float, cached: float) -> None:
        """Requests of these lengths have finished."""
        looked_up = requests * prompt
        before = self.tokens
        self.tokens = TokenCounts(
            before.requests + requests,
            before.prompt + looked_up,
            before.answer + requests * answer,
            before.looked_up + looked_up,
            before.cached + cached * looked_up,
        )


def _with(before: Histogram, requests: int, seconds: float) -> Histogram:
    pairs = zip(before.bounds, before.counts, strict=True)
    counts = tuple(count + requests * (seconds <= bound) for bound, count in pairs)
    return Histogram(before.bounds, counts, before.total + requests * seconds)


class Fleet:
    """A resource with autoscaling, its pods, and what their metrics say."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.at = 1000.0
        self.arrived = 0
        self.silent: set[str] = set()
        """Pods that do not answer."""
        self.latency: Histograms | None = None
        """What every engine has measured since its start."""

    def add(self, name: str, *, component: str = "engine", ready: bool = True, group: str = "", index: int = 0) -> Ref:
        status = ready_pod() if ready else waiting("ContainerCreating", "", container=component)
        labels = {GROUP_LABEL: group, POD_INDEX_LABEL: str(index), TRAFFIC_LABEL: "true"} if group else None
        manifest = pod(name=name, component=component, status=status, added_labels=labels)
        meta = {key: value for key, value in manifest["metadata"].items() if key not in SYSTEM_METADATA}
        ref = Ref.of(self.world.cluster.apply_as(CONTROLLERS, {**manifest, "metadata": meta}))
        self.world.cluster.set_status(ref, status)
        self.world.deliver()
        return ref

    async def round(self, *, held: int = 0, running: Mapping[str, int] | None = None) -> list[Request]:
        """One round of scrapes, and the writes that follow."""
        self.at += ROUND
        self.world.now += timedelta(seconds=ROUND)
        pods = [one for one in self.world.cache.pods(KEY) if one.ready and one.name not in self.silent]
        routers = {one.uid: RouterSample({}, 0, held, self.arrived) for one in pods if one.component == ROUTER}
        busy = running or {}
        engines = {
            one.uid: EngineActivity(self.sample(busy.get(one.name, 0)), 0, self.at)
            for one in pods
            if one.component == ENGINE and one.index == 0
        }
        for uid, activity in engines.items():
            self.world.cache.samples.see_engine(uid, activity)
        cache = self.world.cache
        every = [one for one in cache.pods(KEY) if one.component == ROUTER]
        scraped = ScrapeRound(cache.engine_views(KEY), every, Samples(engines, routers), self.at)
        if cache.scaling.observe(KEY, scraped):
            return await self.world.settle()
        return []

    def sample(self, running: int) -> EngineSample:
        if self.latency is None:
            return EngineSample("m", running, 0, (self.at,))
        latency = self.latency
        tokens = latency.tokens if latency.tokens.requests else None
        return EngineSample("m", running, 0, (self.at,), ttft=latency.ttft, tpot=latency.tpot, tokens=tokens)

    async def rounds(self, seconds: float, *, running: Mapping[str, int] | None = None) -> list[Request]:
        writes: list[Request] = []
        for _ in range(int(seconds / ROUND)):
            writes += await self.round(running=running)
        return writes

    @property
    def replicas(self) -> int:
        """Replicas of the engines' Deployment."""
        found: int = self.world.live(ENGINES)["spec"]["replicas"]
        return found

    @property
    def reason(self) -> str:
        return self.world.conditions()["ScalingActive"][1]

    @property
    def message(self) -> str:
        return next(c.message for c in self.world.status().conditions if c.type == "ScalingActive")


async def started(world: World, *, replicas: int = 1, least: int = 1, most: int = 4) -> Fleet:
    autoscaling = {"minReplicas": least, "maxReplicas": most, "targetConcurrency": 10, "idleTimeout": "15m"}
    world.ask(replicas=replicas, autoscaling=autoscaling)
    await world.settle()
    fleet = Fleet(world)
    fleet.add("r", component=ROUTER)
    for number in range(replicas):
        fleet.add(f"e{number}")
    world.pods_are_ready()
    await world.settle()
    return fleet


async def test_without_the_section_the_replicas_are_those_of_the_specification(world: World) -> None:
    world.ask(replicas=3)
    await world.settle()
    assert world.live(ENGINES)["spec"]["replicas"] == 3
    assert world.status().autoscaling is None
    assert "ScalingActive" not in world.conditions()


async def test_a_held_request_starts_an_engine_from_zero_with_a_write_of_it_and_of_its_budget(
    world: World,
) -> None:
    fleet = await started(world, replicas=0, least=0)
    assert fleet.replicas == 0
    await fleet.round()
    fleet.arrived += 1
    writes = await fleet.round(held=1)
    written = [one for one in writes if one.verb != "status"]
    assert written == [Request("apply", ENGINES), Request("apply", BUDGET_OF_ENGINES)], "the last engine is kept"
    assert fleet.replicas == 1
    assert fleet.reason == "FollowingDemand"


async def test_demand_raises_the_replicas_at_once_and_writes_nothing_while_it_stays(world: World) -> None:
    fleet = await started(world)
    await fleet.round(running={"e0": 1})
    writes = await fleet.round(running={"e0": 28})
    assert fleet.replicas == 4, "28 requests and the headroom, at 10 for each engine, within maxReplicas"
    assert [one.ref for one in writes if one.verb == "apply"] == [ENGINES, BUDGET_OF_ENGINES]
    assert await fleet.rounds(60, running={"e0": 28}) == []
    recorded = world.status().autoscaling
    assert recorded is not None
    assert (recorded.desired_replicas, recorded.last_scale_time) == (4, "2026-01-02T03:04:15Z")


async def test_engines_go_after_a_window_of_lower_demand_and_the_last_one_after_the_idle_timeout(world: World) -> None:
    fleet = await started(world, replicas=3, least=0)
    await fleet.rounds(60, running={"e0": 25})
    await fleet.rounds(200, running={"e0": 1})
    assert fleet.replicas == 4
    await fleet.rounds(WINDOW, running={"e0": 1})
    assert fleet.replicas == 1
    await fleet.rounds(WINDOW)
    assert fleet.replicas == 1
    await fleet.rounds(900)
    assert fleet.replicas == 0
    assert world.status().autoscaling is not None


async def test_an_operator_that_ended_between_its_two_writes_is_not_taken_back_by_the_older_one(world: World) -> None:
    fleet = await started(world)
    await fleet.rounds(60, running={"e0": 28})
    world.edit(ENGINES, lambda manifest: manifest["spec"].update(replicas=3))  # the status still says 4
    await world.restart()
    await world.settle()
    assert fleet.replicas == 3


async def test_a_restarted_operator_keeps_the_recorded_number_until_it_has_seen_a_window(world: World) -> None:
    fleet = await started(world)
    await fleet.rounds(60, running={"e0": 28})
    await world.restart()
    assert await world.settle() == []
    assert fleet.replicas == 4
    assert await fleet.rounds(200, running={"e0": 1}) == []
    assert fleet.replicas == 4
    await fleet.rounds(WINDOW, running={"e0": 1})
    assert fleet.replicas == 1


async def test_missing_metrics_keep_the_engines_and_are_said_with_the_pods(world: World) -> None:
    fleet = await started(world, replicas=2, least=0)
    await fleet.rounds(60, running={"e0": 15})
    before = fleet.replicas
    fleet.silent = {"r", "e1"}
    writes = await fleet.rounds(3600)
    assert fleet.replicas == before
    assert [one.verb for one in writes] == ["status"]
    assert fleet.reason == "MetricsMissing"
    assert "`e1`, `r`" in fleet.message or "`r`, `e1`" in fleet.message
    fleet.silent = set()
    await fleet.round()
    assert fleet.reason == "FollowingDemand"


async def test_one_round_without_an_answer_is_not_said(world: World) -> None:
    fleet = await started(world)
    await fleet.round()
    fleet.silent = {"e0"}
    assert await fleet.round() == []
    fleet.silent = set()
    assert await fleet.round() == []


async def test_kubectl_scale_has_no_effect_and_is_said(world: World) -> None:
    fleet = await started(world)
    await fleet.round(running={"e0": 1})
    world.ask(replicas=3, autoscaling={"minReplicas": 1, "maxReplicas": 4, "targetConcurrency": 10})
    await world.settle()
    assert fleet.replicas == 1
    assert "`spec.replicas` is 3 and has no effect" in fleet.message


async def test_new_limits_count_at_once(world: World) -> None:
    fleet = await started(world)
    await fleet.round(running={"e0": 1})
    world.ask(autoscaling={"minReplicas": 3, "maxReplicas": 4})
    await world.settle()
    assert fleet.replicas == 3


async def test_the_section_begins_with_the_engines_that_run(world: World) -> None:
    world.ask(replicas=3)
    await world.settle()
    world.ask(replicas=1, autoscaling={"maxReplicas": 4})
    await world.settle()
    assert world.live(ENGINES)["spec"]["replicas"] == 3


async def test_before_engines_go_each_has_its_requests_as_its_deletion_cost(world: World) -> None:
    """A ReplicaSet deletes the pod with the lowest cost first; a pod without the annotation counts as zero."""
    fleet = await started(world, replicas=3, most=8)
    busy = {"e0": 5, "e1": 0, "e2": 30}
    await fleet.rounds(60, running={**busy, "e1": 30})
    for number in range(3, fleet.replicas):
        fleet.add(f"e{number}")
    busy["e2"] = 10
    writes = await fleet.rounds(WINDOW * 2, running=busy)
    assert fleet.replicas < 8
    costs = {
        name: world.live(Ref(POD, "default", name))["metadata"].get("annotations", {}).get(DELETION_COST_ANNOTATION)
        for name in busy
    }
    assert costs == {"e0": "5", "e1": None, "e2": "10"}
    kinds = [one.ref.kind for one in writes if one.verb == "apply"]
    assert kinds.index(POD) < kinds.index(ENGINES.kind), "before the replicas"
    labels = world.live(Ref(POD, "default", "e0"))["metadata"]["labels"]
    assert labels["inference-operator.dev/traffic"] == "true", "it stays in traffic"


async def test_engines_without_a_node_are_counted_as_missing(world: World) -> None:
    fleet = await started(world)
    await fleet.round(running={"e0": 28})
    ref = fleet.add("e1", ready=False)
    world.cluster.set_status(ref, unschedulable("0/3 nodes are available: 3 Insufficient nvidia.com/gpu."))
    await world.settle()
    assert world.conditions()["ScalingActive"] == ("True", "CapacityLimited")
    assert "1 of them have no GPU" in fleet.message


async def test_the_time_of_a_start_is_measured_and_recorded(world: World) -> None:
    fleet = await started(world, replicas=0, least=0)
    ref = fleet.add("e0", ready=False)
    status = ready_pod()
    later = (NOW + timedelta(seconds=90)).strftime("%Y-%m-%dT%H:%M:%SZ")
    status["conditions"] = [{**one, "lastTransitionTime": later} for one in status["conditions"]]
    world.cluster.set_status(ref, status)
    world.edit(ref, lambda manifest: manifest["metadata"].update(creationTimestamp="2026-01-02T03:04:05Z"))
    await world.settle()
    recorded = world.status().autoscaling
    assert recorded is not None
    assert recorded.start_seconds == 90
    (request,) = world.cache.scaling.inputs(KEY)
    assert request is not None
    assert request.settings.start_seconds == 90


@pytest.mark.parametrize("paused", [True, False])
async def test_a_paused_resource_keeps_its_engines(world: World, *, paused: bool) -> None:
    fleet = await started(world)
    await fleet.round(running={"e0": 1})
    world.ask(autoscaling={"maxReplicas": 4, "targetConcurrency": 10}, paused=paused)
    await world.settle()
    await fleet.round(running={"e0": 28})
    assert fleet.replicas == (1 if paused else 4)


async def corrected(fleet: Fleet, right: float, *, rounds: int) -> list[Request]:
    """Rounds in which one engine always has its target, and `right` requests would have tokens of 50 ms."""
    fleet.latency = fleet.latency or Histograms()
    writes: list[Request] = []
    for _ in range(rounds):
        recorded = fleet.world.status().autoscaling
        running = recorded.target_concurrency or 0 if recorded else 0
        fleet.latency.finish(20, ttft=0.3, tpot=0.010 + 0.040 * running / right)
        writes += await fleet.round(running={"e0": running})
    return writes


async def computed_target(world: World) -> tuple[Fleet, int]:
    """A resource with one engine and a computed target of 127 or so."""
    world.ask(autoscaling={"maxReplicas": 1})
    await world.settle()
    fleet = Fleet(world)
    fleet.add("r", component=ROUTER)
    fleet.add("e0")
    world.pods_are_ready()
    await world.settle()
    recorded = world.status().autoscaling
    assert recorded is not None
    assert recorded.target_concurrency is not None
    return fleet, recorded.target_concurrency


HALF_AN_HOUR = int(1800 / ROUND)


async def test_the_target_follows_the_lengths_that_engines_count_and_keeps_them_over_a_restart(world: World) -> None:
    fleet, computed = await computed_target(world)
    fleet.latency = Histograms()
    fleet.latency.count(1, prompt=1, answer=1, cached=0.0)
    writes: list[Request] = []
    for _ in range(20):
        fleet.latency.finish(20, ttft=0.3, tpot=0.049)
        fleet.latency.count(20, prompt=6000, answer=100, cached=0.25)
        writes += await fleet.round(running={"e0": computed})
    recorded = world.status().autoscaling
    assert recorded is not None
    assert recorded.load is not None
    assert (recorded.load.prompt_tokens, recorded.load.answer_tokens) == (6000, 100)
    assert recorded.load.cached == pytest.approx(0.25, abs=0.01)
    assert recorded.target_concurrency is not None
    assert recorded.target_concurrency < computed / 2, "long prompts delay the tokens of others"
    others = [one for one in writes if one.verb != "status"]
    assert others == [Request("apply", CONFIG)], "once, what an engine has room for"
    sized = next(one.message for one in world.status().conditions if one.type == "Sized")
    assert "requests/s of 6,000 prompt and 100 answer tokens" in sized
    await world.restart()
    assert await world.settle() == []
    assert world.status().autoscaling == recorded


@pytest.mark.parametrize("wrong", [4, 1 / 4])
async def test_measured_latencies_bring_a_target_that_is_wrong_by_four_back_within_a_quarter_in_an_hour(
    world: World, wrong: float
) -> None:
    fleet, computed = await computed_target(world)
    right = computed / wrong
    (request,) = world.cache.scaling.inputs(KEY)
    assert request is not None
    reachable = min(right, request.target.bounds[TargetBound.KV_CACHE])
    writes = await corrected(fleet, right, rounds=2 * HALF_AN_HOUR)
    recorded = world.status().autoscaling
    assert recorded is not None
    assert recorded.target_concurrency is not None
    assert reachable * 0.75 <= recorded.target_concurrency <= reachable * 1.25
    assert {one.verb for one in writes} == {"status"}
    assert len(writes) <= 16, "one write for each step"
    assert len(await corrected(fleet, right, rounds=HALF_AN_HOUR)) <= 4, "one attempt to grow in an hour"


async def test_the_correction_outlasts_a_restart_and_ends_with_the_plan_that_it_belongs_to(world: World) -> None:
    fleet, computed = await computed_target(world)
    await corrected(fleet, computed / 2, rounds=60)
    before = world.status().autoscaling
    assert before is not None
    assert before.target_factor is not None
    assert before.target_factor < 0.8
    await world.restart()
    assert await world.settle() == []
    await fleet.round(running={"e0": 1})
    assert world.status().autoscaling == before
    (request,) = world.cache.scaling.inputs(KEY)
    assert request is not None
    assert request.settings.target_concurrency == pytest.approx(computed * before.target_factor, rel=0.02)
    world.ask(autoscaling={"maxReplicas": 1}, engine={"maxModelLen": 2048})
    await world.settle()
    after = world.status().autoscaling
    assert after is not None
    assert after.target_factor is None


async def test_the_corrected_target_outlasts_a_release_with_another_formula(world: World) -> None:
    fleet, computed = await computed_target(world)
    await corrected(fleet, computed / 2, rounds=60)
    before = world.status().autoscaling
    assert before is not None
    assert before.target_concurrency is not None
    third = before.target_concurrency // 3
    world.edit(RESOURCE, lambda manifest: manifest["status"]["autoscaling"].update(targetConcurrency=third))
    await world.restart()
    await world.settle()
    after = world.status().autoscaling
    assert after is not None
    assert after.target_factor is not None
    assert after.target_concurrency == third, "engines keep as many requests"
    await fleet.round(running={"e0": 1})
    assert world.status().autoscaling == after
    world.ask(autoscaling={"maxReplicas": 1, "objective": {"tpot": "20ms"}})
    await world.settle()
    stricter = world.status().autoscaling
    assert stricter is not None
    assert stricter.target_concurrency is not None
    assert stricter.target_factor == after.target_factor, "an edit changes what is computed"
    assert stricter.target_concurrency < third


@pytest.mark.parametrize(
    ("autoscaling", "target", "bound"),
    [
        ({"maxReplicas": 1}, None, "time of each output token"),
        ({"maxReplicas": 1, "objective": {"tpot": "1s"}}, None, "KV cache"),
        ({"maxReplicas": 1, "targetConcurrency": 7}, 7, "targetConcurrency"),
    ],
)
async def test_the_status_says_what_decides_the_target(
    world: World, autoscaling: dict[str, object], target: int | None, bound: str
) -> None:
    world.ask(autoscaling=autoscaling)
    await world.settle()
    recorded = world.status().autoscaling
    assert recorded is not None
    assert recorded.target_bound == bound
    assert target in {None, recorded.target_concurrency}


async def test_a_target_of_the_user_is_not_corrected(world: World) -> None:
    fleet = await started(world, most=1)
    await fleet.round()
    assert await corrected(fleet, 2, rounds=HALF_AN_HOUR) == []
    recorded = world.status().autoscaling
    assert recorded is not None
    assert recorded.target_concurrency == 10


async def listed(world: World) -> None:
    """Run the lookups that the last reconcile has asked for."""
    again = await world.reconcile()
    for look in again.lookups if again else ():
        world.cache.put_lookup(look, await look_up(world.cluster, look))


def foreign(world: World, name: str, kind: str, target: str) -> Ref:
    reference = {"apiVersion": "v1", "kind": kind, "name": target}
    manifest: Manifest = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name, "namespace": KEY.namespace},
        "spec": {"maxReplicas": 9, "scaleTargetRef": reference},
    }
    world.cluster.apply_as(USER, manifest)
    world.cluster.events.clear()  # it carries no label of ours, so no watch shows it
    return Ref(HORIZONTAL_POD_AUTOSCALER, KEY.namespace, name)


def scale_deployment(world: World, replicas: int) -> None:
    """Write the replicas as a HorizontalPodAutoscaler does."""
    world.cluster.edit(
        ENGINES, lambda live: live["spec"].update(replicas=replicas), manager="kube-controller-manager/scale"
    )


async def test_a_foreign_autoscaler_on_the_deployment_keeps_its_number_and_is_named_until_it_is_gone(
    world: World,
) -> None:
    fleet = await started(world)
    await fleet.round(running={"e0": 1})
    await listed(world)
    hpa = foreign(world, "cpu", "Deployment", ENGINES.name)
    scale_deployment(world, 3)
    writes = await world.settle()
    assert fleet.replicas == 3, "before it is known who has written"
    await listed(world)
    writes += await world.settle()
    assert fleet.replicas == 3
    assert world.conditions()["ScalingActive"] == ("False", "AutoscalerConflict")
    assert "HorizontalPodAutoscaler `cpu` acts on the Deployment" in fleet.message
    changed = [one.ref for one in writes if one.verb != "status"]
    assert changed == [ENGINES, BUDGET_OF_ENGINES], "the hash of what is desired"
    scale_deployment(world, 2)
    await listed(world)
    await world.settle()
    assert fleet.replicas == 2
    await world.restart()
    await world.settle()
    assert (fleet.replicas, fleet.reason) == (2, "AutoscalerConflict")
    world.cluster.remove(hpa)
    world.cluster.events.clear()
    await listed(world)
    await world.settle()
    await fleet.round(running={"e0": 1})
    assert (fleet.replicas, fleet.reason) == (2, "FollowingDemand")


async def test_kubectl_scale_of_the_deployment_is_undone_once_no_autoscaler_was_found(world: World) -> None:
    fleet = await started(world)
    await fleet.round(running={"e0": 1})
    await listed(world)
    scale_deployment(world, 3)
    await listed(world)
    await world.settle()
    assert fleet.replicas == 1
    assert fleet.reason == "FollowingDemand"


async def test_a_foreign_autoscaler_on_scale_is_named_and_the_operator_goes_on(world: World) -> None:
    fleet = await started(world)
    foreign(world, "mine", "InferenceDeployment", KEY.name)
    await listed(world)
    await fleet.round(running={"e0": 28})
    assert fleet.replicas == 4
    assert world.conditions()["ScalingActive"] == ("True", "AutoscalerConflict")
    assert "`mine` acts on `/scale` of qwen, which has no effect" in fleet.message


async def test_a_schedule_raises_the_engines_at_its_start_and_lets_them_go_after_its_end(world: World) -> None:
    """It is 03:04:05 UTC."""
    schedule = [{"start": "30 4 * * *", "end": "0 6 * * *", "timeZone": "Europe/Berlin", "minReplicas": 3}]
    world.ask(autoscaling={"maxReplicas": 4, "targetConcurrency": 10, "schedule": schedule})
    await world.settle()
    again = await world.reconcile()
    assert again is not None
    assert again.seconds is not None
    assert timedelta(seconds=again.seconds) <= timedelta(minutes=26), "a reconcile at the start"
    fleet = Fleet(world)
    for number in range(3):
        fleet.add(f"e{number}")
    fleet.add("r", component=ROUTER)
    await fleet.round(running={"e0": 1})
    assert fleet.replicas == 1
    world.now += timedelta(minutes=26)
    writes = await world.settle()
    assert [one.ref for one in writes if one.verb == "apply"] == [ENGINES, BUDGET_OF_ENGINES]
    assert fleet.replicas == 3
    await fleet.round(running={"e0": 1})
    assert "`autoscaling.schedule[0]` keeps at least 3 until 2026-01-02T05:00:00Z" in fleet.message
    assert await fleet.rounds(WINDOW, running={"e0": 1}) == []
    world.now += timedelta(minutes=90)
    await world.settle()
    await fleet.rounds(WINDOW, running={"e0": 1})
    assert fleet.replicas == 1
    assert "schedule" not in fleet.message


async def test_fixed_capacity_limits_the_engines_to_the_gpus_and_says_how_many_are_missing(world: World) -> None:
    world.settings = SETTINGS.model_copy(update={"capacity": Capacity.FIXED})
    await world.restart()
    fleet = await started(world, most=20)
    await fleet.round(running={"e0": 90})
    recorded = world.status().autoscaling
    assert recorded is not None
    assert recorded.desired_replicas == 11
    assert fleet.replicas == 8, "the only node has eight GPUs"
    assert world.conditions()["ScalingActive"] == ("True", "CapacityLimited")
    assert "3 of them have no GPU: add nodes, or lower `autoscaling.maxReplicas`" in fleet.message
    assert await fleet.rounds(60, running={"e0": 90}) == []


@pytest.mark.parametrize("most", [20, 8], ids=["no GPU for more", "no more allowed"])
async def test_of_two_services_the_one_that_lacks_engines_says_so_and_chases_nothing(world: World, most: int) -> None:
    """The other one has the other GPUs: late requests are those of missing engines, and a lower target has none."""
    world.settings = SETTINGS.model_copy(update={"capacity": Capacity.FIXED})
    await world.restart()
    world.ask(replicas=8, autoscaling={"minReplicas": 1, "maxReplicas": most})
    await world.settle()
    fleet = Fleet(world)
    fleet.latency = Histograms()
    fleet.add("r", component=ROUTER)
    for number in range(8):
        fleet.add(f"e{number}")
    world.pods_are_ready()
    await world.settle()
    wanted = set[int]()
    for _ in range(2 * HALF_AN_HOUR):
        fleet.latency.finish(20, ttft=9.0, tpot=0.2)
        await fleet.round(running={f"e{number}": 190 for number in range(8)})
        recorded = world.status().autoscaling
        assert recorded is not None
        wanted.add(recorded.desired_replicas)
        assert recorded.target_factor is None
    assert fleet.replicas == 8
    assert len(wanted - {8}) == (most > 8), "it asks for one number of engines"
    assert ("no GPU" if most > 8 else "autoscaling.maxReplicas") in fleet.message


async def test_the_status_says_which_part_of_the_requests_was_in_time_and_keeps_it_over_a_restart(
    world: World,
) -> None:
    fleet, computed = await computed_target(world)
    await fleet.round()
    before = world.status().autoscaling
    assert before is not None
    assert (before.attainable, before.kept) == (None, None), "nothing is measured yet"
    fleet.latency = Histograms()
    for _ in range(14):  # a window is judged once it warrants a step
        fleet.latency.finish(15, ttft=0.3, tpot=0.02)
        fleet.latency.finish(5, ttft=0.3, tpot=0.07)
        await fleet.round(running={"e0": computed})
    recorded = world.status().autoscaling
    assert recorded is not None
    assert (recorded.attainable, recorded.kept) == (100.0, 75.0), "no prompt is too long; a quarter came late"
    assert recorded.target_factor is not None
    assert recorded.target_factor < 1
    await world.restart()
    assert await world.settle() == []
    again = world.status().autoscaling
    assert again is not None
    assert (again.attainable, again.kept) == (recorded.attainable, recorded.kept)


async def test_the_wait_for_a_node_is_a_part_of_the_start_that_is_the_window_of_scaling_down(world: World) -> None:
    fleet = await started(world, replicas=0, least=0)
    ref = fleet.add("e0", ready=False)
    world.edit(ref, lambda manifest: manifest["metadata"].update(creationTimestamp="2026-01-02T03:04:05Z"))
    world.cluster.set_status(ref, unschedulable("0/3 nodes are available: 3 Insufficient nvidia.com/gpu."))
    await world.settle()
    status = ready_pod()
    later = (NOW + timedelta(seconds=600)).strftime("%Y-%m-%dT%H:%M:%SZ")
    status["conditions"] = [{**one, "lastTransitionTime": later} for one in status["conditions"]]
    world.cluster.set_status(ref, status)
    await world.settle()
    (request,) = world.cache.scaling.inputs(KEY)
    assert request is not None
    assert request.settings.down_seconds == 600


@pytest.mark.parametrize("component", [DOWNLOAD, INSPECTION, VERIFICATION])
async def test_the_pod_of_a_job_is_no_engine(world: World, component: str) -> None:
    """While a model was downloaded, nothing scaled down: its pod counted as an engine without metrics."""
    fleet = await started(world, replicas=3, least=0)
    await fleet.rounds(60, running={"e0": 25})
    fleet.add("job", component=component)
    await fleet.rounds(WINDOW, running={"e0": 1})
    assert (fleet.replicas, fleet.reason) == (1, "FollowingDemand")
    await fleet.rounds(WINDOW + 900)
    assert fleet.replicas == 0
