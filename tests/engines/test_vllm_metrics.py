"""Samples of the metrics of a real vLLM 0.32.0 with two running and eight waiting requests."""

from dataclasses import replace
from pathlib import Path

import pytest

from inference_operator.engines.vllm.metrics import engine_sample
from inference_operator.engines.vllm.vllm import Vllm
from inference_operator.views.samples import EngineSample, Histogram, TokenCounts

LOADED = Path(__file__).with_name("vllm-0.32.0-metrics.txt").read_text()
SAMPLE = EngineSample(
    model="tiny",
    running=2,
    waiting=8,
    progress=(1452.0, 8.0, 2903.0, 0.0006103888176768324, 2.0, 8.0),
    kv_cache_tokens=2_097_152,
    finished=2.0,
    ttft=Histogram(
        (
            *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0),
            *(2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0, float("inf")),
        ),
        (0.0,) * 5 + (2.0,) * 7 + (4.0,) * 11,
        total=2.684156656265259,
    ),
    tpot=Histogram(
        (
            *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0),
            *(2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, float("inf")),
        ),
        (2.0,) * 20,
        total=0.0028180237063401463,
    ),
    tokens=TokenCounts(requests=2.0, prompt=4.0, answer=1800.0, looked_up=8.0),
    prompts=Histogram(
        (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, float("inf")), (0.0, *([2.0] * 10)), total=4.0
    ),
    answers=Histogram(
        (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, float("inf")),
        (*([0.0] * 9), 2.0, 2.0),
        total=1800.0,
    ),
)


def test_what_came_from_other_engines_is_cached() -> None:
    """So a decode engine's target is that of an engine that computes no prompts."""
    series = 'vllm:external_prefix_cache_hits_total{engine="0",model_name="tiny"} '
    found = engine_sample(LOADED.replace(f"{series}0.0", f"{series}6.0"))
    assert found
    assert found.tokens == TokenCounts(requests=2.0, prompt=4.0, answer=1800.0, looked_up=8.0, cached=6.0)


def test_requests_progress_and_cache_size_are_read_from_recorded_metrics() -> None:
    assert engine_sample(LOADED) == SAMPLE


def test_guesses_are_counted_where_an_engine_makes_any() -> None:
    found = engine_sample(LOADED + Path(__file__).with_name("vllm-0.32.0-speculation-metrics.txt").read_text())
    assert found is not None
    assert found.tokens is not None
    assert (found.tokens.guessed, found.tokens.accepted) == (1.0, 1.0)


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
def test_a_change_of_any_number_of_the_engine_core_is_progress(before: str, after: str) -> None:
    lines = LOADED.splitlines(keepends=True)
    moved = [line.replace(f" {after}", f" {float(after) + 1}") if line.startswith(before) else line for line in lines]
    assert moved != lines
    sample = engine_sample("".join(moved))
    assert sample is not None
    assert sample.progress != SAMPLE.progress


def test_numbers_that_the_api_process_counts_itself_are_no_progress() -> None:
    busier = "".join(
        line if line.startswith(("vllm:", "#")) else line.replace(" 2.0", " 3.0")
        for line in LOADED.splitlines(keepends=True)
    )
    assert busier != LOADED
    assert engine_sample(busier) == SAMPLE


def test_the_requests_of_several_engine_cores_are_summed() -> None:
    second = "".join(
        line.replace('engine="0"', 'engine="1"') for line in LOADED.splitlines(keepends=True) if 'engine="0"' in line
    )
    sample = engine_sample(LOADED + second)
    assert sample is not None
    assert (sample.running, sample.waiting, sample.progress[0]) == (4, 16, 2904.0)
    assert sample.ttft is not None
    assert sample.ttft.counts[-1] == 8
    assert sample.kv_cache_tokens == SAMPLE.kv_cache_tokens, "cores are alike"


@pytest.mark.parametrize("value", ["+Inf", "-Inf", "NaN", "1e400"])
def test_a_load_that_is_no_number_is_none(value: str) -> None:
    page = 'vllm:num_requests_running{engine="0"} 1.0\nvllm:num_requests_waiting 2\nvllm:kv_cache_usage_perc '
    assert Vllm().load(f"{page}0.5\n") is not None
    assert Vllm().load(f"{page}{value}\n") is Vllm().load(page.replace("2", value) + "0\n") is None


@pytest.mark.parametrize("label", ['kv_cache_size_tokens="None"', 'kv_cache_size_tokens="-1"', 'other="1"'])
def test_a_missing_or_invalid_cache_size_is_unknown(label: str) -> None:
    sample = engine_sample(LOADED.replace('kv_cache_size_tokens="2097152"', label))
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
def test_metrics_without_numbers_of_requests_give_no_sample(text: str) -> None:
    assert engine_sample(text) is None
