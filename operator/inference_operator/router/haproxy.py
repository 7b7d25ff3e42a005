"""`haproxy.cfg` of one InferenceDeployment, as a function of what was asked and what runs."""

import json
from dataclasses import dataclass
from importlib.resources import files

from jinja2 import Environment, StrictUndefined

from inference_operator.router.stats import STATS_PATH

PORT = 8080
"""Where every HAProxy of a router pod listens for requests."""

METRICS_PORTS = (9100, 9101)
"""Where each HAProxy of a router pod answers for itself, by metrics and probes. There are two, so that the death of
one leaves a listener: without it new connections are refused until kube-proxy knows, for a second."""

METRICS_PORT_VARIABLE = "METRICS_PORT"
"""Environment variable from which a HAProxy has its own; the configuration is one for all."""

HEALTH_PATH = "/-/healthz"

MAX_WAIT_SECONDS = 300
"""How long a request waits for an engine before 503: one retry a second, and as long in the queue."""

# Bounds are those of one HAProxy: the share of each in what its router pod may take.

QUEUE_SIZE = 512 // len(METRICS_PORTS)
"""Requests that wait, held or queued, before more get 429: 512 in a router pod."""

SERVER_MAX_CONNECTIONS = 256 // len(METRICS_PORTS)
"""Requests that are sent to one engine at a time: from a router pod 256, vLLM's smaller default of max_num_seqs
(0.32.0, vllm/engine/arg_utils.py). What is above waits, and the first engine that is free takes it."""

DNS_OUTAGE_SECONDS = 600
"""How long known engines are kept while no DNS server answers."""

MIN_SLOTS = 32
"""Fewest server slots, so that scaling up to it never changes the configuration."""

MAX_CONNECTIONS = 8000 // len(METRICS_PORTS)
"""Client connections: two 16 KiB buffers for each fit the container's memory limit of 256 MiB."""

RETRY_AFTER_SECONDS = 5


@dataclass(frozen=True, slots=True)
class _Answer:
    """An answer of the router's own, in the form of the OpenAI API's errors."""

    status: int
    kind: str
    message: str
    retry_after: int | None = None

    @property
    def body(self) -> str:
        return json.dumps({"error": {"message": self.message, "type": self.kind, "code": self.status}})


_ERRORS = (
    _Answer(400, "invalid_request_error", "the request is not valid HTTP"),
    _Answer(408, "invalid_request_error", "the request did not arrive in time"),
    _Answer(500, "server_error", "the router failed"),
    _Answer(502, "server_error", "the engine ended before it answered", RETRY_AFTER_SECONDS),
    _Answer(503, "server_error", "no engine is available", RETRY_AFTER_SECONDS),
    _Answer(504, "server_error", "the engine did not answer in time", RETRY_AFTER_SECONDS),
)
_QUEUE_FULL = _Answer(429, "rate_limit_error", "too many requests wait for an engine", 2)

_TEMPLATE = Environment(undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False).from_string(  # noqa: S701 - a configuration file, not HTML
    files(__package__).joinpath("haproxy.cfg.j2").read_text(encoding="utf-8")
)


def slots(replicas: int, live: int) -> int:
    """Server slots: a power of two with room to double, or what is configured already while every engine fits.

    Keeping the live number means that scaling within it never changes the configuration, and so never rolls the
    routers. One slot is for the engine that a rolling update adds.

    Examples:
        >>> slots(replicas=1, live=0), slots(replicas=31, live=32), slots(replicas=32, live=32), slots(1, live=128)
        (32, 32, 64, 128)
    """
    if live > replicas:
        return live
    return 1 << (max(MIN_SLOTS, 2 * replicas) - 1).bit_length()


def haproxy_cfg(*, engines_host: str, engine_port: int, engine_health_path: str, slots: int, drain_seconds: int) -> str:
    """The whole configuration.

    Args:
        engines_host: DNS name of the headless Service of the engines.
        engine_port: TCP port of the engines.
        engine_health_path: path that answers 200 while an engine is healthy.
        slots: number of engines that the router can know at a time.
        drain_seconds: how long a router that stops goes on with the requests that it has.
    """
    return _TEMPLATE.render(
        engines_host=engines_host,
        engine_port=engine_port,
        engine_health_path=engine_health_path,
        slots=slots,
        port=PORT,
        metrics_port=f'"${{{METRICS_PORT_VARIABLE}}}"',
        health_path=HEALTH_PATH,
        stats_path=STATS_PATH,
        max_wait_seconds=MAX_WAIT_SECONDS,
        queue_size=QUEUE_SIZE,
        server_max_connections=SERVER_MAX_CONNECTIONS,
        drain_seconds=drain_seconds,
        max_connections=MAX_CONNECTIONS,
        dns_outage_seconds=DNS_OUTAGE_SECONDS,
        errors=_ERRORS,
        queue_full=_QUEUE_FULL,
    )
