"""The rendered HorizontalPodAutoscaler and ScaledObject as rules of `bench/autoscaling.py`.

The query is read from the manifest that the operator creates, and evaluated on series as Prometheus has them. The
controller of Kubernetes acts on its value, with the behaviour of the same manifest (Kubernetes 1.36,
pkg/controller/podautoscaler/replica_calculator.go, GetExternalPerPodMetricReplicas).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import ceil, isfinite
from typing import Any

from bench.fleet_simulation import Observed, Scaler
from bench.promql import Labels, Store, labels, parsed
from bench.scaling_rules import HPA_SECONDS, TOLERANCE, Window
from inference_operator.api.autoscaling import AutoscalingBackend, AutoscalingSpec
from inference_operator.api.prometheus import PrometheusSettings
from inference_operator.autoscaling.external import (
    QUERY_ANNOTATION,
    external_autoscaler,
)
from inference_operator.autoscaling.query import HELD, QUEUED, RUNNING, engines_query
from inference_operator.engines.vllm.metrics import SERIES
from inference_operator.manifest import Key, Manifest, Owner
from inference_operator.objects.names import ENGINE, ROUTER, workload_name

KEY = Key("bench", "model")
HASHES = "6f9c8d7b54-x2k"
"""The end of a pod's name, less two characters that tell pods apart."""
PROMETHEUS = PrometheusSettings(url="http://prometheus.bench:9090")
SCRAPE_SECONDS = 15.0
"""Interval of scrapes, as the how-to recommends it."""
RULE_SECONDS = 15.0
"""Interval of the recording rule that the how-to has for the HorizontalPodAutoscaler."""
RULE_AGE_SECONDS = 10.0
"""Age of the rule's value when the controller reads it; a mean, as the two intervals are not aligned."""


def rendered(backend: AutoscalingBackend, concurrency: float, max_replicas: int) -> Manifest:
    """The object that the operator creates for a backend, with its default settings."""
    spec = AutoscalingSpec.model_validate({"backend": backend, "minReplicas": 1, "maxReplicas": max_replicas})
    query = engines_query(KEY, ENGINE, concurrency, bypasses_routers=False, metrics=SERIES)
    found = external_autoscaler(spec, Owner(KEY, uid="bench"), ENGINE, query, prometheus=PROMETHEUS, least=1)
    if found is None:
        raise ValueError(f"{backend} needs no object")
    return found


def rendered_hpa(concurrency: float, max_replicas: int) -> Scaler:
    """The HorizontalPodAutoscaler, whose metric is a recording rule with the query of its annotation."""
    manifest = rendered(AutoscalingBackend.HPA, concurrency, max_replicas)
    spec = manifest["spec"]
    target = float(spec["metrics"][0]["external"]["target"]["averageValue"])
    query = manifest["metadata"]["annotations"][QUERY_ANNOTATION]
    rule = _Prometheus(query, rule_seconds=RULE_SECONDS, age_seconds=RULE_AGE_SECONDS)
    return _controller(rule.value, target, spec["minReplicas"], spec["behavior"])


def rendered_keda(concurrency: float, max_replicas: int) -> Scaler:
    """The ScaledObject. From one engine on, KEDA's HorizontalPodAutoscaler acts, and KEDA answers it at once."""
    spec = rendered(AutoscalingBackend.KEDA, concurrency, max_replicas)["spec"]
    metadata = spec["triggers"][0]["metadata"]
    prometheus = _Prometheus(metadata["query"])
    behavior = spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    return _controller(prometheus.value, float(metadata["threshold"]), spec["minReplicaCount"], behavior)


@dataclass
class _Prometheus:
    """What Prometheus answers: a query on what it has scraped, or the last value of a recording rule."""

    query: str
    rule_seconds: float = 0.0
    """Zero: there is no rule, and the query is evaluated when somebody asks."""
    age_seconds: float = 0.0
    _store: Store = field(default_factory=Store)
    _finished: dict[int, float] = field(default_factory=dict)
    _completions: float = 0.0
    _recorded: float | None = None
    _due: float = 0.0

    def __post_init__(self) -> None:
        self._evaluate = parsed(self.query)
        self._due = self.rule_seconds - self.age_seconds

    def value(self, seen: Observed) -> float | None:
        """The value that a reader gets now."""
        if seen.at - self._store.scraped >= SCRAPE_SECONDS:
            self._store.scrape(seen.at, self._series(seen))
        if not self.rule_seconds:
            return self._answer(seen.at)
        if seen.at >= self._due:
            self._due += self.rule_seconds
            self._recorded = self._answer(seen.at)
        return self._recorded

    def _answer(self, at: float) -> float | None:
        found = self._evaluate(self._store, at)
        values = [found] if isinstance(found, float) else list(found.values())
        return values[0] if values and isfinite(values[0]) else None

    def _series(self, seen: Observed) -> Mapping[Labels, float]:
        """A router, and engines that have the same requests each."""
        router = {"namespace": KEY.namespace, "pod": _pod(ROUTER, 0)}
        requests = {QUEUED: 0.0, HELD: seen.outstanding - seen.running, RUNNING: seen.running}
        found = {labels(name, **router): value for name, value in requests.items()}
        growth, self._completions = seen.completions - self._completions, seen.completions
        for number in range(seen.ready):
            self._finished[number] = self._finished.get(number, 0.0) + growth / seen.ready
            values = {
                SERIES.running: seen.running / seen.ready,
                SERIES.waiting: seen.waiting / seen.ready,
                SERIES.finished: self._finished[number],
            }
            pod = _pod(ENGINE, number)
            found |= {labels(name, namespace=KEY.namespace, pod=pod): value for name, value in values.items()}
        return found


def _pod(component: str, number: int) -> str:
    return f"{workload_name(KEY.name, component)}-{HASHES}{number // 26 % 10}{chr(ord('a') + number % 26)}"


def _controller(
    value: Callable[[Observed], float | None], target: float, least: int, behavior: Mapping[str, Any]
) -> Scaler:
    """The HorizontalPodAutoscaler controller with an AverageValue."""
    window = Window(behavior["scaleDown"]["stabilizationWindowSeconds"])
    step = behavior["scaleUp"]["policies"][0]["value"]
    due = [0.0]

    def scale(seen: Observed, desired: int) -> int:
        found = value(seen)
        if seen.at + 1e-6 < due[0]:
            return desired
        due[0] = seen.at + HPA_SECONDS
        if found is None:
            return desired
        close = abs(found / target / max(desired, 1) - 1) <= TOLERANCE
        wanted = max(least, min(desired if close else ceil(found / target), desired + step))
        window.add(seen.at, wanted)
        return wanted if wanted > desired else min(desired, int(window.largest()))

    return scale
