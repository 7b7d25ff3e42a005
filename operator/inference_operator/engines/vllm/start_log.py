"""The phase of vLLM's startup, the memory that it lacked, and why it failed, from its log.

Messages are those of vLLM 0.32.0 (a comment names the file of each), and of earlier versions where they differ.
Failures on a CPU are recorded in `tests/engines/vllm_output`.
`tests/engines/vllm_output/start.txt` records a start on a CPU. `tests/engines/test_vllm_phase.py` quotes the messages
that need a GPU or a compiler.

`memory-errors.txt` has the messages about the KV cache with all their versions.

Errors about arguments, variables and the configuration name what is refused, never its value: it may come from a Secret
or hold a password, and status, Events and logs have other readers than the resource.
"""

import re
from collections.abc import Mapping
from itertools import chain

from inference_operator.api.reasons import Reason
from inference_operator.engines.start_log import DECIMAL, Phase, known_errors, latest_phase, phases_of
from inference_operator.sizing.learned import Shortage

_TABLES = {
    kind: known_errors(__package__, f"{kind}-errors")
    for kind in ("argument", "memory", "node", "model", "start", "other", "configuration")
}
ERRORS = tuple(chain.from_iterable(_TABLES.values()))
"""All known errors, the more specific pattern first."""

_PHASES = phases_of(__package__)
HINTS: Mapping[Phase, str] = {
    Phase.CONNECTING: "If the GPUs have no NVLink, for example in a virtual machine, set `NCCL_P2P_DISABLE=1` in"
    " `spec.engine.env`."
}
"""The cure of a start that hangs in a phase. NCCL waits for ever where GPUs report direct access to each other over
PCIe and do not have it (vllm-project/vllm#8058, #12292)."""
_LOADING_WITHOUT_NAME = "Loading model from scratch"
"""The line that vllm/v1/worker/gpu/model_runner.py logs instead of "Starting to load", without the model's name."""
_HUB_MODEL = re.compile(r"with config: model='(?!/)")
"""The model in the engine's earlier message (vllm/v1/engine/core.py)."""
LOADED = re.compile(r"(?:checkpoint|loading) shards:\s+(\d{1,2})% Completed[^<\n\r]{0,40}(?:<([\d:]{4,8}))?")
"""vllm/model_executor/model_loader/weight_utils.py. It draws the line again for each file. `<` comes before the time
that is left."""


def phase(log: str) -> Phase | None:
    latest = latest_phase(log, _PHASES)
    if latest in (None, Phase.SETTING_UP, Phase.CONNECTING) and _LOADING_WITHOUT_NAME in log:
        return Phase.DOWNLOADING if _HUB_MODEL.search(log) else Phase.LOADING
    return latest


_TOO_FEW_STATES, *_CACHE_ERRORS = (e.wording for e in _TABLES["memory"] if e.reason is Reason.KV_CACHE_TOO_SMALL)
"""The first one of the table is about states."""
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
    if match := _TOO_FEW_STATES.search(log):
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
    length, longest, room = figures.get("length"), figures.get("fits"), figures.get("room")
    left = [float(match["room"]) for match in _LEFT_FOR_CACHE.finditer(log)]
    return Shortage(
        context=int(length) if length else None,
        longest=int(longest) if longest else None,
        kv_cache_gib=float(room) if room else min(left, default=None if longest else 0.0),
    )
