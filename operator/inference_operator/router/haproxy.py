"""haproxy.cfg: rendered from a RouterRequest. And the RouterRequest: what all objects of the router are built from."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined

from inference_operator.api.router import RouterSpec, RouterStrategy, RouterUsage
from inference_operator.api.router_keys import KEYS_FILE
from inference_operator.manifest import Owner
from inference_operator.objects.names import ROUTER, headless_service_name
from inference_operator.objects.quantity import value
from inference_operator.router.observe import METRICS_FILE, USAGE_FILE, template_values
from inference_operator.router.resources import PROCESSES, connections, threads
from inference_operator.router.stats import STATS_PATH
from inference_operator.router.waiting import BODY_BYTES, waiting
from inference_operator.settings import Settings

PORT = 8080
"""Port on which every HAProxy of a router pod accepts requests."""

TLS_PORT = 8443
"""Port on which they accept TLS, if `router.tls` is set."""

METRICS_PORTS = tuple(range(9100, 9100 + PROCESSES))
"""One port for each HAProxy process of a router pod, for its metrics and probes. There are two processes: if one dies,
the other still accepts connections. With one, connections would be refused for the second that kube-proxy needs."""

POD_IPS_VARIABLE = "POD_IPS"
"""Environment variable with all addresses of the pod. HAProxy listens on IPv6 too if one of them is an IPv6 address.
Without this condition it could not start on a node whose kernel has no IPv6."""

METRICS_PORT_VARIABLE = "METRICS_PORT"
"""Environment variable with the metrics port of a process; all processes share one configuration."""

DNS_SERVER_VARIABLE = "DNS_SERVER"
"""Environment variable with the address of the pod's first DNS server, where HAProxy asks it over TCP."""

DNS_UDP_BYTES = 1232
"""Longest answer over UDP that no network divides (DNS flag day 2020, "EDNS buffer size")."""

DNS_TCP_BYTES = 8192
"""Longest answer over TCP. HAProxy takes a record for each 12 bytes of it: 682, and there are at most 512 slots (3.0,
src/resolvers.c, `max_answer_records`)."""

DNS_UDP_SLOTS = 32
"""Server slots up to which HAProxy asks over UDP. An AAAA record with a compressed name has 28 bytes (RFC 1035, 4.1.3),
so 32 of them fit `DNS_UDP_BYTES`. A network that drops divided packets would hide engines."""

HEALTH_PATH = "/-/healthz"

CONNECT_SECONDS = 4
"""`timeout connect`. The kernel repeats a lost SYN after one and after three seconds (tcp(7), `tcp_syn_retries`; the
initial timeout of RFC 6298). So two lost packets are no failed connection. A held request still retries each second:
HAProxy waits for the smaller one of this time and one second (3.0, src/backend.c, `back_handle_st_cer`)."""

CHECK_SECONDS = 120
"""`timeout check`: how long `/health` may take. A busy vLLM answers after 20 to 40 s (vllm-project/vllm#38157)."""

CHECK_INTERVAL_SECONDS = 5
"""Between two checks of an engine that is up. It also limits the connection of a check, so it exceeds
`CONNECT_SECONDS` (HAProxy 3.0, `timeout check`)."""

CHECK_FAILURES = 3
"""Failed checks in a row after which an engine is down. Failed connections of requests tell faster."""

KEEP_ALIVE_SECONDS = 620
"""How long an idle connection of a client is kept. A load balancer in front must be the one that closes an idle
connection, or it sends a request on a connection that is just closing. Google's keeps them for 600 s, and asks for 620
here (Google Cloud, "External Application Load Balancer overview", timeouts); the others less."""

CLOSE_SPREAD_SECONDS = 3
"""A stopping HAProxy closes the connections of clients within this time: as many as possible with `Connection: close`
in an answer, the rest while they are idle."""

PROBE_CONNECTIONS = 100
"""Connections beyond those of clients: probes and metrics are answered while clients use all of theirs."""

DNS_OUTAGE_SECONDS = 600
"""How long HAProxy keeps the known engines while no DNS server answers."""

MIN_SLOTS = 32
"""Smallest number of server slots: scaling up to it never changes the configuration."""

RETRY_AFTER_SECONDS = 5

CONFIG_FOLDER = "/etc/haproxy"
CONFIG_FILE, AFFINITY_FILE, KEYS_SCRIPT, TLS_FILE = "haproxy.cfg", "affinity.lua", "keys.lua", "tls.lua"
LIMITS_FILE = "limits.lua"

KEYS_FOLDER = "/etc/haproxy-keys"
"""Where the Secret with the API keys is mounted."""

IDENTITY_HEADERS = "^x-(forwarded-(user|email|groups|preferred-username)|auth-request-.*|remote-.*|user(-.*)?)$"
"""Headers by which authenticating proxies tell who the user is (oauth2-proxy 7, "Overview"; RFC 3875's REMOTE_USER)."""

