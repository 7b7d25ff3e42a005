"""The memory that a vLLM lacked at its start, from its log.

Messages are those of vLLM 0.32.0; a comment names the file of each. `memory_errors.py` has the messages about the KV
cache with all their versions.
"""

import re

from inference_operator.api.reasons import Reason
from inference_operator.engines.known_error import DECIMAL
from inference_operator.engines.vllm.memory_errors import MEMORY_ERRORS, TOO_FEW_STATES
from inference_operator.sizing.learned import Shortage

_CACHE_ERRORS = tuple(
    error.wording
    for error in MEMORY_ERRORS
    if error.reason is Reason.KV_CACHE_TOO_SMALL and error is not TOO_FEW_STATES
)

_LEFT_FOR_CACHE = re.compile(rf"Available KV cache memory: (?P<room>-?{DECIMAL}) GiB")
"""vllm/v1/worker/gpu_worker.py, determine_available_memory. It is negative if the model needs more than may be used."""

_OUT_OF_MEMORY = re.compile(
    rf"CUDA out of memory\. Tried to allocate (?P<asked>{DECIMAL}) (?P<asked_unit>[KMG]iB)\.[^\n]{{0,300}}?"
    rf"this process has (?P<used>{DECIMAL}) (?P<used_unit>[KMG]iB) memory in use"
)
"""torch 2.13, c10/cuda/CUDACachingAllocator.cpp. What other processes use is not in it."""

_BEFORE_CACHE = re.compile(r"\b(?:load_model|profile_run|determine_available_memory)\b")
"""Functions in the traceback of a start that has not allocated its KV cache yet (vllm/v1/worker/gpu_worker.py)."""

_GIB = {"KiB": 2.0**-20, "MiB": 2.0**-10, "GiB": 1.0}


def shortage(log: str) -> Shortage | None:
    """The memory that was missing; None if the log reports none, or not from the start of an engine."""
    if match := TOO_FEW_STATES.wording.search(log):
        return Shortage(sequences=int(match["fits"]))
    for wording in _CACHE_ERRORS:
        if match := wording.search(log):
            return _of_cache(match.groupdict(), log)
    match = _OUT_OF_MEMORY.search(log)
    if match is None or _LEFT_FOR_CACHE.search(log) or not _BEFORE_CACHE.search(log):
        return None
    asked, used = (float(match[name]) * _GIB[match[f"{name}_unit"]] for name in ("asked", "used"))
    return Shortage(used_gib=asked + used)


def _of_cache(figures: dict[str, str | None], log: str) -> Shortage:
    """The figures of the message; without them, those that the workers logged before."""
    length, longest, room = figures.get("length"), figures.get("fits"), figures.get("room")
    left = [float(match["room"]) for match in _LEFT_FOR_CACHE.finditer(log)]
    return Shortage(
        context=int(length) if length else None,
        longest=int(longest) if longest else None,
        kv_cache_gib=float(room) if room else min(left, default=None if longest else 0.0),
    )
