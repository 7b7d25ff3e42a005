"""The log of SGLang's start: its phase, how much of the weights is loaded, and why it ended (0.5.23).

The log of a real start was not recorded: the messages are those of the source.
"""

import re
from collections.abc import Mapping, Sequence

from inference_operator.api.reasons import Reason
from inference_operator.engines.known_error import KnownError, known_error
from inference_operator.engines.shared_errors import DAMAGED_WEIGHTS, GPU_ERRORS, HUB_ERRORS
from inference_operator.engines.start_log import Phase

PHASES: Mapping[Phase, re.Pattern[str]] = {
    # srt/distributed/device_communicators/pynccl.py
    Phase.CONNECTING: re.compile(r"sglang is using nccl=="),
    # srt/model_executor/model_runner.py
    Phase.LOADING: re.compile(r"Load weight begin\. avail mem="),
    # srt/mem_cache/kv_cache_configurator.py
    Phase.WARMING_UP: re.compile(r"Memory pool end\. "),
    # srt/model_executor/model_runner_components/cuda_graph_setup.py
    Phase.CAPTURING: re.compile(r"Capture [\w ]{1,40}CUDA graph begin\."),
}
LOADED = re.compile(r"(?:checkpoint shards|loading shards):\s+(\d{1,2})% Completed")
"""srt/model_loader/weight_utils.py, with tqdm."""

ERRORS: Sequence[KnownError] = (
    # srt/mem_cache/kv_cache_configurator.py, srt/model_executor/pool_configurator.py
    known_error(
        Reason.KV_CACHE_TOO_SMALL,
        r"Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static=(?P<is>[\d.]{1,8})\."
        r"[^(]{1,80}\(minimum viable = 1 - available/pre = (?P<least>[\d.]{1,8})\)",
        "the weights leave no memory for the KV cache with a fraction of {is}. Set `spec.engine.gpuMemoryUtilization`"
        " above {least}, or use more or larger GPUs",
    ),
    known_error(
        Reason.KV_CACHE_TOO_SMALL,
        r"Not enough memory\. Please try to increase --mem-fraction-static",
        "the memory is not enough for the KV cache. Set a larger `spec.engine.gpuMemoryUtilization`, or use more or"
        " larger GPUs",
    ),
    known_error(
        Reason.GPU_OUT_OF_MEMORY,
        r"(?:torch\.OutOfMemoryError|CUDA out of memory)",
        "the GPU's memory is not enough. Set a smaller `spec.engine.gpuMemoryUtilization`, `.maxNumSeqs` or"
        " `.maxNumBatchedTokens`",
    ),
    # srt/models/registry.py
    known_error(
        Reason.UNSUPPORTED_ARCHITECTURE,
        r"Model architectures \['?(?P<what>\w{1,80})'?[^\]]{0,200}\] are not supported for now",
        "this SGLang does not know the architecture {what}. Use another model, or a newer image",
    ),
    # srt/configs/model_config.py
    known_error(
        Reason.CONTEXT_TOO_LONG,
        r"User-specified context_length \((?P<asked>\d{1,9})\) is greater than the derived context_length"
        r" \((?P<has>\d{1,9})\)",
        "`spec.engine.maxModelLen` is {asked}, and the model has {has} tokens. Set at most these",
    ),
    # srt/arg_groups/validation_hook.py
    known_error(
        Reason.INVALID_ARGUMENT,
        r"chunked_prefill_size must be divisible by page_size",
        "a batch has no whole number of pages. Set another `spec.engine.maxNumBatchedTokens`, or remove `--page-size`",
    ),
    # argparse
    known_error(
        Reason.INVALID_ARGUMENT,
        r"launch_server\.py: error: argument (?P<what>--[a-z0-9-]{1,60})",
        "SGLang does not take the value of `{what}`. Correct it in `spec.engine.args`",
    ),
    known_error(
        Reason.INVALID_ARGUMENT,
        r"launch_server\.py: error: unrecognized arguments: (?P<what>--[a-z0-9-]{1,60})",
        "this image's SGLang does not know `{what}`. Use an image of the version in the documentation",
    ),
    # srt/model_executor/model_runner_components/load_model_utils.py
    known_error(
        Reason.GPU_NOT_SUPPORTED,
        r"SGLang only supports sm75 and above",
        "the GPU is too old for SGLang. Use another kind of GPU (`spec.hardware.gpu.products`)",
    ),
    known_error(
        Reason.DRIVER_TOO_OLD,
        r"(?:The NVIDIA driver on your system is too old|CUDA driver version is insufficient for CUDA runtime version)",
        "the node's GPU driver is older than the image's CUDA. Update the driver, or use an image with an older CUDA",
    ),
    *HUB_ERRORS,
    *GPU_ERRORS,
    DAMAGED_WEIGHTS,
    known_error(
        Reason.INVALID_MODEL,
        r"(?:Cannot find any model weights with|does not appear to have a file named config\.json)",
        "there are no weights or no configuration in the model. Check `spec.model.source`",
    ),
)
"""All known errors, the more specific pattern first."""
