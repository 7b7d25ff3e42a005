"""Known errors of vLLM about too little memory; each message with its file of vLLM 0.32.0."""

from collections.abc import Sequence

from inference_operator.api.reasons import Reason
from inference_operator.engines.known_error import COUNT, DECIMAL, KnownError, known_error

TOO_FEW_STATES = known_error(
    Reason.KV_CACHE_TOO_SMALL,
    # vllm/config/compilation.py
    r"max_num_seqs \((?P<asked>\d{1,12})\) exceeds available Mamba cache\s+blocks \((?P<fits>\d{1,12})\)",
    "a batch may have {asked} sequences, and the KV cache has {fits} blocks for the states of their layers."
    " Set `spec.engine.maxNumSeqs: {fits}` or less, or give the engine more memory",
)

MEMORY_ERRORS: Sequence[KnownError] = (
    TOO_FEW_STATES,
    # vllm/v1/core/kv_cache_utils.py; 0.8.5 is the first version that suggests a length; older messages are shorter.
    known_error(
        Reason.KV_CACHE_TOO_SMALL,
        r"model'?s? ?'?s max seq len \((?P<length>"
        + COUNT
        + r")\), \((?P<need>"
        + DECIMAL
        + r") GiB KV\s+cache is needed, which is"
        r" larger than the available KV cache\s+memory \((?P<room>"
        + DECIMAL
        + r") GiB\)\.\s+Based on the available memory,"
        r"\s+the estimated maximum model length is (?P<fits>" + COUNT + r")",
        "one request of {length} tokens needs {need} GiB of KV cache and {room} GiB are free for it."
        " Set `spec.engine.maxModelLen: {fits}` or less, or give the engine more memory",
    ),
    known_error(
        Reason.KV_CACHE_TOO_SMALL,
        r"model'?s? ?'?s max seq len \((?P<length>"
        + COUNT
        + r")\), \((?P<need>"
        + DECIMAL
        + r") GiB KV\s+cache is needed, which is"
        r" larger than the available KV cache\s+memory \((?P<room>" + DECIMAL + r") GiB\)",
        "one request of {length} tokens needs {need} GiB of KV cache and {room} GiB are free for it."
        " Set a smaller `spec.engine.maxModelLen`, or give the engine more memory",
    ),
    known_error(
        Reason.KV_CACHE_TOO_SMALL,
        r"max seq len \((?P<length>"
        + COUNT
        + r")\) is larger than the maximum number of tokens that can be stored in KV cache"
        r" \((?P<fits>" + COUNT + r")\)",
        "the KV cache has room for {fits} tokens and one request may have {length}."
        " Set `spec.engine.maxModelLen: {fits}` or less, or give the engine more memory",
    ),
    known_error(
        Reason.KV_CACHE_TOO_SMALL,
        r"No available memory for the cache blocks",
        "after the model is loaded no memory is left for KV cache."
        " Spread it over more GPUs, use a smaller or quantised model, or give the engine more memory",
    ),
    # torch 2.13, c10/cuda/CUDACachingAllocator.cpp
    known_error(
        Reason.GPU_OUT_OF_MEMORY,
        r"CUDA out of memory\. Tried to allocate (?P<asked>"
        + DECIMAL
        + r" [KMG]iB)\. GPU (?P<gpu>"
        + COUNT
        + r") has a total capacity of"
        r" (?P<total>" + DECIMAL + r" [KMG]iB) of which (?P<free>" + DECIMAL + r" [KMG]iB) is free",
        "GPU {gpu} of {total} had {free} free when {asked} more were needed."
        " Spread the model over more GPUs, use a smaller or quantised one, or lower `spec.engine.maxNumSeqs`",
    ),
    known_error(
        Reason.GPU_OUT_OF_MEMORY,
        r"(?:CUDA out of memory|OutOfMemoryError: CUDA|HIP out of memory|CUDA error: out of memory)",
        "a GPU ran out of memory."
        " Spread the model over more GPUs, use a smaller or quantised one, or lower `spec.engine.maxNumSeqs`",
    ),
    # vllm/v1/worker/utils.py
    known_error(
        Reason.DEVICE_MEMORY_IN_USE,
        r"Free memory on device \S*\s*\((?P<free>"
        + DECIMAL
        + r")/(?P<total>"
        + DECIMAL
        + r") GiB\) on startup is less than"
        r" desired GPU memory utilization \((?P<share>" + DECIMAL + r"), (?P<asked>" + DECIMAL + r") GiB\)",
        "{asked} GiB are to be used, {share} of the device, and {free} of {total} GiB are free: others use it."
        " Lower `spec.engine.gpuMemoryUtilization`, or find the other process",
    ),
    # vllm/v1/worker/cpu_worker.py
    known_error(
        Reason.DEVICE_MEMORY_IN_USE,
        r"Available memory on node \S+ \((?P<free>"
        + DECIMAL
        + r")/(?P<total>"
        + DECIMAL
        + r") GiB\) on startup is less than desired CPU memory utilization \((?P<share>"
        + DECIMAL
        + r"), (?P<asked>"
        + DECIMAL
        + r") GiB\)",
        "{asked} GiB are to be used, {share} of the node's memory, and {free} of {total} GiB are free."
        " Lower `spec.engine.gpuMemoryUtilization`, or set `--kv-cache-memory-bytes` in `spec.engine.args`",
    ),
)
