"""haproxy.cfg: rendered from a RouterRequest. And the RouterRequest: what all objects of the router are built from."""

import json
from dataclasses import dataclass
from importlib.resources import files

from jinja2 import Environment, StrictUndefined

from inference_operator.manifest import Owner
from inference_operator.router.stats import STATS_PATH
from inference_operator.settings import Settings

PORT = 8080
"""Port on which every HAProxy of a router pod accepts requests."""

METRICS_PORTS = (9100, 9101)
"""One port for each HAProxy process of a router pod, for its metrics and probes. There are two processes: if one dies,
the other still accepts connections. With one, connections would be refused for the second that kube-proxy needs."""

METRICS_PORT_VARIABLE = "METRICS_PORT"
"""Environment variable with the metrics port of a process; all processes share one configuration."""

HEALTH_PATH = "/-/healthz"

MAX_WAIT_SECONDS = 300
"""How long a request waits for an engine before it gets 503: one retry a second, and as long in the queue."""

# Each bound below is that of one HAProxy process: its share of the bound of a router pod.

QUEUE_SIZE = 512 // len(METRICS_PORTS)
"""Held or queued requests above which new ones get 429: 512 in a router pod."""

DNS_OUTAGE_SECONDS = 600
"""How long HAProxy keeps the known engines while no DNS server answers."""

MIN_SLOTS = 32
"""Smallest number of server slots: scaling up to it never changes the configuration."""

MAX_CONNECTIONS = 8000 // len(METRICS_PORTS)
"""Client connections: two buffers of 16 KiB for each fit into the container's memory limit of 256 MiB."""

RETRY_AFTER_SECONDS = 5


@dataclass(frozen=True, slots=True)
class _ErrorResponse:
    """An error response of the router itself, in the form of the OpenAI API."""

    status: int
    kind: str
    message: str
    retry_after: int | None = None

    @property
    def body(self) -> str:
        return json.dumps({"error": {"message": self.message, "type": self.kind, "code": self.status}})


_ERRORS = (
    _ErrorResponse(400, "invalid_request_error", "the request is not valid HTTP"),
    _ErrorResponse(408, "invalid_request_error", "the request did not arrive in time"),
    _ErrorResponse(500, "server_error", "the router failed"),
    _ErrorResponse(502, "server_error", "the engine ended before it answered", RETRY_AFTER_SECONDS),
    _ErrorResponse(503, "server_error", "no engine is available", RETRY_AFTER_SECONDS),
    _ErrorResponse(504, "server_error", "the engine did not answer in time", RETRY_AFTER_SECONDS),
)
_QUEUE_FULL = _ErrorResponse(429, "rate_limit_error", "too many requests wait for an engine", 2)

_TEMPLATE = Environment(undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False).from_string(  # noqa: S701 - a configuration file, not HTML
    files(__package__).joinpath("haproxy.cfg.j2").read_text(encoding="utf-8")
)


def slots(replicas: int, live: int) -> int:
    """Number of server slots: a power of two, at least twice the replicas; or the live number while all engines fit.

    Scaling within the live number never changes the configuration, and so never restarts routers. One slot is for the
    engine that a rolling update adds.

    Examples:
        >>> slots(replicas=1, live=0), slots(replicas=31, live=32), slots(replicas=32, live=32), slots(1, live=128)
        (32, 32, 64, 128)
    """
    if live > replicas:
        return live
    return 1 << (max(MIN_SLOTS, 2 * replicas) - 1).bit_length()


@dataclass(frozen=True, slots=True)
class RouterRequest:
    """What the objects of the router are built from."""

    engines_host: str
    """DNS name of the headless Service of the engines."""
    engine_port: int
    engine_health_path: str
    """Path that answers 200 while an engine is healthy."""
    engine_max_concurrency: int
    """Requests that a router pod sends to one engine at a time; more requests wait in the queue."""
    slots: int
    """HAProxy server slots: the largest number of engines that the router can know."""
    replicas: int
    drain_seconds: int
    """How long a stopping router may finish its requests."""
    progress_deadline_seconds: int
    owner: Owner
    settings: Settings

    @property
    def name(self) -> str:
        """Name of the InferenceDeployment."""
        return self.owner.key.name


def haproxy_cfg(request: RouterRequest) -> str:
    """The whole configuration."""
    return _TEMPLATE.render(
        engines_host=request.engines_host,
        engine_port=request.engine_port,
        engine_health_path=request.engine_health_path,
        slots=request.slots,
        port=PORT,
        metrics_port=f'"${{{METRICS_PORT_VARIABLE}}}"',
        health_path=HEALTH_PATH,
        stats_path=STATS_PATH,
        max_wait_seconds=MAX_WAIT_SECONDS,
        queue_size=QUEUE_SIZE,
        server_max_connections=request.engine_max_concurrency // len(METRICS_PORTS),
        drain_seconds=request.drain_seconds,
        max_connections=MAX_CONNECTIONS,
        dns_outage_seconds=DNS_OUTAGE_SECONDS,
        errors=_ERRORS,
        queue_full=_QUEUE_FULL,
    )