TLS_FOLDER = "/etc/haproxy-tls"
"""Where the Secret of `router.tls` is mounted. HAProxy finds the key of a certificate at its path with `.key` added
(HAProxy 3.0, `ssl-load-extra-files`)."""
TLS_CHECK_SECONDS = 10.0
"""How often a process looks whether the certificate has been renewed. The kubelet replaces the files of a Secret within
two minutes (Kubernetes, "Secrets", "Mounted Secrets are updated automatically")."""
TLS_CERTIFICATE_FILE, TLS_KEY_FILE = "tls.crt", "tls.crt.key"

BALANCE_FACTOR = 300
"""What one engine may have, in percent of its fair share of the requests in flight. `bench/affinity.py` measures it: at
150, a third of the hits are lost, since each router process counts only its own requests, which are few; without a
bound, engines close to saturation answer late. Up to three engines it bounds nothing, but HOT_REQUESTS does."""

HOT_REQUESTS = 4
"""Requests of one conversation beyond the fair share of an engine that make it hot. People and agents send the requests
of one conversation one after the other; many at once come from a batch of equal prompts."""


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


_NO_ENGINE = _ErrorResponse(503, "server_error", "no engine is available", RETRY_AFTER_SECONDS)
_ERRORS = (
    _ErrorResponse(400, "invalid_request_error", "the request is not valid HTTP"),
    _ErrorResponse(408, "invalid_request_error", "the request did not arrive in time"),
    _ErrorResponse(500, "server_error", "the router failed"),
    _ErrorResponse(502, "server_error", "the engine ended before it answered", RETRY_AFTER_SECONDS),
    _NO_ENGINE,
    _ErrorResponse(504, "server_error", "the engine did not answer in time", RETRY_AFTER_SECONDS),
)
_NOT_FOUND = _ErrorResponse(404, "invalid_request_error", "this path is not part of the API")
_UNAUTHORIZED = _ErrorResponse(
    401, "authentication_error", "a valid API key is required: send it as Authorization: Bearer KEY"
)
_LENGTH_REQUIRED = _ErrorResponse(411, "invalid_request_error", "the request must have the header Content-Length")
_OVER_LIMIT = _ErrorResponse(429, "rate_limit_error", "the user of this API key has reached its limit of requests")
_QUEUE_FULL = _ErrorResponse(429, "rate_limit_error", "too many requests wait for an engine", 2)

_TEMPLATE = Environment(
    loader=PackageLoader(__package__, "."),
    undefined=StrictUndefined,
    auto_reload=False,  # each rendering would look whether one of the templates has changed
    keep_trailing_newline=True,
    autoescape=False,  # noqa: S701 - a configuration file, not HTML
).get_template("haproxy.cfg.j2")


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
    """Requests that one HAProxy process sends to one engine at a time; more requests wait in its queue."""
    slots: int
    """HAProxy server slots: the largest number of engines that the router can know."""
    spec: RouterSpec
    """The router section over the operator's defaults of router pods."""
    model_names: tuple[str, ...]
    """Names of the base model in the OpenAI API; any other name is an adapter."""
    api_paths: tuple[str, ...]
    """Paths that are forwarded, each with all paths below it."""
    drain_seconds: int
    """How long a stopping router may finish its requests."""
    progress_deadline_seconds: int
    owner: Owner
    settings: Settings
    engines_selector: Mapping[str, str] = field(default_factory=dict)
    """Labels of the engines that take requests."""
    direct: bool = False
    """Whether the main Service selects the engines instead of the routers."""
    has_http_routes: bool = True
    """Whether the cluster has the kind HTTPRoute."""

    @property
    def name(self) -> str:
        """Name of the InferenceDeployment."""
        return self.owner.key.name


def _access_values(spec: RouterSpec) -> dict[str, object]:
    """What `keys.cfg.j2` and `body_size.cfg.j2` need."""
    max_body_bytes = int(value(spec.max_body_size)) if spec.max_body_size else 0
    too_large = f"the body of a request may have at most {max_body_bytes} bytes"
    return {
        "api_keys": spec.keys is not None,
        "keys_lua": f"{CONFIG_FOLDER}/{KEYS_SCRIPT}",
        "keys_file": f"{KEYS_FOLDER}/{KEYS_FILE}",
        "identity_headers": IDENTITY_HEADERS,
        "unauthorized": _UNAUTHORIZED,
        "max_body_bytes": max_body_bytes,
        "too_large": _ErrorResponse(413, "invalid_request_error", too_large),
        "length_required": _LENGTH_REQUIRED,
    }


def limits_keys(spec: RouterSpec) -> bool:
    """Whether a rate or a number of requests in flight is limited for each user."""
    return spec.keys is not None and (spec.keys.requests_per_minute or spec.keys.max_concurrent) is not None


