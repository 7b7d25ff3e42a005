"""The records of a router about its requests: fields of its access log, and metrics that HAProxy's exporter lacks."""

from collections.abc import Mapping
from dataclasses import dataclass

from inference_operator.api.router import RouterStrategy, RouterUsage
from inference_operator.router.clients import READERS
from inference_operator.router.first_byte import BOUNDS_SECONDS
from inference_operator.router.inputs import RouterInputs
from inference_operator.router.process import CONFIG_FOLDER
from inference_operator.router.resources import threads

METRICS_FILE, USAGE_FILE = "metrics.lua", "usage.lua"

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

LOG_FIELDS = {
    "time": "[request_date(ms),ms_utime(%Y-%m-%dT%H:%M:%S.%3NZ)]",
    "client": "ci",
    "method": "HM",
    "path": "HPO",
    "status": "ST",
    "engine": "si",
    "user": "[var(txn.user)]",
    "model": "[var(txn.model)]",
    "queue_ms": "Tw",
    "connect_ms": "Tc",
    "headers_ms": "Tr",
    "first_byte_ms": "[var(txn.first_byte)]",
    "total_ms": "Ta",
    "received_bytes": "U",
    "sent_bytes": "B",
    "retries": "rc",
    "ended": "ts",
    "prompt_tokens": "[var(txn.prompt_tokens)]",
    "completion_tokens": "[var(txn.completion_tokens)]",
    "cached_tokens": "[var(txn.cached_tokens)]",
    "request_id": "[var(txn.request_id)]",
    "trace_id": "[var(txn.trace_id)]",
}
"""Fields of a line of the access log, with their HAProxy log formats (3.0, configuration manual, 8.2.6)."""


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


def _metric(name: str, *labels: str, meaning: str) -> RouterMetric:
    return RouterMetric(METRIC_PREFIX + name, labels, meaning)


METRICS = (
    _metric("running_requests", "engine", meaning="Requests at each engine; the label is its address and port"),
    _metric("queued_requests", meaning="Requests that wait for a free slot at an engine"),
    _metric("held_requests", meaning="Requests that wait while no engine is up"),
    _metric(
        "refused_requests_total",
        "reason",
        meaning="Requests that got 429: `queue` (too many wait), `body` (too many bodies are on their way),"
        " `rate` or `concurrency` (a limit of the user), or `engine` (the engine refused)",
    ),
    _metric(
        "unauthorized_requests_total",
        meaning="Requests that got 401: with `router.keys`, those without an API key that the router knows",
    ),
    _metric(
        "lost_requests_total",
        meaning="Requests that got 502 because their engine ended before it answered, and that could not be sent again:"
        " their body is too long, too many others are kept, or two other engines ended with them before",
    ),
    _metric(
        "requests_total",
        "user",
        "code",
        meaning="Answers to requests with an API key, by class of status such as `2xx`; `user` is the user's mark, or"
        " name with `router.metrics.users`",
    ),
    _metric(
        "adapter_requests_total",
        "adapter",
        "code",
        meaning="Answers to requests that name an adapter of `model.adapters`, by class of status such as `2xx`",
    ),
    _metric(
        "model_requests_total",
        "model",
        "target",
        "code",
        meaning="Of a ModelGateway: answers to requests that name a model or alias, by the InferenceDeployment that"
        " gave them and by class of status; of a thread's names beyond the 256th, `model` is `other`",
    ),
    _metric(
        "fallbacks_total",
        "model",
        "target",
        meaning="Of a ModelGateway: requests that another target of the alias got, by the one that could not take them:"
        " it answered 429 or 503, accepted no connection, or ended before it answered",
    ),
    _metric(
        "tokens_total",
        "user",
        "type",
        meaning="Tokens that answers reported, with `router.usage: Enabled`: `prompt`, `completion`, and `cached`,"
        " which are a part of `prompt`; `user` is empty without API keys",
    ),
    _metric(
        "answers_without_usage_total",
        "user",
        meaning="Answers whose tokens are not counted, because they do not report them, with `router.usage: Enabled`",
    ),
    _metric(
        "limited_requests_total",
        "user",
        "reason",
        meaning="Requests over a limit of `router.keys`, which got 429: `rate` or `concurrency`",
    ),
    _metric(
        "time_to_first_byte_seconds",
        "role",
        "le",
        meaning="From the request, with its body, to the first byte of a stream (`text/event-stream`, status 200), with"
        " the wait in the router: the time to the first token that clients see",
    ),
    _metric("key_users", meaning="Users that have an API key, with `router.keys`"),
    _metric(
        "key_lines_skipped", meaning="Lines of the keys file that are not `USER: SHA256`, with a priority or without"
    ),
    _metric(
        "certificate_expiry_timestamp_seconds",
        meaning="End of the certificate that the router serves with `router.tls`, or of one of its chain that ends"
        " earlier, in seconds since 1970",
    ),
    _metric("requests_without_key_total", meaning="Requests without an affinity key, with `PrefixAffinity`"),
)


def log_format(fields: Mapping[str, str] = LOG_FIELDS) -> str:
    """The log-format of the access log: one JSON object for each request."""
    return "%{+json}o " + " ".join(f"%({name}){value}" for name, value in fields.items())


def values(inputs: RouterInputs) -> Mapping[str, object]:
    return {
        "access_log": inputs.spec.access_log,
        "log_format": log_format(GATEWAY_LOG_FIELDS if inputs.is_gateway else LOG_FIELDS),
        "log_line_bytes": LOG_LINE_BYTES,
        "request_id": REQUEST_ID,
        "traceparent": TRACEPARENT,
        "threads": threads(inputs.spec.resources),
        "held_seconds": HELD_SECONDS,
        "most_waiters": MOST_WAITERS,
        "readers": READERS,
        "metrics_lua": f"{CONFIG_FOLDER}/{METRICS_FILE}",
        "has_usage": inputs.spec.usage is RouterUsage.ENABLED,
        "usage_lua": f"{CONFIG_FOLDER}/{USAGE_FILE}",
        "metrics_path": ROUTER_METRICS_PATH,
        "has_affinity": inputs.strategy is RouterStrategy.PREFIX_AFFINITY,
    }
