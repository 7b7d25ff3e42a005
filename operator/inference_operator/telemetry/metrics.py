"""The operator's own metrics, in one table; names and meaning follow controller-runtime where it has the like.

`docs/reference/metrics.md` is generated from the table, and a test looks for each of them at a real operator.
"""

import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version

from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import REGISTRY, Collector

from inference_operator import __version__

APPLY_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Seconds: from one request on an idle machine to a backlog of a thousand resources."""


@dataclass(frozen=True, slots=True)
class Description:
    """What a metric is, for the reference page."""

    name: str
    type: str
    labels: Sequence[str]
    text: str


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


LEADER = _gauge("infd_leader", "1 while this process holds the Lease and works, 0 while it stands by")
BUILD = _gauge("infd_build_info", "1, with the versions that run as labels", "version", "python", "kopf")
BUILD.labels(__version__, platform.python_version(), version("kopf")).set(1)

RECONCILES = _counter(
    "infd_reconcile",
    "Rounds over one InferenceDeployment: `success`; `requeue`, one request or more failed; `error`, broken off",
    "result",
)
RECONCILE_SECONDS = _histogram("infd_reconcile_duration_seconds", "Time of one round")
RECONCILE_ERRORS = _counter("infd_reconcile_errors", "Rounds that were broken off, by the kind of error", "reason")
EVENT_TO_APPLY = _histogram(
    "infd_event_to_apply_seconds",
    "From the moment a change became known to the answer to the first write that it led to",
    APPLY_BUCKETS,
)

QUEUE_DEPTH = _gauge("infd_workqueue_depth", "InferenceDeployments that wait for their round")
QUEUE_WAIT = _histogram("infd_workqueue_wait_seconds", "Time from asking for a round to its begin", APPLY_BUCKETS)
QUEUE_LONGEST = _gauge("infd_workqueue_longest_running_seconds", "How long the oldest round that runs has run")
QUEUE_RETRIES = _counter("infd_workqueue_retries", "Rounds that are repeated with backoff")

API_REQUESTS = _counter(
    "infd_api_requests",
    "Requests to the API server but those of watches; `code` is the HTTP status, or `error` without an answer",
    "verb",
    "kind",
    "code",
)
WATCHES = _counter(
    "infd_watch_requests",
    "Watches begun: one a kind and namespace at the start, and one each time that one has ended",
    "resource",
)
CACHE_AGE = _gauge("infd_cache_age_seconds", "Time since the last complete listing; NaN before the first one")
UNREADABLE = _gauge("infd_namespaces_unreadable", "Namespaces (or the cluster) that could not be listed last")

SCRAPES = _counter("infd_scrapes", "Looks at the metrics of pods, by component and result", "component", "result")
ENGINE_STALLS = _counter(
    "infd_engine_stalls",
    "Engines that had work, made no progress and did not answer for the operator's `stallSeconds`",
    "namespace",
    "name",
)


class Resources(Collector):
    """`infd_resources`, counted when it is asked for, so that it is never out of date."""

    description = Description(
        "infd_resources", "gauge", ("state",), "InferenceDeployments that are known: `ready`, `progressing`, `stalled`"
    )

    def __init__(self) -> None:
        self.states: Callable[[], Mapping[str, int]] = dict

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The counts of this moment."""
        family = GaugeMetricFamily(self.description.name, self.description.text, labels=self.description.labels)
        for state, count in self.states().items():
            family.add_metric([state], count)
        yield family


RESOURCES = Resources()
REGISTRY.register(RESOURCES)
DESCRIPTIONS.append(Resources.description)
