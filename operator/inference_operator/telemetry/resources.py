"""Metrics of each InferenceDeployment, computed from the operator's cache at every scrape.

They cost no watch and no request. One InferenceDeployment has at most `MAX_SERIES` series: no label has a value that
users or clients choose, beside the name and the namespace. A standby operator has no cache, and so none of them.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from inference_operator.api.resource import INFERENCE_DEPLOYMENT_API
from inference_operator.autoscaling.decision import Bound, Decision
from inference_operator.autoscaling.inputs import ScalingResult
from inference_operator.diagnosis.restart_cause import RestartCause
from inference_operator.manifest import Key
from inference_operator.objects.names import PREFILL
from inference_operator.telemetry.description import descriptions
from inference_operator.telemetry.restarts import EngineRestarts, RouterRestarts
from inference_operator.views.engine import EngineView
from inference_operator.views.pod import PodView
from inference_operator.views.pod_startup import StartupTimes
from inference_operator.views.resource_figures import ResourceFigures

Resource = tuple[Key, ResourceFigures, Sequence[EngineView], Sequence[PodView]]
"""An InferenceDeployment with its figures, its engines and the pods of its routers."""


Series = tuple[str, float, *tuple[str, ...]]
"""Name of the metric, value, and the values of the labels beside namespace and name."""
REPLICA_STATES = ("desired", "ready", "starting", "unscheduled", "terminating")
GPU_STATES = ("allocated", "pending")
PHASES = ("node", "prepare", "load")
ROUTER_STATES = ("ready", "unready")
DEMAND_PARTS = ("steady", "headroom", "backlog")
ROLES = 2
"""Roles of one InferenceDeployment, which may have GPUs of different kinds."""

MAX_SERIES = (
    len(INFERENCE_DEPLOYMENT_API.conditions)
    + len(REPLICA_STATES)
    + ROLES * len(GPU_STATES)
    + len(PHASES)
    + len(DEMAND_PARTS)
    + len(RestartCause)
    + len(ROUTER_STATES)
    + ROLES * len(("cost",))
    + len(("max", "target", "bound", "step", "no progress", "stalls", "router restarts"))
)

DESCRIPTIONS = descriptions(
    "resource-metrics",
    *("resource_namespace", "name"),
    bounds=", ".join(f"`{bound.name.lower()}`" for bound in Bound),
    causes=", ".join(f"`{cause}`" for cause in RestartCause),
)
NO_PROGRESS, STALLS = "infd_engine_no_progress_total", "infd_engine_stalls_total"
Family = CounterMetricFamily | GaugeMetricFamily
_FAMILIES: Mapping[str, type[Family]] = {"counter": CounterMetricFamily, "gauge": GaugeMetricFamily}


class ResourceMetrics(Collector):
    def __init__(self) -> None:
        self.resources: Callable[[], Iterable[Resource]] = tuple
        self.scaling: Callable[[Key], ScalingResult | None] = lambda _: None
        """The latest decision of autoscaling; None where the operator does not decide."""
        self.prices: Mapping[str, float] = {}
        self._startups, self._restarts, self._router_restarts = _Startups(), EngineRestarts(), RouterRestarts()
        self._faults: dict[str, Counter[Key]] = {NO_PROGRESS: Counter(), STALLS: Counter()}
        """Faults of engines. Each resource has them from its start: Prometheus does not see the begin of a series."""

    def count_no_progress(self, key: Key) -> None:
        self._faults[NO_PROGRESS][key] += 1

    def count_stall(self, key: Key) -> None:
        self._faults[STALLS][key] += 1

    def collect(self) -> Iterator[Family]:
        families = {
            item.name: _FAMILIES[item.type](item.name, item.text, labels=item.labels) for item in DESCRIPTIONS.values()
        }
        resources = list(self.resources())
        self._restarts.update({key: engines for key, _, engines, _ in resources})
        self._router_restarts.update({key: routers for key, _, _, routers in resources})
        # An engine that has failed has released its nodes.
        every = [(key, figures, [one for one in engines if not one.failed]) for key, figures, engines, _ in resources]
        keys = {key for key, _, _ in every}
        self._faults = {fault: Counter({k: n for k, n in c.items() if k in keys}) for fault, c in self._faults.items()}
        self._startups.update({key: engines for key, _, engines in every})
        for key, figures, engines in every:
            for name, value, *labels in self._series(key, figures, engines):
                families[name].add_metric([key.namespace, key.name, *labels], value)
        for key, _, _, routers in resources:
            for state, count in _router_states(routers).items():
                families["infd_router_pods"].add_metric([key.namespace, key.name, state], count)
        yield from families.values()

    def _series(self, key: Key, figures: ResourceFigures, engines: Sequence[EngineView]) -> Iterator[Series]:
        for condition in figures.conditions:
            yield "infd_condition", 1, *condition
        for state, count in _replicas(figures, engines).items():
            yield "infd_replicas", count, state
        if figures.max_replicas:
            yield "infd_max_replicas", figures.max_replicas
        if scaling := self.scaling(key):
            yield from _decided(scaling.decision)
        for (kind, state), number in _gpus(figures, engines).items():
            yield "infd_gpus", number, kind, state
            if state == GPU_STATES[0] and kind in self.prices:
                yield "infd_cost_per_hour", number * self.prices[kind], kind
        if figures.startup_step:
            yield "infd_startup_step", 1, figures.startup_step
        for phase, seconds in self._startups.last(key).items():
            yield "infd_engine_start_seconds", seconds, phase
        yield from self._counted(key)

    def _counted(self, key: Key) -> Iterator[Series]:
        for metric, counts in self._faults.items():
            yield metric, counts[key]
        for cause, number in self._restarts.of(key).items():
            yield "infd_engine_restarts_total", number, cause
        yield "infd_router_restarts_total", self._router_restarts.of(key)


def _decided(decision: Decision) -> Iterator[Series]:
    terms = decision.terms
    for part, requests in zip(DEMAND_PARTS, (terms.steady, terms.headroom, terms.backlog), strict=True):
        yield "infd_scaling_demand_requests", requests, part
    yield "infd_scaling_target_concurrency", decision.target_concurrency
    yield "infd_scaling_bound", 1, decision.bound.name.lower()


def _replicas(figures: ResourceFigures, engines: Sequence[EngineView]) -> Mapping[str, int]:
    counted = Counter(_state(engine) for engine in engines if engine.component != PREFILL)
    return {"desired": figures.desired, **{state: counted[state] for state in REPLICA_STATES[1:]}}


def _state(engine: EngineView) -> str:
    if engine.terminating:
        return "terminating"
    if engine.ready:
        return "ready"
    return "starting" if engine.is_scheduled else "unscheduled"


def _router_states(routers: Sequence[PodView]) -> Mapping[str, int]:
    counted = Counter(pod.ready for pod in routers if not (pod.terminating or pod.failed))
    return dict(zip(ROUTER_STATES, (counted[True], counted[False]), strict=True))


def _gpus(figures: ResourceFigures, engines: Sequence[EngineView]) -> Mapping[tuple[str, str], float]:
    """The GPUs of engines by kind and state. Each pod of an engine has an equal part of its GPUs."""
    counted: dict[tuple[str, str], float] = {}
    for role, gpus in figures.gpus.items():
        own = [engine for engine in engines if role in ("", engine.component)]
        parts = sum(engine.scheduled_part for engine in own)
        if gpus.count:
            for state, number in zip(GPU_STATES, (parts, len(own) - parts), strict=True):
                counted[gpus.kind, state] = counted.get((gpus.kind, state), 0.0) + number * gpus.count
    return counted


class _Startups:
    """The last start of each InferenceDeployment.

    An engine counts once it is ready, if an earlier scrape saw it unready. The time of readiness of any other engine
    may be that of its return from a busy moment, which is not the end of its start.
    """

    def __init__(self) -> None:
        self._starting: set[str] = set()
        """The uids of engines that were not ready yet."""
        self._last: dict[Key, StartupTimes] = {}

    def update(self, resources: Mapping[Key, Sequence[EngineView]]) -> None:
        """Note which engines have become ready since the last scrape, and forget those that are gone."""
        last = {key: times for key, times in self._last.items() if key in resources}
        for key, engines in resources.items():
            for engine in engines:
                times = engine.startup_times if engine.uid in self._starting else None
                if times and (key not in last or last[key].ready < times.ready):
                    last[key] = times
        self._starting = {engine.uid for engines in resources.values() for engine in engines if engine.is_starting}
        self._last = last

    def last(self, key: Key) -> Mapping[str, float]:
        """Seconds of each phase; empty if no engine has become ready."""
        times = self._last.get(key)
        if times is None:
            return {}
        ends = (times.created, times.placed, times.running, times.ready)
        seconds = ((end - begin).total_seconds() for begin, end in pairwise(ends))
        return dict(zip(PHASES, seconds, strict=True))
