"""vLLM's own errors, recognised in what it said last: the reason, and a short cause with vLLM's own figures.

Wordings: vLLM 0.32.0 (the file stands at each rule), with those of earlier versions where they differ. What vLLM says on
a CPU is recorded in `tests/engines/vllm_output`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from inference_operator.api.reasons import Reason
from inference_operator.engines.engine import Diagnosis

_PART = 200
"""Characters of a quoted part that are enough to know it."""


@dataclass(frozen=True, slots=True)
class _Known:
    """One error: how vLLM words it, and what it means to a user, with the groups of the wording."""

    reason: Reason
    wording: re.Pattern[str]
    cause: str


def _known(reason: Reason, wording: str, cause: str) -> _Known:
    return _Known(reason, re.compile(wording), cause)


_GIB = r"[\d.]+"

ERRORS: Sequence[_Known] = (
    # vllm/v1/core/kv_cache_utils.py; the first version that suggests a length is 0.8.5, an older one says it shorter.
    _known(
        Reason.KV_CACHE_TOO_SMALL,
        r"model'?s? ?'?s max seq len \((?P<length>\d+)\), \((?P<need>" + _GIB + r") GiB KV\s+cache is needed, which is"
        r" larger than the available KV cache\s+memory \((?P<room>"
        + _GIB
        + r") GiB\)\.\s+Based on the available memory,"
        r"\s+the estimated maximum model length is (?P<fits>\d+)",
        "one request of {length} tokens needs {need} GiB of KV cache and {room} GiB are free for it."
        " Set `--max-model-len={fits}` or less in `spec.engine.args`, or give the engine more memory",
    ),
    _known(
        Reason.KV_CACHE_TOO_SMALL,
        r"model'?s? ?'?s max seq len \((?P<length>\d+)\), \((?P<need>" + _GIB + r") GiB KV\s+cache is needed, which is"
        r" larger than the available KV cache\s+memory \((?P<room>" + _GIB + r") GiB\)",
        "one request of {length} tokens needs {need} GiB of KV cache and {room} GiB are free for it."
        " Set a smaller `--max-model-len` in `spec.engine.args`, or give the engine more memory",
    ),
    _known(
        Reason.KV_CACHE_TOO_SMALL,
        r"max seq len \((?P<length>\d+)\) is larger than the maximum number of tokens that can be stored in KV cache"
        r" \((?P<fits>\d+)\)",
        "the KV cache has room for {fits} tokens and one request may have {length}."
        " Set `--max-model-len={fits}` or less in `spec.engine.args`, or give the engine more memory",
    ),
    _known(
        Reason.KV_CACHE_TOO_SMALL,
        r"No available memory for the cache blocks",
        "after the model is loaded no memory is left for KV cache."
        " Spread it over more GPUs, use a smaller or quantised model, or give the engine more memory",
    ),
    # torch 2.13, c10/cuda/CUDACachingAllocator.cpp
    _known(
        Reason.GPU_OUT_OF_MEMORY,
        r"CUDA out of memory\. Tried to allocate (?P<asked>[\d.]+ [KMG]iB)\. GPU (?P<gpu>\d+) has a total capacity of"
        r" (?P<total>[\d.]+ [KMG]iB) of which (?P<free>[\d.]+ [KMG]iB) is free",
        "GPU {gpu} of {total} had {free} free when {asked} more were needed."
        " Spread the model over more GPUs, use a smaller or quantised one, or lower `--max-num-seqs`",
    ),
    _known(
        Reason.GPU_OUT_OF_MEMORY,
        r"(?:CUDA out of memory|OutOfMemoryError: CUDA|HIP out of memory|CUDA error: out of memory)",
        "a GPU ran out of memory."
        " Spread the model over more GPUs, use a smaller or quantised one, or lower `--max-num-seqs`",
    ),
    # vllm/v1/worker/utils.py
    _known(
        Reason.DEVICE_MEMORY_TAKEN,
        r"Free memory on device \S*\s*\((?P<free>" + _GIB + r")/(?P<total>" + _GIB + r") GiB\) on startup is less than"
        r" desired GPU memory utilization \((?P<share>[\d.]+), (?P<asked>" + _GIB + r") GiB\)",
        "{asked} GiB are to be used, {share} of the device, and {free} of {total} GiB are free: somebody else uses it."
        " Lower `--gpu-memory-utilization`, or look who shares the device",
    ),
    # vllm/v1/worker/cpu_worker.py
    _known(
        Reason.DEVICE_MEMORY_TAKEN,
        r"Available memory on node \S+ \((?P<free>"
        + _GIB
        + r")/(?P<total>"
        + _GIB
        + r") GiB\) on startup is less than desired CPU memory utilization \((?P<share>[\d.]+), (?P<asked>"
        + _GIB
        + r") GiB\)",
        "{asked} GiB are to be used, {share} of the node's memory, and {free} of {total} GiB are free."
        " Set `--kv-cache-memory-bytes` or lower `--gpu-memory-utilization` in `spec.engine.args`",
    ),
    # vllm/config/model.py
    _known(
        Reason.HEADS_NOT_DIVISIBLE,
        r"Total number of attention heads \((?P<heads>\d+)\) must be divisible by tensor parallel size \((?P<size>\d+)\)",
        "{heads} attention heads cannot be divided among {size} GPUs."
        " Set `spec.parallelism.tensor` to a size that divides {heads}",
    ),
    _known(
        Reason.CONTEXT_TOO_LONG,
        r"User-specified max_model_len \((?P<asked>\d+)\) is greater than the derived max_model_len"
        r" \(\S*?=(?P<own>\d+)(?:\.0)?\b",
        "`--max-model-len={asked}` is more than the {own} tokens that the model knows. Set {own} or less",
    ),
    _known(
        Reason.UNSUPPORTED_PRECISION,
        r"Unknown quantization method: (?P<what>[\w-]+)",
        "vLLM knows no quantization `{what}`. Remove `--quantization`: vLLM reads it from the model",
    ),
    _known(
        Reason.UNSUPPORTED_PRECISION,
        r"[Qq]uantization method specified in the model config \((?P<own>[\w-]+)\) does not match the quantization method"
        r" specified in the `quantization` argument \((?P<what>[\w-]+)\)",
        "the model is quantised as `{own}`, not as `{what}`. Remove `--quantization`",
    ),
    _known(
        Reason.UNSUPPORTED_PRECISION,
        r"The quantization method %s is deprecated[^']*', '(?P<what>[\w-]+)'",
        "vLLM gives up the quantization `{what}` of this model."
        " Use another model, or `--allow-deprecated-quantization` for as long as it lasts",
    ),
    _known(
        Reason.UNSUPPORTED_PRECISION,
        r"Cannot find the config file for (?P<what>[\w-]+)",
        "the model is not quantised as `{what}`. Remove `--quantization`",
    ),
    _known(
        Reason.UNSUPPORTED_PRECISION,
        r"[Qq]uantization method (?P<what>[\w-]+) is not supported for the current GPU\. Minimum capability: (?P<need>\d+)\."
        r" Current capability: (?P<have>\d+)",
        "the quantization `{what}` needs a GPU of compute capability {need} and this one has {have}."
        " Use a newer GPU, or a model without it",
    ),
    _known(
        Reason.UNSUPPORTED_PRECISION,
        r"Bfloat16 is only supported on GPUs with compute capability of at least (?P<need>[\d.]+)\. Your (?P<gpu>.{1,60}?)"
        r" GPU has compute capability (?P<have>\d+\.\d+)",
        "bfloat16 needs a GPU of compute capability {need}, and {gpu} has {have}. Add `--dtype=half`",
    ),
    # vllm/model_executor/models/registry.py; transformers, models/auto/configuration_auto.py
    _known(
        Reason.UNSUPPORTED_ARCHITECTURE,
        r"Model architectures \[(?P<what>[^\]]{1,200})\] (?:are not supported for now|failed to be inspected)",
        "this vLLM does not know the model's architecture {what}. Use another model, or an image of a newer vLLM",
    ),
    _known(
        Reason.UNSUPPORTED_ARCHITECTURE,
        r"checkpoint you are trying to load has model type `(?P<what>[^`]{1,100})` but Transformers does not recognize",
        "this vLLM does not know the model's type `{what}`. Use another model, or an image of a newer vLLM",
    ),
    _known(
        Reason.REMOTE_CODE_NEEDED,
        r"(?:consider setting `trust_remote_code=True`|set the option `trust_remote_code=True`"
        r"|pass the argument `trust_remote_code=True`|execute the configuration file in that repo)",
        "the model brings code of its own, which does not run unless it is trusted."
        " Use a model that vLLM knows, or have `--trust-remote-code` allowed",
    ),
    # huggingface_hub 1, errors.py and utils/_http.py
    _known(
        Reason.MODEL_GATED,
        r"(?:gated repo|GatedRepoError|Cannot access gated repo|is restricted and you are not in the authorized list)",
        "the hub gives this model only to accounts that have accepted its licence."
        " Accept it there, and set `HF_TOKEN` in `spec.engine.env` from a Secret",
    ),
    _known(
        Reason.MODEL_NOT_FOUND,
        r"(?:RepositoryNotFoundError|is not a local folder and is not a valid model identifier|Repository Not Found)",
        "the hub has no such model, or does not show it to this account."
        " Check `spec.model.source`; for a private model set `HF_TOKEN` in `spec.engine.env` from a Secret",
    ),
    _known(
        Reason.MODEL_NOT_FOUND,
        r"(?:401 Unauthorized|401 Client Error)",
        "the hub does not accept the token of this account. Check the Secret behind `HF_TOKEN` in `spec.engine.env`",
    ),
    _known(
        Reason.MODEL_NOT_FOUND,
        r"(?:RevisionNotFoundError|is not a valid git identifier)",
        "the model has no such revision. Check it on the hub",
    ),
    _known(
        Reason.MODEL_NOT_FOUND,
        r"(?:Repo id must be in the form[^:\n]{0,60}|Invalid repository ID or local directory specified): ?'(?P<what>[^']{1,200})'",
        "there is no model in `{what}`. Check the path in `spec.model.source`",
    ),
    _known(
        Reason.HUB_UNREACHABLE,
        r"(?:couldn't connect to '|outgoing traffic has been disabled|OfflineModeIsEnabled|LocalEntryNotFoundError"
        r"|Cannot reach http|Max retries exceeded with url|ConnectError|Failed to resolve|429 Client Error|Too Many Requests"
        r"|50[0234] Server Error)",
        "the hub does not answer. Check the way out of the cluster, or serve the model from a claim or an image",
    ),
    # vllm/model_executor/model_loader, vllm/transformers_utils, safetensors 0.6
    _known(
        Reason.INVALID_MODEL,
        r"(?:It looks like the config file at|is not a valid JSON file)[^\n']{0,40}'?(?P<what>[^'\s]{0,200})",
        "the model's configuration is no JSON. Copy the model again",
    ),
    _known(
        Reason.INVALID_MODEL,
        r"Cannot find any model weights with `(?P<what>[^`]{1,200})`",
        "there are no weights in `{what}`. Copy them there",
    ),
    _known(
        Reason.INVALID_MODEL,
        r"(?:SafetensorError|Error while deserializing header)[^\n]{0,20}?:? ?(?P<what>[^\n]{0,80})",
        "the weights are damaged. Copy the model again",
    ),
    _known(
        Reason.INVALID_MODEL,
        r"(?:No supported config format found|does not appear to have a file named config\.json"
        r"|Could not detect config format)",
        "there is no configuration of a model. Check the path in `spec.model.source`",
    ),
    _known(
        Reason.INVALID_MODEL,
        r"(?:Can't load tokenizer|Couldn't instantiate the backend tokenizer|does not appear to have a file named tokenizer"
        r"|Unable to load vocabulary)",
        "the model has no tokenizer. Copy its tokenizer's files too",
    ),
    _known(
        Reason.INVALID_MODEL,
        r"(?:size mismatch for|Attempted to load weight \(|shape mismatch|param_data\.shape == loaded_weight\.shape)",
        "weights and configuration are of different models. Copy the model again",
    ),
    # vllm/distributed/device_communicators/shm_broadcast.py since 0.27; before, the kernel's signal
    _known(
        Reason.SHARED_MEMORY_TOO_SMALL,
        r"Insufficient space in /dev/shm for [^:]{1,80}: (?P<need>\d+) MiB required, (?P<free>\d+) MiB free",
        "{need} MiB of shared memory are needed and {free} MiB are free at /dev/shm. Give the engine more memory",
    ),
    _known(
        Reason.SHARED_MEMORY_TOO_SMALL,
        r"(?:insufficient shared memory \(shm\)|No space left on device: '/dev/shm|Bus error)",
        "the shared memory at /dev/shm is too small. Give the engine more memory",
    ),
    # vllm/envs.py
    _known(
        Reason.SERVICE_VARIABLE,
        r"VLLM_PORT '(?P<what>[^']{1,100})' appears to be a URI",
        "a Service called `vllm` puts `VLLM_PORT={what}` into every pod. Give that Service another name",
    ),
    # vllm/distributed/device_communicators/pynccl_wrapper.py, torch 2.13, torch/csrc/distributed/c10d/NCCLUtils.hpp
    _known(
        Reason.COMMUNICATION_FAILED,
        r"(?:NCCL error(?: in)?:? ?|ncclInternalError: |ncclSystemError: |ncclUnhandledCudaError: )(?P<what>[^\n]{0,120})",
        "the GPUs cannot talk to each other ({what}). Set `NCCL_DEBUG=INFO` in `spec.engine.env` and read the log",
    ),
    # torch 2.13, torch/csrc/cuda/Module.cpp; CUDA runtime API, cudaErrorInsufficientDriver
    _known(
        Reason.DRIVER_TOO_OLD,
        r"(?:NVIDIA driver on your system is too old \(found version (?P<what>\d+)\)"
        r"|CUDA driver version is insufficient for CUDA runtime version"
        r"|the provided PTX was compiled with an unsupported toolchain)",
        "the node's GPU driver is older than the engine's CUDA."
        " Update the driver, or name an image of an older CUDA in `spec.engine.image`",
    ),
    # argparse, Lib/argparse.py of Python 3.13
    _known(
        Reason.INVALID_ARGUMENT,
        r"\bvllm(?: serve)?: error: (?P<what>[^\n]{1,200})",
        "vLLM does not accept its arguments: {what}",
    ),
    _known(
        Reason.INVALID_ARGUMENT,
        r"validation errors? for (?P<part>\w+)\n\s*(?:Value error, )?(?P<what>[^\n\[]{1,200})",
        "vLLM does not accept its configuration: {what}",
    ),
)
"""Each error that is known, the more specific wording first."""


def diagnosis(text: str) -> Diagnosis | None:
    """What went wrong, if the last words of a vLLM tell.

    Args:
        text: termination message or last lines of the log.

    Examples:
        >>> found = diagnosis("ValueError: Total number of attention heads (4) must be divisible by tensor parallel size (3).")
        >>> print(found.reason, found.cause, sep=": ")
        HeadsNotDivisible: 4 attention heads cannot be divided among 3 GPUs. \
Set `spec.parallelism.tensor` to a size that divides 4
    """
    for known in ERRORS:
        if match := known.wording.search(text):
            parts = {name: " ".join((part or "").split())[:_PART] for name, part in match.groupdict().items()}
            return Diagnosis(known.reason, known.cause.format(**parts))
    return None
