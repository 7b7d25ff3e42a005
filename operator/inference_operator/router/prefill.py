"""The way of prompts from engines to those that compute prompts: the values of prefill.cfg.j2."""

from collections.abc import Mapping

from inference_operator.router.clients import prefill_connections
from inference_operator.router.engine_key import KEY_ENTRY_OF_MAP, KEY_MAP_FILE
from inference_operator.router.error_response import INVALID, NO_ENGINE, ErrorResponse
from inference_operator.router.inputs import RouterInputs
from inference_operator.router.process import POD_IPS_VARIABLE, PREFILL_PORT, expanded
from inference_operator.router.retries import ENGINES

QUEUE_SECONDS = 2
"""How long a prompt waits for a prefill engine. After that the engine that asks had better compute it."""
CHECK_SECONDS = 5
"""How long a health check may take. One that is silent for longer gets no prompts; others compute them meanwhile."""
SILENT_SECONDS = 5
"""Time after which a connection ends whose engine acknowledges nothing (tcp(7), `TCP_USER_TIMEOUT`)."""

_UNAUTHORIZED = ErrorResponse(401, INVALID, "invalid_engine_key", "only engines of this service may ask here")
_UNKNOWN = ErrorResponse(404, INVALID, "unknown_url", "this path takes no prompts")


def values(inputs: RouterInputs) -> Mapping[str, object] | None:
    upstream = inputs.prefill
    if upstream is None:
        return None
    return {
        "no_engine": NO_ENGINE,
        "address": f"{upstream.host}:{upstream.port}",
        "connections": prefill_connections(inputs.spec),
        "health_path": upstream.health_path,
        "host": upstream.host,
        "key_entry": KEY_ENTRY_OF_MAP,
        "key_map": KEY_MAP_FILE,
        "max_connections": upstream.max_concurrency,
        "paths": upstream.api_paths,
        "pod_ips": expanded(POD_IPS_VARIABLE),
        "port": PREFILL_PORT,
        "retries": ENGINES - 1,
        "slots": inputs.slots,
    }
