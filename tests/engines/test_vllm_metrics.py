"""What is read of the metrics of a real vLLM 0.32.0 with two requests running and eight waiting."""

from dataclasses import replace
from pathlib import Path

import pytest

from inference_operator.engines.vllm.metrics import engine_sample
from inference_operator.observed.samples import EngineSample

LOADED = Path(__file__).with_name("vllm-0.32.0-metrics.txt").read_text()
SAMPLE = EngineSample(
    model="tiny",
    running=2,
    waiting=8,
    progress=(1452.0, 8.0, 2903.0, 0.0006103888176768324, 2.0, 8.0),
    kv_cache_tokens=2_097_152,
)


def test_work_and_progress_are_read_from_real_metrics() -> None:
    assert engine_sample(LOADED) == SAMPLE


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("vllm:iteration_tokens_total_count{", "1452.0"),
        ("vllm:generation_tokens_total{", "2903.0"),
        ("vllm:prompt_tokens_total{", "8.0"),
        ("vllm:kv_cache_usage_perc{", "0.0006103888176768324"),
        ("vllm:num_requests_running{", "2.0"),
        ("vllm:num_requests_waiting{", "8.0"),
    ],
)
def test_each_number_that_moves_is_progress(before: str, after: str) -> None:
    lines = LOADED.splitlines(keepends=True)
    moved = [line.replace(f" {after}", f" {float(after) + 1}") if line.startswith(before) else line for line in lines]
    assert moved != lines
    sample = engine_sample("".join(moved))
    assert sample is not None
    assert sample.progress != SAMPLE.progress


def test_what_the_api_process_counts_by_itself_is_no_progress() -> None:
    busier = "".join(
        line if line.startswith(("vllm:", "#")) else line.replace(" 2.0", " 3.0")
        for line in LOADED.splitlines(keepends=True)
    )
    assert busier != LOADED
    assert engine_sample(busier) == SAMPLE


def test_cores_are_counted_together() -> None:
    second = "".join(
        line.replace('engine="0"', 'engine="1"') for line in LOADED.splitlines(keepends=True) if 'engine="0"' in line
    )
    sample = engine_sample(LOADED + second)
    assert sample is not None
    assert (sample.running, sample.waiting, sample.progress[0]) == (4, 16, 2904.0)
    assert sample.kv_cache_tokens == SAMPLE.kv_cache_tokens, "cores are alike"


@pytest.mark.parametrize("told", ['kv_cache_size_tokens="None"', 'kv_cache_size_tokens="-1"', 'other="1"'])
def test_an_engine_may_not_tell_what_its_cache_holds(told: str) -> None:
    sample = engine_sample(LOADED.replace('kv_cache_size_tokens="2097152"', told))
    assert sample is not None
    assert sample == replace(SAMPLE, kv_cache_tokens=None)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ok",
        "<html></html>",
        'vllm:num_requests_running{engine="0"} 1.0\n',
        "vllm:num_requests_running{engine= 1.0\nvllm:num_requests_waiting x\n",
        "\n".join(line for line in LOADED.splitlines() if "num_requests" not in line),
    ],
)
def test_what_does_not_tell_of_work_is_missing_not_zero(text: str) -> None:
    assert engine_sample(text) is None
