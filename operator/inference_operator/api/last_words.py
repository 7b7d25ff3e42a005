"""What engines say last: cause and cure."""

from collections.abc import Mapping

from inference_operator.api.reasons import Reason

LAST_WORDS: Mapping[Reason, tuple[str, str]] = {
    Reason.KV_CACHE_TOO_SMALL: (
        "After the model is loaded, the memory left for KV cache does not hold one request of the longest length.",
        "Set the `spec.engine.maxModelLen` that the message names, or use more or larger GPUs.",
    ),
    Reason.GPU_OUT_OF_MEMORY: (
        "A GPU ran out of memory while the engine loaded or served.",
        "Use more or larger GPUs or a quantised model, or lower `spec.engine.gpuMemoryUtilization`.",
    ),
    Reason.DEVICE_MEMORY_TAKEN: (
        "Something else uses the memory of the device on which the engine starts.",
        "Look who shares the device, or lower `spec.engine.gpuMemoryUtilization`.",
    ),
    Reason.HEADS_NOT_DIVISIBLE: (
        "The model's attention heads cannot be divided among as many GPUs.",
        "Set `spec.parallelism.tensor` to a size that divides them.",
    ),
    Reason.CONTEXT_TOO_LONG: (
        "`spec.engine.maxModelLen` is more than the model was made for.",
        "Set the length that the message names, or less.",
    ),
    Reason.UNSUPPORTED_PRECISION: (
        "The engine cannot use the model's quantisation or number format, or not on this device.",
        "Leave the format to the engine, or use another model or device.",
    ),
    Reason.UNSUPPORTED_ARCHITECTURE: (
        "The engine does not know this kind of model.",
        "Use another model, or a newer engine's image.",
    ),
    Reason.REMOTE_CODE_NEEDED: (
        "The model brings code of its own, which does not run unless it is trusted.",
        "Use a model that the engine knows, or have `--trust-remote-code` allowed.",
    ),
    Reason.MODEL_GATED: (
        "The hub gives the model only to accounts that have accepted its licence.",
        "Accept it on the hub, and set `HF_TOKEN` in `spec.engine.env` from a Secret.",
    ),
    Reason.MODEL_NOT_FOUND: (
        "There is no such model, or it is not shown to this account.",
        "Check `spec.model.source`; for a private model set `HF_TOKEN` in `spec.engine.env` from a Secret.",
    ),
    Reason.HUB_UNREACHABLE: (
        "The engine cannot download the model: the hub does not answer, or not to this cluster.",
        "Check the way out of the cluster, or serve the model from a claim or an image.",
    ),
    Reason.INVALID_MODEL: (
        "The model's files are incomplete, damaged or of different models.",
        "Copy the model again.",
    ),
    Reason.SHARED_MEMORY_TOO_SMALL: (
        "The processes of an engine share less memory than they need, at `/dev/shm`.",
        "Raise `spec.engine.resources.limits.memory`, to which shared memory counts.",
    ),
    Reason.SERVICE_VARIABLE: (
        "A Service called `vllm` puts variables into the pod that vLLM takes for its own.",
        "Give that Service another name.",
    ),
    Reason.COMMUNICATION_FAILED: (
        "The GPUs of an engine cannot talk to each other.",
        "Set `NCCL_DEBUG=INFO` in `spec.engine.env` and read the log of the pod that is named.",
    ),
    Reason.DRIVER_TOO_OLD: (
        "The node's GPU driver is older than the CUDA of the engine's image.",
        "Update the driver, or name an image of an older CUDA in `spec.engine.image`.",
    ),
    Reason.INVALID_ARGUMENT: (
        "The engine does not accept its arguments.",
        "Change what the message names in `spec.engine.args`.",
    ),
}
"""Cause and cure of each. All of them show in Reconciling."""
