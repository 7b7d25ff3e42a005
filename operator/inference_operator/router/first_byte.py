"""The time to the first byte of answers as a histogram for each role: the values of first_byte.cfg.j2."""

from collections.abc import Mapping

from inference_operator.router.error_response import SERVER, ErrorResponse
from inference_operator.router.inputs import RouterInputs

BOUNDS_SECONDS = (0.02, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0)
"""Upper bounds of the buckets. They are among those of vLLM's own time to the first token too (vLLM 0.32,
vllm/v1/metrics/loggers.py), so one objective fits both."""

LONGEST_SECONDS = 3600
"""An engine that has sent its headers may compute for this time before the first byte: that of `timeout server`."""

MOST_ROLES = 16
"""Entries of the table; a resource has a few roles."""

_ROLE_HEADER = "inference-operator-role"
"""By it a router tells itself which role has answered a request that it held. It stays in the router."""

_DIED = ErrorResponse(502, SERVER, "engine_failed", "the engine ended before it began to answer")


def values(inputs: RouterInputs) -> Mapping[str, object]:
    roles = [upstream.name for upstream in inputs.upstreams]
    return {
        "bounds_ms": [round(1000 * seconds) for seconds in BOUNDS_SECONDS],
        "count_index": len(BOUNDS_SECONDS),
        "sum_index": len(BOUNDS_SECONDS) + 1,
        "counters": [*map(str, BOUNDS_SECONDS), "count", "sum_ms"],
        "roles": roles,
        "key": f"str({','.join(roles)})" if len(roles) == 1 else "var(txn.role)",
    }
