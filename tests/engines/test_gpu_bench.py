"""`bench.gpu` as far as a machine without a GPU shows it: its command lines, how it reads vLLM's logs, its output."""

import json
import math
import time
from pathlib import Path

import pytest

from bench import gpu
from bench.startups import FILE, Startup, case
from inference_operator.hardware.offers import GpuOffer
from tests.testing.managed_flags import managed_flag

RECORDED = Path(__file__).parent / "vllm_output" / "start.txt"
ON_GPU = """\
(EngineCore_DP0 pid=83) INFO 11-02 [gpu_model_runner.py:5150] Model loading took 15.27 GiB memory and 3.114 seconds
(EngineCore_DP0 pid=83) INFO 11-02 [gpu_worker.py:760] Available KV cache memory: 53.74 GiB
(EngineCore_DP0 pid=83) INFO 11-02 [kv_cache_utils.py:2327] GPU KV cache size: 391,312 tokens, Maximum concurrency \
for 40,960 tokens per request: 9.55x
(EngineCore_DP0 pid=83) INFO 11-02 [gpu_worker.py:1028] Free memory on device (78.69/79.18 GiB) on startup. Desired \
GPU memory utilization is (0.92, 72.85 GiB). Actual usage is 15.52 GiB for consumed memory (weights + non-torch), 2.43 \
GiB for peak activation, and 0.86 GiB for CUDAGraph memory. Replace gpu_memory_utilization config with …
(EngineCore_DP0 pid=83) INFO 11-02 [gpu_worker.py:972] CUDA graph pool memory: 0.86 GiB (actual), 0.81 GiB \
(estimated), difference: 0.05 GiB (5.8%).
"""
"""As the source of vLLM 0.32.0 formats it (`v1/worker/gpu_model_runner.py`, `gpu_worker.py`, `kv_cache_utils.py`)."""
H100 = "NVIDIA H100 80GB HBM3, 81559\n"


@pytest.fixture
def h100() -> GpuOffer:
    offer = gpu.gpu_of(H100)
    assert offer is not None
    return offer


def test_the_bench_reads_weights_other_memory_and_tokens_from_vllms_log() -> None:
    found = gpu.reported(ON_GPU)
    assert (found.weights, found.kv_tokens) == (15.27, 391_312)
    assert found.others == pytest.approx(72.85 - 53.74 - 15.27)


def test_the_bench_keeps_vllms_own_figures_as_a_row_of_the_startups(tmp_path: Path, h100: GpuOffer) -> None:
    start = gpu.start_of("Qwen/Qwen3-8B", h100)
    assert start is not None
    for _ in range(2):
        gpu.keep_row(tmp_path, start, gpu.reported(ON_GPU), served=True)
    header, *rows = (tmp_path / "startups.csv").read_text().splitlines()
    assert header == FILE.read_text().splitlines()[0]
    assert len(rows) == 2
    row = dict(zip(header.split(","), rows[0].split(","), strict=True))
    assert [row[name] for name in (*gpu.OWN_FIGURES, "kv_gib_per_gpu")] == ["15.52", "2.43", "0.81", "0.86", "53.74"]
    assert case(Startup(row)).shape.max_num_seqs == start.shape.max_num_seqs


def test_the_bench_reads_the_tokens_of_a_recorded_start() -> None:
    assert gpu.reported(RECORDED.read_text()).kv_tokens == 131_072


@pytest.mark.parametrize("name", gpu.MODELS)
def test_the_bench_starts_each_model_with_the_operators_arguments_and_random_weights(h100: GpuOffer, name: str) -> None:
    start = gpu.start_of(name, h100)
    assert start is not None
    assert start.command[:3] == ("vllm", "serve", "MODEL")
    assert "--load-format=dummy" in start.command
    assert start.command[-1] == "--port=PORT", "the last of two values counts"
    assert {flag for part in start.command[3:] if (flag := managed_flag(part))} >= {"--tensor-parallel-size", "--port"}
    assert None not in (start.estimate.weights, start.estimate.others, start.estimate.kv_tokens)


def test_the_bench_has_five_models_or_more() -> None:
    assert len(set(gpu.MODELS)) >= 5


def test_a_model_of_the_bench_has_a_tokenizer_for_the_load(tmp_path: Path, h100: GpuOffer) -> None:
    start = gpu.start_of(gpu.MODELS[-1], h100)
    assert start is not None
    gpu.write_model(tmp_path / "model", start.config)
    words = json.loads((tmp_path / "model" / "tokenizer.json").read_text())["model"]["vocab"]
    assert len(words) == gpu.WORDS


def test_the_error_of_each_term_is_relative_to_what_vllm_reported() -> None:
    figures = gpu.compared("m", gpu.Terms(15.27, 2.0, 400_000), gpu.Terms(15.27, None, 391_312))
    errors = {one.name: one.value for one in figures if one.name.endswith("error")}
    assert errors["m: weights, error"] == 0
    assert math.isnan(errors["m: other memory, error"])
    assert errors["m: KV cache tokens, error"] == pytest.approx(2.22, abs=0.01)


def test_the_ratio_of_the_router_has_an_aim() -> None:
    ratio = gpu.throughput("m", gpu.Loads({}, 1000.0, 995.0))[-1]
    assert ratio.value == 0.995
    assert ratio.aim is not None
    assert ratio.aim.met_by(ratio.value)


def test_without_a_gpu_every_row_is_not_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")
    assert gpu.main(["-o", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) == (9 + 3 * len(gpu.BATCHES)) * len(gpu.MODELS) + 3
    assert {row["value"] for row in rows} == {None}
    assert gpu.main([]) == 0
    assert all("not measured" in line for line in capsys.readouterr().out.splitlines())


def test_a_model_after_the_deadline_is_not_measured(tmp_path: Path, h100: GpuOffer) -> None:
    start = gpu.start_of(gpu.MODELS[0], h100)
    assert start is not None
    measured = gpu.measured([start.name], {start.name: start}, time.monotonic() - 1, tmp_path)
    figures = {one.name: one.value for one in measured}
    assert len(json.loads((tmp_path / "figures.json").read_text())) == len(figures) - 3, "without the router's"
    assert figures[f"{start.name}: weights, estimated"] == start.estimate.weights
    assert math.isnan(figures[f"{start.name}: weights, reported"])


def test_no_step_of_experts_with_random_weights_is_compared(h100: GpuOffer) -> None:
    start = gpu.start_of("Qwen/Qwen3-30B-A3B-FP8", h100)
    assert start is not None
    assert start.serving is None


def test_the_time_of_a_step_is_compared_with_the_model_for_each_batch(h100: GpuOffer) -> None:
    start = gpu.start_of(gpu.MODELS[-1], h100)
    assert start is not None
    rates = gpu.Loads({batch: 100.0 * batch for batch in gpu.BATCHES})
    found = {figure.name: figure.value for figure in gpu.steps(start.name, rates, start.serving)}
    assert found[f"{start.name}: step of 16 sequences, measured"] == pytest.approx(10)
    times = [found[f"{start.name}: step of {batch} sequences, model"] for batch in gpu.BATCHES]
    assert times == sorted(times)
    assert 4 < times[0] < 10, "Qwen3-8B on H100: 15 GB of weights at 3.35 TB/s and the prompt's part"
