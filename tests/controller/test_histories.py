"""The children depend only on the present spec, not on earlier ones, and an engine is one whatever else is on."""

import random
from collections.abc import Mapping

import pytest

from inference_operator.controller.drift import first_drift
from inference_operator.manifest import CLAIM, Manifest, Ref
from inference_operator.objects.child import DESIRED_HASH_ANNOTATION
from inference_operator.objects.names import DOWNLOAD, ENGINE, INSPECTION, ROUTER, VERIFICATION
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.outcomes import Planned
from inference_operator.telemetry.resources import ResourceMetrics
from inference_operator.workload.eviction.rollout import ROLLOUT_ANNOTATION
from tests.controller.downloads import finish_downloads
from tests.controller.test_autoscaling import WINDOW, Fleet
from tests.controller.world import World
from tests.testing.builders import ENGINES, KEY, ROUTERS, deployment_status, inference_deployment, inputs
from tests.testing.random_specs import Specs

HISTORIES = 40


def served(source: Specs) -> Manifest:
    """The next spec that the operator accepts; a refused spec changes no children.

    It names no claim, and no adapters: engines that run stay, while first ones wait for the claim, or for the Jobs
    that tell the adapters' ranks.
    """
    drawn = ({**source.valid(), "paused": False} for _ in range(100))
    served = (one for one in drawn if "claimName" not in one.get("cache", {}) and not one["model"].get("adapters"))
    return next(spec for spec in served if isinstance(outcome(inputs(resource_of(spec))), Planned))


def resource_of(spec: Manifest) -> Manifest:
    return {**inference_deployment(), "spec": spec}


async def ask(world: World, spec: Manifest) -> None:
    fields = {name: value for name, value in spec.items() if name != "model"}
    world.ask(source="", **fields, model=spec["model"])
    await world.settle()
    await finish_downloads(world)


def remembered(children: dict[Ref, Manifest]) -> dict[Ref, Manifest]:
    """The children without what an edit leaves.

    That is the rollout strategy, which is decided when a rollout starts, and a claim.
    """
    children = {ref: child for ref, child in children.items() if ref.kind != CLAIM}
    if ENGINES not in children:
        return children
    found = children[ENGINES]
    notes = found["metadata"]["annotations"]
    kept = {
        name: value for name, value in notes.items() if name not in (ROLLOUT_ANNOTATION.key, DESIRED_HASH_ANNOTATION)
    }
    spec = {name: value for name, value in found["spec"].items() if name != "strategy"}
    return {**children, ENGINES: {**found, "metadata": {**found["metadata"], "annotations": kept}, "spec": spec}}


@pytest.mark.parametrize("seed", range(HISTORIES))
async def test_different_edit_histories_of_one_spec_end_in_the_same_children(seed: int) -> None:
    source = Specs(seed)
    last = served(source)
    # Routers keep the server slots of the most engines that there were, and an autoscaler the
    # number that it decided (docs/contributing/states.md).
    number = {"replicas": 1, **{name: last[name] for name in ("replicas", "autoscaling") if name in last}}
    drafts = [source.valid() for _ in range(2)]
    earlier = [{**{name: draft[name] for name in draft if name != "autoscaling"}, **number} for draft in drafts]
    direct, roundabout = World(), World()
    await ask(direct, last)
    # Twice: an input that ends an affinity by default is none once that has ended, which takes one more write.
    for spec in (*earlier, last, last):
        await ask(roundabout, spec)
    one, other = remembered(dict(direct.children())), remembered(dict(roundabout.children()))
    assert (first_drift(one, other), first_drift(other, one)) == (None, None), (earlier, last)
    assert one == other


