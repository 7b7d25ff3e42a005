"""Compute resources of a router pod, and what HAProxy derives from them: threads, connections and buffers."""

import math
from decimal import Decimal

from inference_operator.api.container import ResourcesSpec
from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.api.router import RouterSpec
from inference_operator.manifest import Manifest
from inference_operator.objects.compute_resources import refusal_of_resources
from inference_operator.quantity import canonical, value

FIELD = "spec.router.resources"

PROCESSES = 2
"""HAProxy processes of a router pod. Each gets an equal part of the pod's resources."""

REQUESTS = {"cpu": "100m", "memory": "64Mi"}
LIMITS = {"memory": "512Mi"}
"""Defaults of a router pod. One HAProxy process uses about 10 MiB, and `CONNECTION_BYTES` for each request."""

DIVISIBLE = ("cpu", "memory", "ephemeral-storage")
"""Resources that can be divided between the processes."""

CONNECTION_BYTES = 64 * 1024
"""Memory of one connection: that of HAProxy, two connections and a stream, and the kernel's socket buffers, which count
for the container too. Buffers come on top: a request has them while it comes, waits, or may be sent again."""

BUFFERS_PER_REQUEST = 3
"""Buffers of one request, at most: its connection's, its stream's, and the copy that is kept until its answer begins
(HAProxy 3.2, src/stconn.c, `l7_buffer`)."""

BUFFERS_OF_WAITING = 2
"""Buffers of a held or queued request whose body is longer than a buffer: the stream's and its connection's. There is
no limit on buffers: held requests keep theirs, so that probes would find none (HAProxy 3.2, configuration manual,
`tune.buffers.limit`: "some tasks may freeze until their timeout expires")."""

BUFFERED_REQUESTS = 1024
"""Requests of a process that have all their buffers, for which the size of buffers is chosen."""

HEADER_BYTES = 16 * 1024
"""Part of a buffer that is left for headers: as many as HAProxy accepts by default (3.2, `tune.bufsize`)."""

LEAST_BUFFER_BYTES, MOST_BUFFER_BYTES = 2 * HEADER_BYTES, 256 * 1024
"""HAProxy 3.2 copies each request with its whole buffer, so larger ones cost time."""

HOT_PART, LEAST_HOT_BYTES = 64, 512 * 1024
"""Part of the memory that all threads together keep of freed buffers for their next requests, and HAProxy's default for
a thread (3.2, `tune.memory.hot-size`), which holds six buffers of 80 KiB: all others are allocated anew."""

MOST_CONNECTIONS = 100_000
"""HAProxy takes two file descriptors for each; container runtimes allow at least 524,288 (systemd's hard limit)."""

MOST_THREADS = 64
"""Threads of one thread group (HAProxy 3.0, `MAX_THREADS_PER_GROUP`)."""


def refusal_of_router_resources(requested: ResourcesSpec, field: str = FIELD) -> Refusal | None:
    for part, amounts in (("requests", requested.requests), ("limits", requested.limits)):
        if name := next((name for name in amounts if name not in DIVISIBLE), None):
            return Refusal(
                Reason.INVALID_SPEC,
                f"{field}.{part}[{name}]",
                "the resource cannot be divided between the two HAProxy processes of a router pod.",
                f"Remove it; possible are {', '.join(f'`{name}`' for name in DIVISIBLE)}.",
            )
    return refusal_of_resources(requested.model_copy(update={"limits": {**LIMITS, **requested.limits}}), field)


def process_resources(requested: ResourcesSpec) -> Manifest:
    """Requests and limits of each HAProxy process: its part of the pod's. Each key replaces one default."""
    limits = {**LIMITS, **requested.limits}
    # A default request never exceeds a limit, which the API server would refuse.
    defaults = {name: min(amount, limits.get(name, amount), key=value) for name, amount in REQUESTS.items()}
    requests = {**defaults, **requested.requests}
    return {
        part: {name: _share(amount) for name, amount in amounts.items()}
        for part, amounts in (("requests", requests), ("limits", limits))
    }


def _share(amount: str) -> str:
    """The part of one process."""
    part = value(amount) / PROCESSES
    return canonical(f"{part:f}" if not amount.endswith("i") or part % 1024 else f"{int(part) // 1024}Ki")


def threads(requested: ResourcesSpec) -> int:
    """Threads of each HAProxy process: its whole CPUs, rounded up; without a limit, those of the request."""
    resources = process_resources(requested)
    cpus: Decimal = value(resources["limits"].get("cpu", resources["requests"]["cpu"]))
    return min(MOST_THREADS, max(1, math.ceil(cpus)))


def load_of_all_threads(requested: ResourcesSpec) -> str:
    """How HAProxy loads a script whose state all threads share.

    One thread takes the state of its other scripts: a request gets a stack in each state that it meets, for 3 µs.
    """
    return "lua-load-per-thread" if threads(requested) == 1 else "lua-load"


def connections(requested: ResourcesSpec) -> int:
    """Client connections of each HAProxy process, from its memory limit."""
    return min(MOST_CONNECTIONS, max(1, memory(requested) // CONNECTION_BYTES))


def buffer_bytes(spec: RouterSpec) -> int:
    """Size of each buffer of a HAProxy process, from its memory limit: a multiple of `HEADER_BYTES`."""
    limit = memory(spec.resources)
    waiting = math.ceil((spec.queue.max_size or 1) / PROCESSES)
    # Waiting requests take half of the memory.
    fitting = min(limit // (BUFFERS_PER_REQUEST * BUFFERED_REQUESTS), limit // 2 // (BUFFERS_OF_WAITING * waiting))
    return min(MOST_BUFFER_BYTES, max(LEAST_BUFFER_BYTES, fitting // HEADER_BYTES * HEADER_BYTES))


def hot_bytes(requested: ResourcesSpec) -> int:
    """What each thread of a HAProxy process keeps of freed memory."""
    return max(LEAST_HOT_BYTES, memory(requested) // HOT_PART // threads(requested))


def buffered_body_bytes(spec: RouterSpec) -> int:
    """Longest body that a router keeps until the answer begins: such a request survives the death of its engine."""
    return buffer_bytes(spec) - HEADER_BYTES


def buffered_requests(spec: RouterSpec, large: int = 0) -> int:
    """Requests of each HAProxy process whose bodies it keeps: all their buffers fit its memory beside large ones."""
    return max(1, (memory(spec.resources) - large) // (BUFFERS_PER_REQUEST * buffer_bytes(spec)))


def memory(requested: ResourcesSpec) -> int:
    return int(value(process_resources(requested)["limits"]["memory"]))
