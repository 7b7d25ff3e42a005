"""What vLLM reports about missing memory: recorded messages where they occur on a CPU, quoted ones where they need a GPU."""

from pathlib import Path

import pytest

from inference_operator.engines.vllm.vllm import Vllm
from inference_operator.sizing.learned import Shortage

OUTPUT = Path(__file__).parent / "vllm_output"
PROFILING = (
    'File "/usr/local/lib/python3.12/dist-packages/vllm/v1/worker/gpu_worker.py", in determine_available_memory\n'
)
OUT_OF_MEMORY = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 MiB. GPU 0 has a total capacity of 79.25 GiB of"
    " which 1.02 GiB is free. Process 12 has 0.50 GiB memory in use. Including non-PyTorch memory, this process has"
    " 77.72 GiB memory in use. Of the allocated memory 75.10 GiB is allocated by PyTorch"
)
LEFT = "INFO 11-21 15:43:35 [gpu_worker.py:721] Available KV cache memory: -14.28 GiB\n"
TOO_FEW_STATES = (
    "ValueError: max_num_seqs (1024) exceeds available Mamba cache blocks (381). Each decode sequence requires one Mamba"
    " cache block, so CUDA graph capture cannot proceed. Please lower max_num_seqs to at most 381 or increase"
    " gpu_memory_utilization."
)
NO_MEMORY = "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`"


def test_the_recorded_kv_cache_error_reports_lengths_and_memory() -> None:
    found = Vllm().shortage((OUTPUT / "length-beyond-cache.txt").read_text())
    assert found == Shortage(context=1_048_576, longest=130_944, kv_cache_gib=0.06)


@pytest.mark.parametrize("path", sorted(OUTPUT.glob("*.txt")), ids=lambda path: path.stem)
def test_no_other_recorded_failure_reports_a_shortage(path: Path) -> None:
    expected = path.stem in ("length-beyond-cache", "no-room-for-cache")
    assert (Vllm().shortage(path.read_text()) is not None) is expected


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (NO_MEMORY, Shortage(kv_cache_gib=0.0)),
        (LEFT + NO_MEMORY, Shortage(kv_cache_gib=-14.28)),
        (
            "ValueError: To serve at least one request with the models's max seq len (32768), (8.00 GiB KV cache is needed,"
            " which is larger than the available KV cache memory (0.15 GiB). Try increasing `gpu_memory_utilization`",
            Shortage(context=32768, kv_cache_gib=0.15),
        ),
        (TOO_FEW_STATES, Shortage(sequences=381)),
        (LEFT.replace("-14.28", "17.1") + TOO_FEW_STATES, Shortage(sequences=381)),
        (PROFILING + OUT_OF_MEMORY, Shortage(used_gib=78.22)),
        (OUT_OF_MEMORY, None),
        (PROFILING + LEFT + OUT_OF_MEMORY, None),
        ("RuntimeError: CUDA error: out of memory", None),
        ("", None),
    ],
)
def test_a_quoted_message_reports_its_figures(log: str, expected: Shortage | None) -> None:
    assert Vllm().shortage(log) == expected


def test_a_shortage_takes_time_linear_in_the_length_of_the_text() -> None:
    for piece in (
        "a",
        "CUDA out of memory. Tried to allocate 1 GiB.",
        "this process has 1 ",
        "model's max seq len (1), ",
    ):
        Vllm().shortage(piece * (65536 // len(piece)))
