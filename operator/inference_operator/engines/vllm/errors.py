"""Diagnosis of a failed vLLM from its last log lines: a reason, and a short cause with vLLM's own figures.

Messages are those of vLLM 0.32.0 (a comment names the file of each), and of earlier versions where they differ. Failures on
a CPU are recorded in `tests/engines/vllm_output`.
"""

from collections.abc import Sequence

from inference_operator.api.reasons import Reason
from inference_operator.engines.known_error import KnownError, known_error
from inference_operator.engines.shared_errors import GPU_ERRORS, HUB_ERRORS
from inference_operator.engines.vllm.argument_errors import ARGUMENT_ERRORS, CONFIGURATION_ERRORS
from inference_operator.engines.vllm.memory_errors import MEMORY_ERRORS
from inference_operator.engines.vllm.model_errors import MODEL_ERRORS
from inference_operator.engines.vllm.node_errors import NODE_ERRORS
from inference_operator.engines.vllm.start_errors import START_ERRORS

_KERNEL_FILE = r"/\.cache/(?:vllm|torchinductor|triton|flashinfer)/"
"""A part of the path of every compiled file."""
_CUT_OFF = r"(?:EOFError: Ran out of input|UnpicklingError: pickle data was truncated)"
"""The messages of pickle about an empty file and about one that ends too early (CPython 3.11, Modules/_pickle.c)."""
_BROKEN_KERNELS: Sequence[str] = (
    # vllm/compilation/backends.py
    r"previous compilation failed, leading to a\s+corrupted compilation artifact",
    # triton/runtime/cache.py, which reads an index that may be cut off (triton 3.4)
    r"triton/runtime/cache\.py\"(?:[^\n]*\n){1,40}?[^\n]*JSONDecodeError",
    # glibc 2.36, elf/dl-load.c. After "reason: " or "error: " it is a warning of vllm/compilation/decorators.py, after
    # which vLLM compiles again.
    r"(?<![^\s'\"(])(?<!reason: )(?<!error: )/[^\s:]{1,100}"
    + _KERNEL_FILE
    + r"[^\s:]{1,300}: (?:file too short|invalid ELF header|cannot read file data)",
    # torch/_dynamo/exc.py, as in vLLM's issue 31199. torch/_inductor/codecache.py logs the same error of pickle with a
    # traceback and compiles again, so the error alone means nothing.
    r"BackendCompilerFailed: backend='<vllm\.[^\n]{1,200}' raised:\n[^\n]{0,200}?\b" + _CUT_OFF,
    # One traceback that goes through a compiled file, and is no warning
    r"File \"[^\"\n]{1,100}"
    + _KERNEL_FILE
    + r"[^\"\n]{1,300}\", line \d+(?:(?![^\n]*(?:Traceback|WARNING))[^\n]*\n){1,40}?[^\n]*\b"
    + _CUT_OFF,
)
"""Forms in which engines end because of damaged compiled files. No form may match what an engine survives."""

_OTHER_ERRORS: Sequence[KnownError] = (
    # vllm/distributed/device_communicators/shm_broadcast.py since 0.27; before, the kernel's signal
    known_error(
        Reason.SHARED_MEMORY_TOO_SMALL,
        r"Insufficient space in /dev/shm for [^:]{1,80}: (?P<need>\d+) MiB required, (?P<free>\d+) MiB free",
        "{need} MiB of shared memory are needed and {free} MiB are free at /dev/shm. Give the engine more memory",
    ),
    known_error(
        Reason.SHARED_MEMORY_TOO_SMALL,
        r"(?:insufficient shared memory \(shm\)|No space left on device: '/dev/shm|Bus error)",
        "the shared memory at /dev/shm is too small. Give the engine more memory",
    ),
    known_error(
        Reason.KERNELS_BROKEN,
        "|".join(_BROKEN_KERNELS),
        "the compiled kernels of an earlier start are broken. With `spec.cache` a Job deletes them, once no other engine"
        " serves with them",
    ),
    # vllm/envs.py
    known_error(
        Reason.SERVICE_ENV_CONFLICT,
        r"VLLM_PORT '[^'\n]{1,500}' appears to be a URI",
        "a Service called `vllm` puts its address into the variable `VLLM_PORT` of every pod. Give that Service another"
        " name",
    ),
)
"""Errors of GPUs, shared memory, compiled kernels and the environment."""

ERRORS: Sequence[KnownError] = (
    *ARGUMENT_ERRORS,
    *MEMORY_ERRORS,
    *NODE_ERRORS,
    *MODEL_ERRORS,
    *START_ERRORS,
    *HUB_ERRORS,
    *GPU_ERRORS,
    *_OTHER_ERRORS,
    *CONFIGURATION_ERRORS,
)
"""All known errors, the more specific pattern first."""
