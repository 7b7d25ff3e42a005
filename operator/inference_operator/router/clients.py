"""Limits of clients, of connections and of requests without their body: the values of clients.cfg.j2."""

from collections.abc import Mapping

from inference_operator.api.router import RouterSpec
from inference_operator.router.dns import DNS_UDP_SLOTS
from inference_operator.router.error_response import RATE, ErrorResponse
from inference_operator.router.inputs import RouterInputs
from inference_operator.router.resources import (
    BUFFERS_OF_WAITING,
    CONNECTION_BYTES,
    buffer_bytes,
    buffered_body_bytes,
    connections,
)
from inference_operator.router.waiting import queue_size

KEEP_ALIVE_SECONDS = 620
"""How long an idle connection of a client is kept. A load balancer in front must be the one that closes an idle
connection, or it sends a request on a connection that is just closing. Google's keeps them for 600 s, and asks for 620
here (Google Cloud, "External Application Load Balancer overview", timeouts); the others less."""

SOURCE = "src,ipmask(32,64)"
"""The source of a client's connection: an IPv4 address, or the /64 of an IPv6 address, which is what one host gets
(RFC 4291, 2.5.1). On the metrics port each address counts alone: pods of a node may share a /64 with its kubelet."""

HEADERS_SECONDS = 10
"""`timeout http-request` and `timeout client-hs`: how long headers, or a TLS handshake, may take. HAProxy's manual
advises "a few seconds" (3.0, `timeout http-request`)."""

BODY_SECONDS = 30
"""How long a body may take until it is whole or fills the buffer: 256 KiB at 70 kbit/s."""

PAUSE_SECONDS = 10
"""How long a client may send nothing while its body is not whole."""

READ_SECONDS = 60
"""How long a client may read nothing of its answer, or send nothing more after it, like `send_timeout` of nginx."""

SHARE = 4
"""A client address may have this many times as much as is left free: with n addresses that take all they get, each has
4 / (1 + 4 n), and 1 / (1 + 4 n) stays free (Choudhury and Hahne, "Dynamic queue length thresholds", IEEE/ACM
Transactions on Networking 6(2), 1998). One alone gets four fifths: it may be a proxy in front of all clients."""

READERS = 256
"""Connections for metrics and probes, beside those of clients. A reader may have a quarter of what is left free; the
operator and Prometheus have about four each, another router one or two, and a probe one."""

READS = 500
"""Requests of one address to the metrics port within 10 s. A reader of metrics needs a few, and so does another router,
whose processes ask once a second each."""

READERS_KEEP_ALIVE_SECONDS = 30
"""How long an idle connection to the metrics port is kept."""

GATES = 2
"""Connections at `gate` for each request that may wait: one that is let go and comes back meets its former one."""

HOOKS = 16
"""Connections of the stop hook, which only the pod itself reaches."""

H2_STREAMS = 100
"""Requests on one HTTP/2 connection at a time: HAProxy's default, and the least that RFC 9113 recommends (6.5.2)."""

_TOO_MANY = ErrorResponse(
    429, RATE, "too_many_unfinished_bodies", "the bodies of too many requests have not arrived yet", 2
)


def client_connections(spec: RouterSpec) -> int:
    """Connections of clients of one HAProxy process: each may fill a buffer with headers that do not end."""
    most = connections(spec.resources)
    return min(most, max(1, most * CONNECTION_BYTES // buffer_bytes(spec)))


def unfinished_bodies(spec: RouterSpec) -> int:
    """Requests of one HAProxy process whose body is on its way: at most half of its memory, like those that wait."""
    memory = connections(spec.resources) * CONNECTION_BYTES
    return max(1, memory // 2 // (BUFFERS_OF_WAITING * buffer_bytes(spec)))


def frontend_connections(spec: RouterSpec) -> Mapping[str, int]:
    """Connections of each frontend for requests. What waits may be at `gate`, and all requests may go on at `again`."""
    clients = client_connections(spec)
    return {"api": clients, "gate": GATES * queue_size(spec), "again": clients}


def prefill_connections(spec: RouterSpec) -> int:
    """Connections of engines that send prompts: only long ones come, and none waits for long."""
    return max(1, client_connections(spec) // 8)


def process_connections(spec: RouterSpec, *, has_prefill: bool = False) -> int:
    """Connections of one HAProxy process: the sum of what its frontends may have, so that none takes another's."""
    prompts = prefill_connections(spec) if has_prefill else 0
    return sum((*frontend_connections(spec).values(), READERS, HOOKS, DNS_UDP_SLOTS, prompts))


def values(inputs: RouterInputs) -> Mapping[str, object]:
    return {
        "process_connections": process_connections(inputs.spec, has_prefill=inputs.prefill is not None),
        "connections": client_connections(inputs.spec),
        "frontends": frontend_connections(inputs.spec),
        "bodies": unfinished_bodies(inputs.spec),
        "body_bytes": buffered_body_bytes(inputs.spec),
    }
