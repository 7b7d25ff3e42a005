"""Flags and environment variables of vLLM that users may not set: managed, secret, dangerous or removed ones.

Names are those of `vllm serve --help=all` and vllm/envs.py in vLLM 0.32.0. `infd arguments`
prints these tables. Every other option and variable has its class in a table of `option_classes.py`.
"""

from inference_operator.engines.environment import DANGEROUS, LOADS_LIBRARIES, MANAGED
from inference_operator.engines.environment import NO_FIELD as _NO_FIELD

_PLAIN = "Remove it; routers and probes speak plain HTTP to the engine's port."

_ONE_GROUP = "Use `spec.parallelism.tensor`, `.pipeline` and `.nodes`; they divide an engine over GPUs."
_DATA = "Use `spec.parallelism.data`; the operator divides the ranks over the pods of an engine."
_NODES = "Use `spec.parallelism.nodes`; the operator connects the pods of an engine."

_SPECULATIVE = "Use `spec.engine.speculative`, for example `{method: Ngram, tokens: 4}`."

MANAGED_FLAGS: dict[str, str] = {
    "--model": "Use `spec.model.source`.",
    "--served-model-name": "Use `spec.model.servedName`.",
    "--revision": "Use `spec.model.revision`.",
    "--hf-token": "Use `spec.model.tokenSecretRef`.",
    "--tensor-parallel-size": "Use `spec.parallelism.tensor`.",
    "--pipeline-parallel-size": "Use `spec.parallelism.pipeline`.",
    "--max-model-len": "Use `spec.engine.maxModelLen`.",
    "--max-num-seqs": "Use `spec.engine.maxNumSeqs`.",
    "--max-num-batched-tokens": "Use `spec.engine.maxNumBatchedTokens`.",
    "--gpu-memory-utilization": "Use `spec.engine.gpuMemoryUtilization`.",
    "--dtype": "Use `spec.engine.dtype`.",
    "--quantization": "Use `spec.engine.quantization`.",
    "--kv-cache-dtype": "Use `spec.engine.kvCacheDtype`.",
    "--cpu-offload-gb": "Use `spec.engine.cpuOffloadGiB`.",
    **dict.fromkeys(("--speculative-config", "--spec-method", "--spec-model", "--spec-tokens"), _SPECULATIVE),
    **dict.fromkeys(("--kv-offloading-size", "--kv-offloading-backend"), "Use `spec.engine.kvOffload`."),
    "--performance-mode": "Use `spec.engine.profile`.",
    "--override-generation-config": "Use `spec.engine.generation`.",
    "--allowed-media-domains": "Use `spec.engine.multimodal.allowedDomains`.",
    "--prefill-context-parallel-size": _ONE_GROUP,
    **dict.fromkeys(
        (
            "--data-parallel-size",
            "--data-parallel-size-local",
            "--data-parallel-rank",
            "--data-parallel-start-rank",
            "--data-parallel-address",
            "--data-parallel-rpc-port",
            "--data-parallel-backend",
            "--data-parallel-external-lb",
            "--data-parallel-hybrid-lb",
            "--data-parallel-multi-port-external-lb",
            "--data-parallel-supervisor-port",
        ),
        _DATA,
    ),
    **dict.fromkeys(("--nnodes", "--node-rank", "--master-addr", "--master-port", "--headless"), _NODES),
    "--host": _NO_FIELD,
    "--port": _NO_FIELD,
    "--uds": _PLAIN,
    "--grpc": _PLAIN,
    "--root-path": _PLAIN,
    "--config": "Write the options of the file into `spec.engine.args`.",
    "--shutdown-timeout": "Use `spec.drainTimeout`.",
    "--disable-log-stats": "Remove it; the operator needs an engine's metrics to stop it.",
    "--api-server-count": _NO_FIELD,
    "--download-dir": _NO_FIELD,
    "--ssl-keyfile": _PLAIN,
    "--ssl-certfile": _PLAIN,
    "--ssl-ca-certs": _PLAIN,
    "--help": "Remove it; the engine would print its help and end.",
}
"""Flags that the operator sets, with the field to use instead."""

SECRET_FLAGS: dict[str, str] = {
    "--api-key": "VLLM_API_KEY",
}
"""Flags whose value is a secret, which everyone who can read the pod would see, with the variable to set from a
Secret instead."""

_CODE = "loads code"
_FILES = "lets requests read files of the engine's container"
_TENSORS = "takes tensors from requests, and a crafted tensor can crash the engine"
_PROMPTS = "writes what users send into the log"
_OPENS = "opens endpoints that control the engine"

REMOTE_CODE = "--trust-remote-code"
"""Runs code of the repository, which must be pinned to a commit."""
LOAD_FORMAT = "--load-format"
PICKLE_FORMATS = frozenset({"pt", "npcache"})
"""Formats of weights that are unpickled, in lower case, in which vLLM compares them (vLLM 0.32.0, config/load.py,
`load_format`)."""

