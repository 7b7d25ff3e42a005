"""Diagnosis of a failed vLLM from its last log lines: a reason, and a short cause with vLLM's own figures.

Messages are those of vLLM 0.32.0 (a comment names the file of each), and of earlier versions where they differ.
Failures on a CPU are recorded in `tests/engines/vllm_output`.

Errors about arguments, variables and the configuration name what is refused, never its value: it may come from a Secret
or hold a password, and status, Events and logs have other readers than the resource.
"""

from inference_operator.engines.known_error import known_errors

MEMORY_ERRORS, START_ERRORS = (known_errors(__package__, name) for name in ("memory-errors", "start-errors"))
ERRORS = (
    *known_errors(__package__, "argument-errors"),
    *MEMORY_ERRORS,
    *known_errors(__package__, "node-errors"),
    *known_errors(__package__, "model-errors"),
    *START_ERRORS,
    *known_errors(__package__, "other-errors"),
    *known_errors(__package__, "configuration-errors"),
)
"""All known errors, the more specific pattern first."""
