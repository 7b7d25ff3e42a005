"""Compute resources of a router pod, and what HAProxy derives from them: threads and connections."""

import math
from decimal import Decimal

from inference_operator.api.container import ResourcesSpec
from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.manifest import Manifest
from inference_operator.objects.compute_resources import refusal_of_resources
from inference_operator.objects.quantity import canonical, value

FIELD = "spec.router.resources"

PROCESSES = 2
"""HAProxy processes of a router pod. Each gets an equal part of the pod's resources."""

REQUESTS = {"cpu": "100m", "memory": "64Mi"}
LIMITS = {"memory": "512Mi"}
"""Defaults of a router pod. One HAProxy process uses about 10 MiB, and `CONNECTION_BYTES` for each request."""

DIVISIBLE = ("cpu", "memory", "ephemeral-storage")
"""Resources that can be divided between the processes."""

CONNECTION_BYTES = 64 * 1024
"""Memory of one request: two buffers of 16 KiB (`tune.bufsize`, HAProxy 3.0 configuration manual), the stream, and the
kernel's socket buffers, which count for the container too."""

MOST_CONNECTIONS = 100_000
"""HAProxy takes two file descriptors for each; container runtimes allow at least 524,288 (systemd's hard limit)."""

MOST_THREADS = 64
"""Threads of one thread group (HAProxy 3.0, `MAX_THREADS_PER_GROUP`)."""


def refusal_of_router_resources(requested: ResourcesSpec, field: str = FIELD) -> Refusal | None:
    """Why the requested resources of a router pod are invalid, or None."""
    for part, amounts in (("requests", requested.requests), ("limits", requested.limits)):
        if name := next((name for name in amounts if name not in DIVISIBLE), None):
            return Refusal(
                Reason.INVALID_SPEC,
                f"{field}.{part}[{name}]",
                "the resource cannot be divided between the two HAProxy processes of a router pod.",
                f"Remove it; possible are {', '.join(f'`{one}`' for one in DIVISIBLE)}.",
            )
    return refusal_of_resources(requested.model_copy(update={"limits": {**LIMITS, **requested.limits}}), field)


def process_resources(requested: ResourcesSpec) -> Manifest:
    """Requests and limits of each HAProxy process: its part of the pod's. Each key replaces one default.

    Examples:
        >>> process_resources(ResourcesSpec())
        {'requests': {'cpu': '50m', 'memory': '32Mi'}, 'limits': {'memory': '256Mi'}}
        >>> process_resources(ResourcesSpec(limits={"cpu": "3", "memory": "48Mi"}))["requests"]
        {'cpu': '50m', 'memory': '24Mi'}
    """
    limits = {**LIMITS, **requested.limits}
    # A default request never exceeds a limit, which the API server would refuse.
    defaults = {name: min(amount, limits.get(name, amount), key=value) for name, amount in REQUESTS.items()}
    requests = {**defaults, **requested.requests}
    return {
        part: {name: _share(amount) for name, amount in amounts.items()}
        for part, amounts in (("requests", requests), ("limits", limits))
    }


def _share(amount: str) -> str:
    """The part of one process.

    Examples:
        >>> _share("1"), _share("512Mi"), _share("5M"), _share("1m")
        ('500m', '256Mi', '2500k', '1m')
    """
    part = value(amount) / PROCESSES
    return canonical(f"{part:f}" if not amount.endswith("i") or part % 1024 else f"{int(part) // 1024}Ki")


def threads(requested: ResourcesSpec) -> int:
    """Threads of each HAProxy process: its whole CPUs, rounded up; without a limit, those of the request.

    Examples:
        >>> threads(ResourcesSpec()), threads(ResourcesSpec(limits={"cpu": "5"}))
        (1, 3)
    """
    resources = process_resources(requested)
    cpus: Decimal = value(resources["limits"].get("cpu", resources["requests"]["cpu"]))
    return min(MOST_THREADS, max(1, math.ceil(cpus)))


def connections(requested: ResourcesSpec) -> int:
    """Client connections of each HAProxy process, from its memory limit.

    Examples:
        >>> connections(ResourcesSpec()), connections(ResourcesSpec(limits={"memory": "2Gi"}))
        (4096, 16384)
    """
    memory = value(process_resources(requested)["limits"]["memory"])
    return min(MOST_CONNECTIONS, max(1, int(memory) // CONNECTION_BYTES))