DANGEROUS_FLAGS: dict[str, str] = {
    REMOTE_CODE: "runs code that comes with the model",
    "--hf-overrides": "changes the model's configuration, up to the code that it names",
    **dict.fromkeys(
        (
            "--additional-config",
            "--ec-manager-config",
            "--ec-transfer-config",
            "--io-processor-plugin",
            "--kv-transfer-config",
            "--log-config-file",
            "--logging-config",
            "--logits-processors",
            "--middleware",
            "--model-class-overrides",
            "--reasoning-parser-plugin",
            "--scheduler-cls",
            "--tool-parser-plugin",
            "--worker-cls",
            "--worker-extension-cls",
        ),
        f"{_CODE} that its value names",
    ),
    "--trust-request-chat-template": "runs templates that come with requests",
    "--trust-request-mm-kwargs": "passes values of requests to the model's own code",
    "--tool-server": "lets the engine call other servers",
    "--allowed-local-media-path": _FILES,
    "--enable-prompt-embeds": _TENSORS,
    "--enable-mm-embeds": _TENSORS,
    "--enable-log-requests": _PROMPTS,
    "--enable-log-outputs": _PROMPTS,
    "--enable-tokenizer-info-endpoint": "shows the tokenizer and its template to every client",
    **dict.fromkeys(("--enable-scale-out", "--tokens-only"), _OPENS),
    "--profiler-config": "writes files where its value says, and opens endpoints that control it",
}
"""Flags that need permission by a setting of the operator, with what each one does."""

REMOVED_FLAGS: dict[str, str] = {
    "--swap-space": "Remove it; vLLM has not swapped since 0.18. `spec.engine.kvOffload` keeps cache in host memory.",
    **dict.fromkeys(
        ("--speculative-model", "--num-speculative-tokens", "--ngram-prompt-lookup-max"),
        _SPECULATIVE,
    ),
    "--guided-decoding-backend": 'Use `--structured-outputs-config={"backend": "..."}`.',
    "--enable-reasoning": "Remove it; `--reasoning-parser` alone is enough.",
    "--disable-log-requests": "Remove it; requests are not logged.",
    "--task": "Use `--runner pooling`, and `--convert` for the target type of the model.",
    "--cuda-graph-sizes": "Use `--cudagraph-capture-sizes`.",
    "--max-seq-len-to-capture": "Use `--cudagraph-capture-sizes`, which counts tokens of a batch.",
    "--worker-use-ray": "Remove it; the operator connects the pods of an engine without Ray.",
    **dict.fromkeys(("--rope-scaling", "--rope-theta"), "Use `spec.engine.ropeScaling`."),
    **dict.fromkeys(
        (
            "--disable-async-output-proc",
            "--multi-step-stream-outputs",
            "--num-scheduler-steps",
            "--preemption-mode",
            "--scheduler-delay-factor",
            "--use-v2-block-manager",
        ),
        "Remove it; vLLM decides this itself.",
    ),
}
"""Flags of earlier versions (vLLM 0.6 to 0.17, vllm/engine/arg_utils.py), with their replacement."""

MANAGED_VARIABLES: dict[str, str] = {
    **MANAGED,
    "VLLM_ENGINE_READY_TIMEOUT_S": "Use `spec.startupTimeout`.",
    "VLLM_MAX_N_SEQUENCES": "Use `spec.engine.generation.maxN`.",
    "VLLM_PORT": _NO_FIELD,
    "VLLM_HOST_IP": _NO_FIELD,
    # Its fingerprint of an engine leaves the utilization out (0.32.0, v1/worker/startup_plan.py).
    "VLLM_ENABLE_STARTUP_PLAN": "Use `--kv-cache-memory-bytes` in `spec.engine.args`; a kept size of the KV cache stays"
    " if `spec.engine.gpuMemoryUtilization` changes.",
}
"""Environment variables that the operator sets, with the cure. Users may move the caches, but not the home."""

DANGEROUS_VARIABLES: dict[str, str] = {
    **DANGEROUS,
    **dict.fromkeys(
        (
            "VLLM_CUDART_SO_PATH",
            "VLLM_CUDA_COMPATIBILITY_PATH",
            "VLLM_NCCL_SO_PATH",
            "VLLM_RUST_FRONTEND_PATH",
        ),
        LOADS_LIBRARIES,
    ),
    "PYTHONOPTIMIZE": "disables checks that vLLM's safety depended on (CVE-2026-41523)",
    "VLLM_PLUGINS": "loads plugins",
    "VLLM_LOGGING_CONFIG_PATH": f"{_CODE} that the file names",
    "VLLM_LOGGING_STREAM": f"{_CODE} that its value names",  # `ext://` of Python's logging.config imports a module
    "VLLM_ALLOW_INSECURE_SERIALIZATION": "lets messages between processes carry code",
    "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "lets clients load adapters",
    "VLLM_MEDIA_URL_ALLOW_REDIRECTS": "lets an allowed host send the engine to any other host",
    "VLLM_SERVER_DEV_MODE": _OPENS,
}
"""Environment variables that need permission by a setting of the operator, with what each one does."""
