"""Requests that survive the death of their engine: the values of retries.cfg.j2."""

from collections.abc import Mapping

from inference_operator.router.inputs import RouterInputs
from inference_operator.router.long_bodies import large_memory
from inference_operator.router.process import METRICS_PORT_VARIABLE, expanded
from inference_operator.router.resources import buffer_bytes, buffered_body_bytes, buffered_requests, hot_bytes

ENGINES = 3
"""Engines that one request may reach. A request that kills its engine must not kill all of them; one whose engine died
of something else may meet another that is just dying."""

IDLE_SECONDS, PROBE_SECONDS, PROBES = 10, 5, 2
"""Probes of a connection on which an engine is silent. A network that fails for a few seconds ends no stream."""

SILENT_SECONDS = IDLE_SECONDS + PROBE_SECONDS * PROBES
"""Time after which a connection ends whose engine acknowledges nothing: neither a probe nor a request (tcp(7),
`TCP_USER_TIMEOUT`)."""

SMALL_BUFFER_BYTES = 24 * 1024
"""A kept request takes no more than this if it fits, and only what it has is copied: HAProxy 3.4 and newer,
`option use-small-buffers`. Of any other the whole buffer is copied, which takes 5 µs (`python -m bench.router`)."""

GATE_ADDRESS = f"127.0.0.3:{expanded(METRICS_PORT_VARIABLE)}"
AGAIN_ADDRESS = f"127.0.0.4:{expanded(METRICS_PORT_VARIABLE)}"
"""Where the servers `gate` and `hold` lead: to the process itself, which is told from others of its pod by its port."""


def values(inputs: RouterInputs) -> Mapping[str, object]:
    spec = inputs.spec
    return {
        "body_bytes": buffered_body_bytes(spec),
        "buffer_bytes": buffer_bytes(spec),
        "hot_bytes": hot_bytes(spec.resources),
        "connections": inputs.slots * len(inputs.upstreams),
        "requests": buffered_requests(spec, large_memory(inputs)),
    }