LEAST, MOST = 1, 4
TOGETHER: Mapping[str, Manifest] = {
    "cache": {"cache": {"size": "200Gi"}},
    "adapters": {"cache": {"size": "200Gi"}, "engine": {"adapterSlots": 2, "maxAdapterRank": 16}},
    "keys": {"router": {"keys": {"secretRef": {"name": "keys"}, "maxConcurrent": 8}}},
    "affinity": {"router": {"strategy": "PrefixAffinity"}},
    "external": {"router": {"strategy": "External"}},
    "objective": {"autoscaling": {"objective": {"ttft": "1s"}}},
    "schedule": {"autoscaling": {"schedule": [{"start": "0 3 * * *", "end": "0 4 * * *", "minReplicas": 2}]}},
    "tuned": {"engine": {"args": ["--enable-prefix-caching"], "maxNumSeqs": 64}},
    "placed": {"scheduling": {"tolerations": [{"key": "spot", "operator": "Exists"}]}},
}
"""Features beside autoscaling. Two of one section replace each other."""
JOBS = (DOWNLOAD, INSPECTION, VERIFICATION)


class Combined:
    """A resource with features that are on together, with pods of Jobs beside its engines."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - the same ones each time
        self.on = self.random.sample(sorted(TOGETHER), k=self.random.randint(1, len(TOGETHER)))
        self.jobs = self.random.sample(JOBS, k=self.random.randint(1, len(JOBS)))
        self.fleet = Fleet(World())
        self.metrics = ResourceMetrics()
        self.metrics.resources = self.fleet.world.cache.figures
        self.least = LEAST
        self.pods_of_engine = self.random.choice((1, 2))

    async def start(self) -> None:
        world, scaling = self.fleet.world, {"minReplicas": LEAST, "maxReplicas": MOST, "targetConcurrency": 10}
        sections = dict[str, Manifest]()
        for name in self.on:
            sections |= TOGETHER[name]
        autoscaling = {**scaling, **sections.pop("autoscaling", {})}
        self.least = 2 if "schedule" in autoscaling else LEAST
        world.ask(source="hf://Qwen/Qwen3-8B", replicas=3, autoscaling=autoscaling, **sections)
        await world.settle()
        await finish_downloads(world)
        for name in ("e0", "e1", "e2"):
            self.fleet.add(name, group=name if self.pods_of_engine > 1 else "")
            for index in range(1, self.pods_of_engine):
                self.fleet.add(f"{name}-{index}", group=name, index=index)
        self.fleet.add("r", component=ROUTER)
        for job in self.jobs:
            self.fleet.add(f"job-{job}", component=job, ready=self.random.random() < 1 / 2)
        for ref in (ENGINES, ROUTERS):
            if (live := world.cluster.peek(ref)) is not None:
                seen = live["metadata"]["generation"]
                world.cluster.set_status(ref, deployment_status(live["spec"]["replicas"], seen=seen))
        await world.settle()

    def check(self) -> None:
        """What holds whatever is on: replicas, metrics and status speak of engines only."""
        cache, status = self.fleet.world.cache, self.fleet.world.status()
        engines = cache.engine_views(KEY)
        assert LEAST <= self.fleet.replicas <= MOST, self
        assert {engine.component for engine in engines} == {ENGINE}, self
        assert "job-" not in " ".join(f"{one.reason} {one.message}" for one in status.conditions), self
        assert self.fleet.reason != "MetricsMissing", self
        assert status.replicas == len(engines), self
        ready = sum(engine.ready for engine in engines)
        assert self.value("infd_replicas", state="ready") == ready, self
        assert status.plan is not None
        assert self.value("infd_gpus") == len(engines) * status.plan.gpus_per_replica, self

    def value(self, metric: str, **labels: str) -> float:
        found = [sample for family in self.metrics.collect() for sample in family.samples if sample.name == metric]
        return sum(one.value for one in found if labels.items() <= one.labels.items())

    def __repr__(self) -> str:
        return f"{self.on} with {self.jobs} and engines of {self.pods_of_engine} pods"


@pytest.mark.parametrize("seed", range(HISTORIES))
async def test_features_that_are_on_together_change_nothing_about_what_is_an_engine(seed: int) -> None:
    combined = Combined(seed)
    await combined.start()
    combined.check()
    await combined.fleet.rounds(60, running={"e0": 20})
    combined.check()
    await combined.fleet.rounds(WINDOW, running={"e0": 1})
    combined.check()
    assert combined.fleet.replicas == combined.least, combined
