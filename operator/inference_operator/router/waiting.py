"""How many requests wait in a router, from its memory, and what a router answers about models while no engine is up."""

import json
import math
from collections.abc import Mapping, Sequence

from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.api.router import RouterSpec
from inference_operator.router import resources
from inference_operator.router.error_response import INVALID, NO_ENGINE, RATE, SHOWN, ErrorResponse
from inference_operator.router.inputs import RouterInputs
from inference_operator.router.process import CONFIG_FOLDER
from inference_operator.router.servers import servers

FIELD = "spec.router.queue.maxSize"

HOOK_ADDRESS = "127.0.0.2"
"""Address of the pod's own loopback device where each process listens for its preStop hook, on its metrics port."""

HELD_PATH = "/held"
"""Path for the preStop hook that answers 409 while requests wait and no engine is up, else 200."""

QUEUE_SIZE = 1024
"""Default of the requests that wait in a router pod: also those that an engine could compute and has no room for."""

COLD_START_STEPS = (300, 600, 1200, 1800)
"""Seconds for which requests may be held by default. The least is half of the 10 minutes that the `openai` package
waits for an answer (openai-python 2, `DEFAULT_TIMEOUT`), the most what `coldStart.timeout` allows."""

COLD_START_MARGIN = 2
"""A start may take so many times as long as the measured one, for example where an image is not on the node yet."""

MODELS_PATH = "/v1/models"

_QUEUE_FULL = ErrorResponse(429, RATE, "queue_full", "too many requests wait for an engine", 2)
_NO_MODEL = ErrorResponse(
    404, INVALID, "model_not_found", f"the router knows no model `<name>`: see `GET {MODELS_PATH}`", param="model"
)
_MEBIBYTE = 2**20
_WAITING_BYTES = resources.BUFFERS_OF_WAITING * resources.LEAST_BUFFER_BYTES
"""Memory of a waiting request, at most. Buffers are as small as many waiting requests need."""


def most_waiting(spec: RouterSpec) -> int:
    """Requests that can wait in a router pod: they take at most half of its memory and of its connections."""
    memory = resources.connections(spec.resources) * resources.CONNECTION_BYTES
    return resources.PROCESSES * max(1, memory // 2 // _WAITING_BYTES)


def queue_size(spec: RouterSpec) -> int:
    """Held or queued requests of one HAProxy process above which new ones get 429."""
    wanted = min(QUEUE_SIZE, most_waiting(spec)) if spec.queue.max_size is None else spec.queue.max_size
    return wanted // resources.PROCESSES


def cold_start_seconds(inputs: RouterInputs) -> int:
    """How long a request is held while no engine is up: `coldStart.timeout`, or a default.

    The default is the first of `COLD_START_STEPS` that is long enough for a start as measured. It never falls, so that
    starts of different lengths do not restart routers again and again.
    """
    if (asked := inputs.spec.cold_start.timeout) is not None:
        return int(asked.total_seconds())
    needed = COLD_START_MARGIN * inputs.measured_start_seconds
    wanted = next((step for step in COLD_START_STEPS if step >= needed), COLD_START_STEPS[-1])
    live = inputs.live_cold_start_seconds
    return max(wanted, live if live in COLD_START_STEPS else 0)


def refusal_of_queue(spec: RouterSpec) -> Refusal | None:
    wanted, most = spec.queue.max_size, most_waiting(spec)
    if wanted is None or wanted <= most:
        return None
    memory = 2 * _WAITING_BYTES * resources.PROCESSES * math.ceil(wanted / resources.PROCESSES)
    cure = f"Set it to `{most}` or less"
    if memory <= resources.PROCESSES * resources.MOST_CONNECTIONS * resources.CONNECTION_BYTES:
        cure += f", or `{resources.FIELD}.limits.memory` to `{math.ceil(memory / _MEBIBYTE)}Mi` or more"
    return Refusal(
        Reason.INVALID_SPEC,
        FIELD,
        f"`{wanted}` waiting requests take more than half of the memory of a router pod: up to"
        f" {_WAITING_BYTES // 1024} KiB each.",
        f"{cure}.",
    )


def values(inputs: RouterInputs) -> Mapping[str, object]:
    names, spec = inputs.model_names, inputs.spec
    return {
        "no_engine": NO_ENGINE,
        "max_wait_seconds": cold_start_seconds(inputs),
        "queue_seconds": int(spec.queue.timeout.total_seconds()),
        "queue_size": queue_size(spec),
        "hold_lua": f"{CONFIG_FOLDER}/hold.lua",
        "models_list": models(names),
        "models_by_path": {f"{MODELS_PATH}/{name}": model(name) for name in names},
        "servers": [f"{server.prefix}{n}" for server in servers(inputs.upstreams) for n in range(1, inputs.slots + 1)],
        "engines_list_models": inputs.lists_models,
        "no_model": _NO_MODEL.log_format(name=f"path,url_dec,bytes({len(MODELS_PATH) + 1}),{SHOWN}"),
    }


def models(names: Sequence[str]) -> str:
    """The list of models in the form of the OpenAI API, as a HAProxy log-format string.

    Examples:
        >>> print(models(["qwen"]))  # doctest: +ELLIPSIS
        {"object": "list", "data": [{"id": "qwen", "object": "model", "created": %[date], "owned_by": ...}]}
    """
    return f'{{"object": "list", "data": [{", ".join(map(model, names))}]}}'


def model(name: str) -> str:
    """One model in the form of the OpenAI API, as a HAProxy log-format string."""
    quoted = json.dumps(name).replace("'", "\\u0027").replace("%", "%%")
    return f'{{"id": {quoted}, "object": "model", "created": %[date], "owned_by": "inference-operator"}}'
