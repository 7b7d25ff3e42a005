"""Diagnosis of a failed vLLM from its last log lines: a reason, and a short cause with vLLM's own figures.

Messages are those of vLLM 0.32.0 (a comment names the file of each), and of earlier versions where they differ.
Failures on a CPU are recorded in `tests/engines/vllm_output`.

Errors about arguments, variables and the configuration name what is refused, never its value: it may come from a Secret
or hold a password, and status, Events and logs have other readers than the resource.
"""

from collections.abc import Sequence

from inference_operator.api.reasons import Reason
from inference_operator.engines.known_error import KnownError, known_error, known_errors
from inference_operator.engines.shared_errors import SHARED_ERRORS

_PARSER = r"\bvllm(?: serve)?: error: "
_OPTION = r"--?[A-Za-z][\w-]{0,63}"
_NAME = rf"(?:{_OPTION}(?:/{_OPTION}){{0,4}}|[a-z_]{{1,40}})"
"""An argument as the parser itself calls it: all spellings of an option, or a positional argument."""
_WRITTEN = r"(?:--[A-Za-z][\w.-]{0,63}|-[A-Za-z])(?![\w.-])"
"""An option as it is written, without a value that follows a short one directly."""
_CORRECT = "Correct it in `spec.engine.args`"


def _of_parser(wording: str, cause: str) -> KnownError:
    return known_error(Reason.INVALID_ARGUMENT, _PARSER + wording, f"{cause}. {_CORRECT}")


ARGUMENT_ERRORS: Sequence[KnownError] = (
    # Python 3.13, Lib/argparse.py; messages that vLLM's own types raise follow the argument's name (0.32.0,
    # vllm/utils/argparse_utils.py, vllm/engine/arg_utils.py)
    _of_parser(rf"argument (?P<what>{_NAME}): expected (?:\w+ ){{1,4}}argument", "the argument `{what}` needs a value"),
    _of_parser(rf"argument (?P<what>{_NAME}): ignored explicit argument ", "the argument `{what}` takes no value"),
    _of_parser(
        rf"argument (?P<what>{_NAME}): not allowed with argument (?P<other>{_NAME})(?![\w-])",
        "the argument `{what}` is not allowed with `{other}`",
    ),
    _of_parser(rf"argument (?P<what>{_NAME}): ", "vLLM does not accept the value of `{what}`"),
    _of_parser(rf"unrecognized arguments: (?P<what>{_WRITTEN})", "vLLM has no argument `{what}`"),
    _of_parser(
        rf"ambiguous option: (?P<what>{_WRITTEN})",
        "`{what}` abbreviates several arguments of vLLM, so it must be whole",
    ),
    _of_parser(
        rf"the following arguments are required: (?P<what>{_NAME})(?![\w/-])", "the argument `{what}` is required"
    ),
    _of_parser("", "vLLM does not accept its arguments; the engine's log says which"),
    # vllm/envs.py, env_with_choices, env_list_with_choices
    known_error(
        Reason.INVALID_ARGUMENT,
        r" (?:for|in) (?P<what>[A-Z][A-Z0-9_]{0,63})\. Valid options: \[",
        "vLLM does not accept the value of the variable `{what}`. Correct it in `spec.engine.env`",
    ),
)
"""Errors of the parser and of variables. What follows in their line may be a value, so they come before all others."""

_CLASS, _FIELD = r"[A-Za-z_]\w{0,63}", r"[A-Za-z_]\w{0,63}(?:\.\w{1,64}){0,7}"

CONFIGURATION_ERRORS: Sequence[KnownError] = (
    # pydantic_core 2, src/errors/validation_exception.rs: the class, then the field and why in a line each
    known_error(
        Reason.INVALID_ARGUMENT,
        rf"validation errors? for (?P<part>{_CLASS})\n(?P<field>{_FIELD})\n",
        "vLLM does not accept `{field}` in its configuration `{part}`; the engine's log says why",
    ),
    known_error(
        Reason.INVALID_ARGUMENT,
        rf"validation errors? for (?P<part>{_CLASS})(?!\w)",
        "vLLM does not accept its configuration `{part}`; the engine's log says why",
    ),
)
"""Errors of the configuration that vLLM makes of its arguments. More specific errors are worded in the same form."""


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
        "the compiled kernels of an earlier start are broken. With `spec.cache` a Job deletes them, once no other"
        " engine serves with them",
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

MEMORY_ERRORS, START_ERRORS = (known_errors(__package__, name) for name in ("memory-errors", "start-errors"))

ERRORS: Sequence[KnownError] = (
    *ARGUMENT_ERRORS,
    *MEMORY_ERRORS,
    *known_errors(__package__, "node-errors"),
    *known_errors(__package__, "model-errors", SHARED_ERRORS),
    *START_ERRORS,
    *SHARED_ERRORS["hub"],
    *SHARED_ERRORS["gpus"],
    *_OTHER_ERRORS,
    *CONFIGURATION_ERRORS,
)
"""All known errors, the more specific pattern first."""
