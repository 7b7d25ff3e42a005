"""The operator's metrics, in one table. Names and meaning follow controller-runtime where it has the same metric.

`docs/reference/metrics.md` is generated from the table. A test checks that a running operator exposes each metric.
"""

import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version

from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import REGISTRY, Collector

from inference_operator import __version__
from inference_operator.telemetry import resources
from inference_operator.telemetry.resources import Description

APPLY_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Seconds: from one request on an idle machine to a backlog of a thousand resources."""

DESCRIPTIONS: list[Description] = []


def _counter(name: str, text: str, *labels: str) -> Counter:
    DESCRIPTIONS.append(Description(f"{name}_total", "counter", labels, text))
    return Counter(name, text, labels)


def _gauge(name: str, text: str, *labels: str) -> Gauge:
    DESCRIPTIONS.append(Description(name, "gauge", labels, text))
    return Gauge(name, text, labels)


def _histogram(name: str, text: str, buckets: Sequence[float] = Histogram.DEFAULT_BUCKETS) -> Histogram:
    DESCRIPTIONS.append(Description(name, "histogram", (), text))
    return Histogram(name, text, buckets=buckets)


LEADER = _gauge("infd_leader", "1 while this process holds the Lease, 0 while it is a standby")
BUILD = _gauge("infd_build_info", "Always 1; the labels hold the versions in use", "version", "python", "kopf")
BUILD.labels(__version__, platform.python_version(), version("kopf")).set(1)

RECONCILES = _counter(
    "infd_reconcile",
    "Reconciles of one InferenceDeployment, by result: `success`, `requeue` (a request failed), `error` (an exception)",
    "result",
)
RECONCILE_SECONDS = _histogram("infd_reconcile_duration_seconds", "Duration of one reconcile")
RECONCILE_ERRORS = _counter("infd_reconcile_errors", "Reconciles that ended with an exception, by its class", "reason")
EVENT_TO_APPLY = _histogram(
    "infd_event_to_apply_seconds",
    "Time from the event that queued a reconcile to the response to its first write",
    APPLY_BUCKETS,
)

QUEUE_DEPTH = _gauge("infd_workqueue_depth", "InferenceDeployments that wait for a reconcile")
QUEUE_WAIT = _histogram(
    "infd_workqueue_wait_seconds",
    "Time that an InferenceDeployment waits in the work queue before its reconcile starts",
    APPLY_BUCKETS,
)
QUEUE_LONGEST = _gauge("infd_workqueue_longest_running_seconds", "How long the oldest running reconcile has run")
QUEUE_RETRIES = _counter("infd_workqueue_retries", "Reconciles that were requeued with backoff")

API_REQUESTS = _counter(
    "infd_api_requests",
    "Requests to the API server, without watches; `code` is the HTTP status, or `error` if there was no response",
    "verb",
    "kind",
    "code",
)
WATCHES = _counter(
    "infd_watch_requests",
    "Watches started: one per kind and namespace when the operator starts or finds it, and one each time a watch ends",
    "resource",
)
CACHE_AGE = _gauge("infd_cache_age_seconds", "Time since the last complete listing; NaN before the first one")
USED_KINDS = _gauge(
    "infd_optional_kind_used",
    "1 if this process uses an optional kind of Kubernetes, 0 if its CustomResourceDefinition or the right to it is"
    " missing, or if another process holds the Lease",
    "resource",
)
UNREADABLE = _gauge("infd_namespaces_unreadable", "Namespaces (or the cluster) whose last listing failed")
LEFT_TO_OTHERS = _gauge(
    "infd_namespaces_left_to_others", "Namespaces in which this operator does nothing, because an older one acts there"
)
LONGEST_STALL = _gauge(
    "infd_event_loop_longest_stall_seconds",
    "Longest time in the last one to two minutes for which the operator did nothing else, such as answer a probe;"
    " 0 on a standby",
)

SCRAPES = _counter("infd_scrapes", "Scrapes of pod metrics, by component and result", "component", "result")


class CountsByLabel(Collector):
    """A gauge of numbers by one label, counted at each scrape, so that it is never out of date."""

    def __init__(self, name: str, text: str, label: str = "state") -> None:
        self.description = Description(name, "gauge", (label,), text)
        self.counts: Callable[[], Mapping[str, int]] = dict
        DESCRIPTIONS.append(self.description)
        REGISTRY.register(self)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        family = GaugeMetricFamily(self.description.name, self.description.text, labels=self.description.labels)
        for value, count in self.counts().items():
            family.add_metric([value], count)
        yield family


RESOURCES = CountsByLabel("infd_resources", "InferenceDeployments in each state: `ready`, `progressing`, `stalled`")
ROLLOUT_RESOURCES = CountsByLabel(
    "infd_rollout_resources",
    "InferenceDeployments by how far changes of the operator's settings are: `waiting` for their turn, `rolling`,"
    " `failed` (healthy before and not now), `done`",
)
NODE_GPUS = CountsByLabel(
    "infd_node_gpus",
    "GPUs of all ready nodes that are not cordoned, by kind, used or not; none where nodes cannot be listed",
    label="gpu",
)

RESOURCE_METRICS = resources.ResourceMetrics()
REGISTRY.register(RESOURCE_METRICS)
DESCRIPTIONS.extend(resources.DESCRIPTIONS)
