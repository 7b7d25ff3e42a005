"""The operator's metrics, which `metrics.txt` describes.

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
from inference_operator.telemetry.description import descriptions

APPLY_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Seconds: from one request on an idle machine to a backlog of a thousand resources."""

_OPERATOR = descriptions("metrics")
DESCRIPTIONS = (*_OPERATOR.values(), *resources.DESCRIPTIONS.values())


def _counter(name: str) -> Counter:
    return Counter(name, _OPERATOR[name].text, _OPERATOR[name].labels)


def _gauge(name: str) -> Gauge:
    return Gauge(name, _OPERATOR[name].text, _OPERATOR[name].labels)


def _histogram(name: str, buckets: Sequence[float] = Histogram.DEFAULT_BUCKETS) -> Histogram:
    return Histogram(name, _OPERATOR[name].text, buckets=buckets)


LEADER = _gauge("infd_leader")
BUILD = _gauge("infd_build_info")
BUILD.labels(__version__, platform.python_version(), version("kopf")).set(1)

RECONCILES = _counter("infd_reconcile_total")
RECONCILE_SECONDS = _histogram("infd_reconcile_duration_seconds")
RECONCILE_ERRORS = _counter("infd_reconcile_errors_total")
EVENT_TO_APPLY = _histogram("infd_event_to_apply_seconds", APPLY_BUCKETS)

QUEUE_DEPTH = _gauge("infd_workqueue_depth")
QUEUE_WAIT = _histogram("infd_workqueue_wait_seconds", APPLY_BUCKETS)
QUEUE_LONGEST = _gauge("infd_workqueue_longest_running_seconds")
QUEUE_RETRIES = _counter("infd_workqueue_retries_total")

API_REQUESTS = _counter("infd_api_requests_total")
WATCHES = _counter("infd_watch_requests_total")
CACHE_AGE = _gauge("infd_cache_age_seconds")
USED_KINDS = _gauge("infd_optional_kind_used")
UNREADABLE = _gauge("infd_namespaces_unreadable")
LEFT_TO_OTHERS = _gauge("infd_namespaces_left_to_others")
LONGEST_STALL = _gauge("infd_event_loop_longest_stall_seconds")
SCRAPES = _counter("infd_scrapes_total")


class CountsByLabel(Collector):
    """A gauge of numbers by one label, counted at each scrape, so that it is never out of date."""

    def __init__(self, name: str) -> None:
        self.description = _OPERATOR[name]
        self.counts: Callable[[], Mapping[str, int]] = dict
        REGISTRY.register(self)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        family = GaugeMetricFamily(self.description.name, self.description.text, labels=self.description.labels)
        for value, count in self.counts().items():
            family.add_metric([value], count)
        yield family


RESOURCES = CountsByLabel("infd_resources")
ROLLOUT_RESOURCES = CountsByLabel("infd_rollout_resources")
NODE_GPUS = CountsByLabel("infd_node_gpus")

RESOURCE_METRICS = resources.ResourceMetrics()
REGISTRY.register(RESOURCE_METRICS)
