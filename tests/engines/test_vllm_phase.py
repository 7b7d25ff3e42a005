"""Phases of vLLM's startup by its log: recorded on a CPU, quoted from vLLM 0.32.0 where they need a GPU."""

from pathlib import Path

import pytest

from inference_operator.engines.start_log import Phase
from inference_operator.engines.vllm.start_log import phase
from inference_operator.engines.vllm.vllm import Vllm

START = (Path(__file__).parent / "vllm_output" / "start.txt").read_text()
ORDER = list(Phase)

CONFIG = "(EngineCore pid=7) INFO 11-21 15:43:30 [core.py:133] Initializing a V1 LLM engine (v0.32.0) with config: model='{}',"
QUOTED: list[tuple[str, Phase]] = [
    (CONFIG.format("Qwen/Qwen3-8B"), Phase.SETTING_UP),
    ("INFO [pynccl.py:148] vLLM is using nccl==2.27.5", Phase.CONNECTING),
    ("INFO [gpu_model_runner.py:5039] Starting to load model Qwen/Qwen3-8B...", Phase.DOWNLOADING),
    (CONFIG.format("Qwen/Qwen3-8B") + "\nINFO [model_runner.py:392] Loading model from scratch...", Phase.DOWNLOADING),
    ("INFO [gpu_model_runner.py:5039] Starting to load model /models/qwen...", Phase.LOADING),
    (CONFIG.format("/models/qwen") + "\nINFO [model_runner.py:392] Loading model from scratch...", Phase.LOADING),
    ("INFO [weight_utils.py:532] Time spent downloading weights for Qwen/Qwen3-8B: 212.4 seconds", Phase.LOADING),
    ("Loading safetensors checkpoint shards:  40% Completed | 2/5 [00:03<00:05,  1.8s/it]", Phase.LOADING),
    ("Loading pt checkpoint shards:  40% Completed | 2/5 [00:03<00:05,  1.8s/it]", Phase.LOADING),
    ("Multi-thread loading shards:  40% Completed | 2/5 [00:03<00:05,  1.8s/it]", Phase.LOADING),
    ("Loading safetensors using Runai Model Streamer:   0% Completed | 0/300", Phase.LOADING),
    ("INFO [default_loader.py:501] Loading weights took 41.21 seconds", Phase.LOADING),
    ("INFO [monitor.py:40] Starting torch.compile", Phase.COMPILING),
    ("INFO [backends.py:1104] Using cache directory: /home/vllm/.cache/vllm for vLLM's torch.compile", Phase.COMPILING),
    ("INFO [backends.py:1166] Dynamo bytecode transform time: 8.41 s", Phase.COMPILING),
    ("INFO [backends.py:398] Compiling a graph for compile range (1, 8192) takes 21.30 s", Phase.COMPILING),
    ("INFO [gpu_worker.py:759] Available KV cache memory: 52.1 GiB", Phase.WARMING_UP),
    ("INFO [kv_cache_utils.py:2327] GPU KV cache size: 379,264 tokens, Maximum concurrency", Phase.WARMING_UP),
    ("INFO [gpu_worker.py:939] Compile and warming up model for size 8192", Phase.WARMING_UP),
    ("INFO [kernel_warmup.py:176] JIT kernel warmup starting.", Phase.WARMING_UP),
    ("Capturing CUDA graphs (mixed prefill-decode, PIECEWISE):  12%|#2  | 6/51", Phase.CAPTURING),
    ("Capturing prefill CUDA graphs:  12%|#2        | 6/51", Phase.CAPTURING),
]


def test_a_recorded_start_on_a_cpu_shows_its_phases_in_order() -> None:
    lines = START.splitlines()
    seen = [phase("\n".join(lines[:number])) for number in range(len(lines) + 1)]
    phases = list(dict.fromkeys(seen))
    assert phases == [None, Phase.SETTING_UP, Phase.LOADING, Phase.WARMING_UP]
    assert seen == sorted(seen, key=lambda one: ORDER.index(one) if one else -1)


@pytest.mark.parametrize(("text", "expected"), QUOTED)
def test_a_quoted_message_of_a_start_on_a_gpu_shows_its_phase(text: str, expected: Phase) -> None:
    assert Vllm().phase(text) is expected


def test_the_log_of_a_start_on_a_gpu_shows_the_phase_of_its_last_message() -> None:
    for number, (_, expected) in enumerate(QUOTED, start=1):
        assert phase("\n".join(text for text, _ in QUOTED[:number])) is expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "INFO [model.py:733] Resolved architecture: LlamaForCausalLM",
        "WARNING [vllm.py:1703] Enforce eager set, disabling torch.compile, CUDAGraphs, and JIT kernel warmup.",
        "INFO [gpu_model_runner.py:6369] Profiling CUDA graph memory: FULL=51",
    ],
)
def test_log_messages_without_a_phase_show_no_phase(text: str) -> None:
    assert phase(text) is None


def test_finding_a_startup_phase_takes_time_linear_in_the_length_of_the_log() -> None:
    for piece in (
        "with config: model='/",
        "with config: model='a",
        "Loading ",
        "Capturing a ",
        "Starting to load model /",
    ):
        phase(piece * (65536 // len(piece)))
