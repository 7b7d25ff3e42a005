"""The records of a router about its requests: fields of its access log, and metrics that HAProxy's exporter lacks."""

from collections.abc import Mapping
from dataclasses import dataclass

from inference_operator.api.router import RouterStrategy, RouterUsage
from inference_operator.router.clients import READERS
from inference_operator.router.first_byte import BOUNDS_SECONDS
from inference_operator.router.inputs import RouterInputs
from inference_operator.router.process import CONFIG_FOLDER
from inference_operator.router.resources import threads
from inference_operator.text_tables import blocks

ROUTER_METRICS_PATH = "/metrics/router"
"""Path on the metrics ports, beside the exporter's `/metrics`."""

HELD_SECONDS = 120
"""A router answers `HELD_PATH` after this time although it holds no request, and never later. 1,000 resources at zero
with 2 routers of 2 processes are then 33 requests a second."""

MOST_WAITERS = 8
"""Pages of one address that may wait at a process. An operator has one, and so has the one that takes over from it;
they have one address where the network hides it."""

HELD_PATH = f"{ROUTER_METRICS_PATH}?held={HELD_SECONDS}"
"""The same page, as soon as a request is held or is in the queue."""

REQUEST_ID = "^[A-Za-z0-9._:-]{1,128}$"
"""An `X-Request-Id` of a client that is kept. Others could break a log or fill it."""

TRACEPARENT = "^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}"
"""A valid `traceparent` (W3C Trace Context, 3.2); later versions of it may be longer."""

LOG_LINE_BYTES = 8192
"""Longest line of a log. HAProxy cuts at 1,024 bytes by default. It keeps at most 1,024 bytes of a path
(`tune.http.logurilen`), which are at most six times as many as JSON."""

(_FIELDS,) = blocks(__package__, "access-log")
LOG_FIELDS = dict(line.split(" ", 1) for line in _FIELDS)

GATEWAY_LOG_FIELDS = {
    **{name: sample for name, sample in LOG_FIELDS.items() if name != "engine"},
    "target": "[var(txn.target)]",
    "fallback": "[var(txn.fallback)]",
}
"""The same of a gateway: in place of the engine, the InferenceDeployment, and which one could not take it before."""


METRIC_PREFIX = "inference_operator_router_"


MAX_USER_SERIES = 10
"""Series of `ROUTER_METRICS_PATH` for one user of an API key: four classes of status, two limits, three kinds of
tokens, and answers without usage."""

MAX_ADAPTER_SERIES = 4
"""Series of one adapter: four classes of status."""

MAX_COMMON_SERIES = 18
"""Series of the same page that belong to no user, no engine and no role."""

MAX_ROLE_SERIES = len(BOUNDS_SECONDS) + 3
"""Series of one role: the buckets of its histogram, the one without a bound, the sum and the count."""


@dataclass(frozen=True, slots=True)
class RouterMetric:
    """A metric of `ROUTER_METRICS_PATH`; one whose name ends in `_total` is a counter, one with `le` a histogram."""

    name: str
    labels: tuple[str, ...]
    meaning: str

    @property
    def kind(self) -> str:
        if self.name.endswith("_total"):
            return "counter"
        return "histogram" if "le" in self.labels else "gauge"


METRICS = [
    RouterMetric(METRIC_PREFIX + name, tuple(labels), meaning)
    for (name, *labels), meaning in ((head.split(), meaning) for head, meaning in blocks(__package__, "metrics"))
]


def log_format(fields: Mapping[str, str] = LOG_FIELDS) -> str:
    """The log-format of the access log: one JSON object for each request."""
    return "%{+json}o " + " ".join(f"%({name}){value}" for name, value in fields.items())


def values(inputs: RouterInputs) -> Mapping[str, object]:
    return {
        "readers": READERS,
        "access_log": inputs.spec.access_log,
        "log_format": log_format(GATEWAY_LOG_FIELDS if inputs.is_gateway else LOG_FIELDS),
        "threads": threads(inputs.spec.resources),
        "metrics_lua": f"{CONFIG_FOLDER}/metrics.lua",
        "has_usage": inputs.spec.usage is RouterUsage.ENABLED,
        "usage_lua": f"{CONFIG_FOLDER}/usage.lua",
        "metrics_path": ROUTER_METRICS_PATH,
        "has_affinity": inputs.strategy is RouterStrategy.PREFIX_AFFINITY,
    }
