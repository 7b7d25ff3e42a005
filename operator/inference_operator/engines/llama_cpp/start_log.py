"""The log of llama-server's start: its phase, and why it ended. Messages are those of llama.cpp 0.7.0 and ggml 0.27."""

import re
from collections.abc import Mapping, Sequence

from inference_operator.api.reasons import Reason
from inference_operator.engines.known_error import KnownError, known_error
from inference_operator.engines.start_log import Phase

PHASES: Mapping[Phase, re.Pattern[str]] = {
    Phase.LOADING: re.compile(r" load_model: loading model '"),
    Phase.WARMING_UP: re.compile(r" load_model: initializing, n_slots = \d+"),
}
"""tools/server/server-context.cpp."""
_FAILED = r"error loading model: "
"""src/llama.cpp."""

ERRORS: Sequence[KnownError] = (
    # ggml/src/ggml-cuda/ggml-cuda.cu
    known_error(
        Reason.GPU_OUT_OF_MEMORY,
        r"(?:cudaMalloc failed: out of memory|CUDA error: out of memory"
        r"|failed to allocate CUDA\d{1,2} buffer of size \d+)",
        "the GPU's memory is not enough. Set a smaller `spec.engine.maxModelLen` or `.maxNumSeqs`, or use a model with"
        " fewer bits",
    ),
    # ggml/src/ggml-backend.cpp, src/llama-context.cpp
    known_error(
        Reason.KV_CACHE_TOO_SMALL,
        r"failed to allocate buffer for kv cache",
        "the memory is not enough for the KV cache of all slots. Set a smaller `spec.engine.maxModelLen` or"
        " `.maxNumSeqs`, or more memory in `spec.engine.resources`",
    ),
    # common/arg.cpp
    known_error(
        Reason.GPU_NOT_VISIBLE,
        r"invalid device: CUDA(?P<gpu>\d{1,2})\b",
        "llama.cpp sees no GPU {gpu}. Check that the image is one for CUDA and that NVIDIA's container runtime is in"
        " use (`spec.scheduling.runtimeClassName: nvidia`)",
    ),
    known_error(
        Reason.DRIVER_TOO_OLD,
        r"CUDA driver version is insufficient for CUDA runtime version",
        "the node's GPU driver is older than the image's CUDA. Update the driver, or use an image with an older CUDA",
    ),
    known_error(
        Reason.INVALID_ARGUMENT,
        r"error: invalid argument: (?P<what>--[a-z0-9-]{1,40})\s",
        "this image's `llama-server` does not know `{what}`. Use an image of the version in the documentation",
    ),
    known_error(
        Reason.INVALID_ARGUMENT,
        r"error while handling argument \"(?P<what>--[a-z0-9-]{1,40})\"",
        "`llama-server` does not take the value of `{what}`. Correct it in `spec.engine.args`",
    ),
    # src/llama-model-loader.cpp, src/llama-model.cpp
    known_error(
        Reason.UNSUPPORTED_ARCHITECTURE,
        _FAILED + r"unknown model architecture: '(?P<what>[\w.-]{1,60})'",
        "this llama.cpp does not know the architecture {what}. Use another model, or a newer image",
    ),
    known_error(
        Reason.UNSUPPORTED_ARCHITECTURE,
        _FAILED + r"(?:unsupported model architecture: '(?P<what>[\w.-]{1,60})'|CLIP cannot be used as main model)",
        "llama.cpp generates no text with this model. Use another one",
    ),
    known_error(
        Reason.INVALID_MODEL,
        r"(?:model is corrupted or incomplete|failed to read key-value pairs|failed to read tensor"
        r"|invalid magic characters|missing tensor '[\w.-]{1,80}'|wrong shape; expected)",
        "the GGUF file is damaged or not complete. Copy it again",
    ),
    # ggml/src/gguf.cpp
    known_error(
        Reason.INVALID_MODEL,
        r"failed to open GGUF file '[^']{1,600}' \(No such file or directory\)",
        "the GGUF file is not there any more. Check `spec.model.source`",
    ),
)
"""All known errors, the more specific pattern first."""
