"""How far vLLM is with its start, by the log of it.

Wordings: vLLM 0.32.0, the file stands at each. A start on a CPU is recorded in `tests/engines/vllm_output/start.txt`;
what is said with a GPU or a compiler is quoted in `tests/engines/test_vllm_phase.py`.
"""

import re
from collections.abc import Mapping

from inference_operator.engines.engine import Phase

_WORDS: Mapping[Phase, re.Pattern[str]] = {
    # vllm/v1/engine/core.py
    Phase.SETTING_UP: re.compile(r"Initializing a V1 LLM engine"),
    # vllm/v1/worker/gpu_model_runner.py, cpu_model_runner.py: a path is no address of a hub
    Phase.DOWNLOADING: re.compile(r"Starting to load model (?!/)\S"),
    # vllm/model_executor/model_loader/weight_utils.py, default_loader.py
    Phase.LOADING: re.compile(
        r"Starting to load model /|Filesystem type for checkpoints|Time spent downloading|Loading \w+ checkpoint shards"
        r"|Multi-thread loading|Loading safetensors using|Loading weights took"
    ),
    # vllm/compilation/monitor.py, backends.py
    Phase.COMPILING: re.compile(
        r"Starting torch\.compile|for vLLM's torch\.compile|Dynamo bytecode transform|Compiling a graph for"
    ),
    # vllm/v1/worker/gpu_worker.py, vllm/v1/core/kv_cache_utils.py
    Phase.WARMING_UP: re.compile(
        r"Available KV cache memory: |[CG]PU KV cache size: |Compile and warming up model|JIT kernel warmup starting"
    ),
    # vllm/v1/worker/gpu_model_runner.py, vllm/v1/worker/gpu/cudagraph_utils.py
    Phase.CAPTURING: re.compile(r"Capturing (?:\w+ )?CUDA graphs"),
}

_BEGINS = "Loading model from scratch"
"""What vllm/v1/worker/gpu/model_runner.py says instead of "Starting to load", without the model."""
_OF_HUB = re.compile(r"with config: model='(?!/)")
"""What the engine has said of the model then (vllm/v1/engine/core.py)."""


def phase(log: str) -> Phase | None:
    """The latest phase of which the log tells.

    Examples:
        >>> phase("INFO [gpu_model_runner.py:5039] Starting to load model Qwen/Qwen3-8B...")
        <Phase.DOWNLOADING: 2>
        >>> phase("Loading safetensors checkpoint shards:  50% Completed | 2/4 [00:07<00:07,  3.6s/it]")
        <Phase.LOADING: 3>
    """
    found = next((one for one in reversed(Phase) if _WORDS[one].search(log)), None)
    if found in (None, Phase.SETTING_UP) and _BEGINS in log:
        return Phase.DOWNLOADING if _OF_HUB.search(log) else Phase.LOADING
    return found
