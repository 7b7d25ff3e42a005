"""Prefill and decode apart: what vLLM's process of each role gets so that KV blocks go from one to the other.

vLLM's NIXL connector reads the blocks (0.32.0, `distributed/kv_transfer/kv_connector/v1/nixl`, pull). Who makes the two
steps is a middleware of the decode engine (`disaggregation_program.py`).
"""

import json
from collections.abc import Sequence
from math import ceil

from inference_operator.api.engine import EngineSpec
from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.engines.kv_transfer import (
    POD_IP,
    SIDE_CHANNEL_PORT,
    TOKENS,
    TRANSFER_PORTS,
    KVTransfer,
)
from inference_operator.engines.programs import NO_MIDDLEWARE, Middleware, program_command
from inference_operator.engines.vllm.memory import version_of
from inference_operator.engines.vllm.memory_flags import TRANSFER
from inference_operator.engines.vllm.options import resolve_option, value_of, written_option
from inference_operator.engines.vllm_image import version_of_image
from inference_operator.text_tables import text_of

TRANSFER_PROGRAM = "disaggregation"
_SOURCE = text_of(__package__, "disaggregation_program.py")
_MIDDLEWARE = "inference_operator_disaggregation.Disaggregation"
"""The middleware's class, as the started command can import it."""

REQUESTS = "inference_operator_engine_prefill_requests"
"""The middleware's metric: requests that wait for a prefill engine are no requests of vLLM's."""
TIMES_OF_OBJECTIVE = 21
"""Times the TTFT objective that prefill keeps blocks: six times what the middleware allows from the start of the first
step to the end of the read (1.5 + 2 times the objective)."""
LEAST_LEASE = 30
"""Seconds: vLLM's own default (0.32.0, `nixl/base_scheduler.py`, `kv_lease_duration`)."""


def lease_seconds(objective: float) -> int:
    """How long prefill keeps the blocks of a prompt for a decode engine that has not asked for them.

    Examples:
        >>> lease_seconds(1.0), lease_seconds(2.0), lease_seconds(10.0)
        (30, 42, 210)
    """
    return max(LEAST_LEASE, ceil(TIMES_OF_OBJECTIVE * objective))


def transfer_start(transfer: KVTransfer | None, *, sequences: int = 0, ranks: int = 1) -> Middleware:
    """The parts of vLLM's process for this role; its command adds the pod's address to the variables.

    The engine computes `sequences` at once, by `ranks` data parallel ranks in this pod.

    Examples:
        >>> transfer_start(None) == NO_MIDDLEWARE
        True
        >>> from inference_operator.engines.kv_transfer import TransferRole
        >>> start = transfer_start(KVTransfer(TransferRole.PREFILL, "5f2c"))
        >>> start.options[0]
        '--kv-transfer-config={"kv_connector": "NixlConnector", "kv_role": "kv_producer", \
"kv_load_failure_policy": "recompute", "kv_connector_extra_config": {"kv_lease_duration": 42}}'
        >>> start.variables["UCX_TCP_PORT_RANGE"]
        '20000-20063'
    """
    if transfer is None:
        return NO_MIDDLEWARE
    lease = lease_seconds(transfer.objective)
    given = {
        "role": transfer.role.name.lower(),
        "revision": transfer.revision,
        "url": transfer.prefill_url,
        TOKENS: transfer.min_prompt_tokens,
        "objective": transfer.objective,
        "lease": lease,
        "sequences": sequences,
        "port": SIDE_CHANNEL_PORT,
        "ranks": max(1, ranks),
    }
    arguments = tuple(f"{name}={value}" for name, value in given.items())
    config = {
        "kv_connector": "NixlConnector",
        "kv_role": transfer.role.value,
        "kv_load_failure_policy": "recompute",
        "kv_connector_extra_config": {"kv_lease_duration": lease},
    }
    return Middleware(
        command=(*program_command(TRANSFER_PROGRAM, starts_another=True), *arguments, "--"),
        options=(f"--kv-transfer-config={json.dumps(config)}", f"--middleware={_MIDDLEWARE}"),
        variables=_VARIABLES,
        programs={TRANSFER_PROGRAM: _SOURCE},
    )