def _limit_values(request: RouterRequest) -> dict[str, object]:
    """What `limits.cfg.j2` needs."""
    keys, owner = request.spec.keys, request.owner.key
    domain = request.settings.cluster_domain
    return {
        "key_limits": limits_keys(request.spec),
        "limits_lua": f"{CONFIG_FOLDER}/{LIMITS_FILE}",
        "requests_per_minute": (keys and keys.requests_per_minute) or 0,
        "max_concurrent": (keys and keys.max_concurrent) or 0,
        "peer_ports": ",".join(map(str, METRICS_PORTS)),
        "first_peer_port": METRICS_PORTS[0],
        "peer_slots": DNS_UDP_SLOTS,
        "peers_host": f"{headless_service_name(owner.name, ROUTER)}.{owner.namespace}.svc.{domain}",
        "over_limit": _OVER_LIMIT,
    }


def _tls_values() -> Mapping[str, str | int]:
    return {
        "tls_port": TLS_PORT,
        "tls_lua": f"{CONFIG_FOLDER}/{TLS_FILE}",
        "tls_certificate": f"{TLS_FOLDER}/{TLS_CERTIFICATE_FILE}",
        "tls_key": f"{TLS_FOLDER}/{TLS_KEY_FILE}",
        "tls_check_ms": round(1000 * TLS_CHECK_SECONDS),
    }


def asks_dns_over_tcp(slots: int) -> bool:
    """Whether the answers of DNS can be too long for UDP."""
    return slots > DNS_UDP_SLOTS


def _dns_values(slots: int) -> dict[str, object]:
    return {
        "dns_over_tcp": asks_dns_over_tcp(slots),
        "dns_server": f"${{{DNS_SERVER_VARIABLE}}}",
        "dns_bytes": DNS_TCP_BYTES if asks_dns_over_tcp(slots) else DNS_UDP_BYTES,
        "dns_outage_seconds": DNS_OUTAGE_SECONDS,
    }


def haproxy_cfg(request: RouterRequest) -> str:
    """The whole haproxy.cfg."""
    return _TEMPLATE.render(
        engines_host=request.engines_host,
        engine_port=request.engine_port,
        engine_health_path=request.engine_health_path,
        slots=request.slots,
        **_dns_values(request.slots),
        port=PORT,
        metrics_port=f'"${{{METRICS_PORT_VARIABLE}}}"',
        pod_ips=f"${{{POD_IPS_VARIABLE}}}",
        health_path=HEALTH_PATH,
        stats_path=STATS_PATH,
        **waiting(request.spec, request.model_names),
        no_engine=_NO_ENGINE,
        connect_seconds=CONNECT_SECONDS,
        check_seconds=CHECK_SECONDS,
        check_interval_seconds=CHECK_INTERVAL_SECONDS,
        check_failures=CHECK_FAILURES,
        keep_alive_seconds=KEEP_ALIVE_SECONDS,
        server_max_connections=request.engine_max_concurrency,
        drain_seconds=request.drain_seconds,
        close_spread_ms=1000 * min(2 * CLOSE_SPREAD_SECONDS, request.drain_seconds) // 2,
        threads=threads(request.spec.resources),
        max_connections=connections(request.spec.resources),
        probe_connections=PROBE_CONNECTIONS,
        errors=_ERRORS,
        queue_full=_QUEUE_FULL,
        not_found=_NOT_FOUND,
        api_paths=request.api_paths,
        tls=request.spec.tls is not None,
        **_tls_values(),
        prefix_affinity=request.spec.strategy is RouterStrategy.PREFIX_AFFINITY,
        affinity_lua=f"{CONFIG_FOLDER}/{AFFINITY_FILE}",
        body_bytes=BODY_BYTES,
        model_names=",".join(request.model_names),
        session_header=request.spec.session_header,
        balance_factor=BALANCE_FACTOR,
        hot_requests=HOT_REQUESTS,
        **{**_access_values(request.spec), **_limit_values(request)},
        **template_values(request.spec, CONFIG_FOLDER),
    )


def config_files(request: RouterRequest) -> dict[str, str]:
    """All files of the configuration folder by name."""
    scripts = {
        METRICS_FILE: True,
        USAGE_FILE: request.spec.usage is RouterUsage.ENABLED,
        AFFINITY_FILE: request.spec.strategy is RouterStrategy.PREFIX_AFFINITY,
        KEYS_SCRIPT: request.spec.keys is not None,
        LIMITS_FILE: limits_keys(request.spec),
        TLS_FILE: request.spec.tls is not None,
    }
    return {CONFIG_FILE: haproxy_cfg(request), **{name: _script(name) for name, is_used in scripts.items() if is_used}}


@cache
def _script(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
