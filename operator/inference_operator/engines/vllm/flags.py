"""One table of the flags and variables that the operator sets itself, and the field to use instead.

Names: `vllm serve --help=all` of vLLM 0.32.0.
"""

from collections.abc import Sequence

from inference_operator.api.container import EnvironmentVariable
from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal

_NO_FIELD = "Remove it; the operator decides it and has no field for it."
_PLAIN = "Remove it; routers and probes speak plain HTTP to the engine's port."

_ONE_GROUP = "Use `spec.parallelism.tensor`; an engine spreads over the GPUs of one node by its tensors."

MANAGED_FLAGS: dict[str, str] = {
    "--model": "Use `spec.model.source`.",
    "--served-model-name": "Use `spec.model.servedName`.",
    "--tensor-parallel-size": "Use `spec.parallelism.tensor`.",
    **dict.fromkeys(
        (
            "--pipeline-parallel-size",
            "--prefill-context-parallel-size",
            "--data-parallel-size",
            "--data-parallel-size-local",
            "--data-parallel-rank",
            "--data-parallel-start-rank",
            "--data-parallel-address",
            "--nnodes",
            "--node-rank",
            "--master-addr",
            "--master-port",
        ),
        _ONE_GROUP,
    ),
    "--host": _NO_FIELD,
    "--port": _NO_FIELD,
    "--uds": _PLAIN,
    "--grpc": _PLAIN,
    "--root-path": _PLAIN,
    "--config": "Write the options of the file into `spec.engine.args`.",
    "--shutdown-timeout": "Use `spec.drainTimeout`.",
    "--disable-log-stats": "Remove it; an engine's metrics tell when it may be stopped.",
    "--headless": _PLAIN,
    "--api-server-count": _NO_FIELD,
    "--download-dir": _NO_FIELD,
    "--ssl-keyfile": _PLAIN,
    "--ssl-certfile": _PLAIN,
    "--ssl-ca-certs": _PLAIN,
}
"""Long flags and their cure."""

FLAG_ALIASES: dict[str, str] = {
    "-tp": "--tensor-parallel-size",
    "-pp": "--pipeline-parallel-size",
    "-pcp": "--prefill-context-parallel-size",
    "-dp": "--data-parallel-size",
    "-dpl": "--data-parallel-size-local",
    "-dpn": "--data-parallel-rank",
    "-dpr": "--data-parallel-start-rank",
    "-dpa": "--data-parallel-address",
    "-n": "--nnodes",
    "-r": "--node-rank",
    "-asc": "--api-server-count",
}
"""Short spellings of managed flags."""

MANAGED_VARIABLES: dict[str, str] = {
    "HOME": _NO_FIELD,
    "VLLM_ENGINE_READY_TIMEOUT_S": "Use `spec.startupTimeout`.",
    "VLLM_PORT": _NO_FIELD,
    "VLLM_HOST_IP": _NO_FIELD,
    **dict.fromkeys(("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"), "Remove it; Kubernetes assigns the GPUs."),
}
"""Environment variables and their cure; the caches may be moved, the home may not."""


def managed_flag(argument: str) -> str | None:
    """The managed flag that an argument sets, however it is spelled: `=`, underscores, abbreviated as argparse allows.

    What abbreviates a managed flag can mean nothing else: it means that flag, or vLLM refuses it as ambiguous.

    Examples:
        >>> managed_flag("--served_model_name=x")
        '--served-model-name'
        >>> managed_flag("--tensor-par")
        '--tensor-parallel-size'
        >>> managed_flag("-tp") == managed_flag("-tp=2") == managed_flag("-t") == "--tensor-parallel-size"
        True
        >>> managed_flag("--max-num-seqs=8") is None
        True
    """
    flag = argument.partition("=")[0].replace("_", "-")
    if not flag.startswith("-") or not flag.strip("-"):
        return None
    if flag in MANAGED_FLAGS:
        return flag
    spelling = next((full for full in (*MANAGED_FLAGS, *FLAG_ALIASES) if full.startswith(flag)), None)
    return FLAG_ALIASES.get(spelling, spelling) if spelling else None


def refusal_of_args(args: Sequence[str]) -> Refusal | None:
    """Why the arguments cannot be passed on, or None.

    Examples:
        >>> print(refusal_of_args(["--max-num-seqs", "8", "--port=1"]).message)
        spec.engine.args[2]: `--port=1` sets `--port`, which is the operator's to decide. \
Remove it; the operator decides it and has no field for it.
    """
    for index, argument in enumerate(args):
        if flag := managed_flag(argument):
            return Refusal(
                Reason.MANAGED_ARGUMENT,
                f"spec.engine.args[{index}]",
                f"`{argument}` sets `{flag}`, which is the operator's to decide.",
                MANAGED_FLAGS[flag],
            )
    return None


def refusal_of_env(env: Sequence[EnvironmentVariable]) -> Refusal | None:
    """Why the environment cannot be passed on, or None."""
    for variable in env:
        if cure := MANAGED_VARIABLES.get(variable.name):
            return Refusal(
                Reason.MANAGED_ARGUMENT,
                f"spec.engine.env[{variable.name}]",
                f"`{variable.name}` is the operator's to decide.",
                cure,
            )
    return None