_VARIABLES = {
    "VLLM_NIXL_SIDE_CHANNEL_PORT": str(SIDE_CHANNEL_PORT),
    "VLLM_USE_RUST_FRONTEND": "0",  # it takes no middleware
    "UCX_TCP_PORT_RANGE": "-".join(map(str, TRANSFER_PORTS)),
    # A peer that is gone without a word is found within about 10 s (ucx/src/uct/tcp/tcp_iface.c).
    "UCX_TCP_KEEPIDLE": "4s",
    "UCX_TCP_KEEPINTVL": "2s",
    "UCX_TCP_KEEPCNT": "3",
    "PYTHONHASHSEED": "0",
}


_SERVERS = "--api-server-count"
TRANSFER_SINCE = (0, 32)
"""The version whose NIXL connector was read and run."""
_RESERVED = frozenset({*_VARIABLES, POD_IP, "VLLM_NIXL_SIDE_CHANNEL_HOST"})
_OF_ONE_ROLE = (
    "--async-scheduling --cudagraph-capture-sizes --cudagraph-metrics --enable-chunked-prefill --enforce-eager"
    " --kv-cache-memory-bytes --long-prefill-token-threshold --long-prefill-token-threshold-adaptive"
    " --max-cudagraph-capture-size --max-num-scheduled-tokens --num-gpu-blocks-override --prefill-schedule-interval"
    " --scheduler-reserve-full-isl --scheduling-policy"
)
OF_ONE_ROLE = frozenset(_OF_ONE_ROLE.split())
"""Options of the scheduler and of memory: they change neither the tokens of a prompt nor what is in a KV cache."""


def refusal_of_transfer(engine: EngineSpec, own: Sequence[str] = (), *, image: str) -> Refusal | None:
    """The refusal of what does not go with KV caches from other engines, or None.

    Args:
        own: arguments that the engines of prompts have beside the others'. The revision does not know them.

    Examples:
        >>> print(refusal_of_transfer(EngineSpec(args=["--api-server-count=2"]), image="").message)
        spec.engine.args: `--api-server-count` gives an engine several servers, of which each would fill the batch. \
Remove it, or remove `spec.disaggregation`.
    """
    cure = "Remove it, or remove `spec.disaggregation`."
    if value_of(engine.args, TRANSFER) is not None:
        return Refusal(Reason.INVALID_SPEC, "spec.engine.args", f"`{TRANSFER}` would replace the connector.", cure)
    if value_of(engine.args, _SERVERS) is not None:
        problem = f"`{_SERVERS}` gives an engine several servers, of which each would fill the batch."
        return Refusal(Reason.INVALID_SPEC, "spec.engine.args", problem, cure)
    if name := next((variable.name for variable in engine.env if variable.name in _RESERVED), ""):
        problem = "The operator sets it, so that engines send each other KV caches."
        return Refusal(Reason.MANAGED_ARGUMENT, f"spec.engine.env[{name}]", problem, cure)
    version = version_of(version_of_image(image))
    if version is None or version >= TRANSFER_SINCE:
        return _of_own(own)
    problem = "Its vLLM is older than 0.32, whose transfer of KV caches is the one that was read and run."
    return Refusal(Reason.INVALID_SPEC, "spec.engine.image", problem, cure)


def _of_own(own: Sequence[str]) -> Refusal | None:
    for index, argument in enumerate(own):
        option = written_option(argument)
        if option is not None and " ".join(resolve_option(option)) not in OF_ONE_ROLE:
            field = f"spec.disaggregation.prefill.engine.args[{index}]"
            problem = f"`{option}` is no option of the scheduler or of memory, in which the roles may differ."
            cure = "Set it in `spec.engine.args`, which both roles have."
            return Refusal(Reason.INVALID_SPEC, field, problem, cure)
    return None
