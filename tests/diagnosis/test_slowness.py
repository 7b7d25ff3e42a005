"""Why an engine is slow, from its metrics."""

from pathlib import Path

import pytest

from inference_operator.diagnosis.slowness import slow_causes
from inference_operator.engines.telemetry import EngineLoad
from inference_operator.engines.vllm.vllm import Vllm

METRICS = (Path(__file__).parents[1] / "engines" / "vllm-0.32.0-metrics.txt").read_text()
CALM = {"running": 2, "waiting": 0, "cache_usage": 0.1, "preemptions": 0, "answered": 7}


def load(**figures: float) -> EngineLoad:
    return EngineLoad(**{**CALM, **figures})  # type: ignore[arg-type] # as named


def test_the_recorded_metrics_of_a_loaded_vllm_show_its_load() -> None:
    found = Vllm().load(METRICS)
    assert found is not None
    assert (found.running, found.waiting, found.preemptions, found.generated) == (2, 8, 0, 2903)
    assert found.cache_usage == pytest.approx(0.00061, abs=0.00001)


@pytest.mark.parametrize("text", ["", "python_info 1.0\n", "vllm:num_requests_running{"])
def test_metrics_without_numbers_of_requests_show_no_load(text: str) -> None:
    assert Vllm().load(text) is None


@pytest.mark.parametrize(
    ("figures", "evidence", "cure"),
    [
        ({"preemptions": 12, "cache_usage": 0.99}, "preempted requests 12 times", "Lower `spec.engine.maxNumSeqs`"),
        ({"waiting": 4, "cache_usage": 0.97}, "97 % of its KV cache is in use", "`spec.engine.kvCacheDtype: fp8`"),
        ({"waiting": 4, "running": 8}, "as many as `maxNumSeqs` allows", "Raise `spec.engine.maxNumSeqs`"),
        ({"waiting": 4, "running": 3}, "4 requests wait in its queue and 3 run", "Raise `spec.replicas`."),
    ],
)
def test_a_limit_that_requests_wait_for_is_named_with_its_figures(
    figures: dict[str, float], evidence: str, cure: str
) -> None:
    (cause,) = slow_causes(load(**figures), max_num_seqs=8)
    assert evidence in cause.evidence
    assert cure in cause.cure


def test_an_engine_without_waiting_requests_is_not_slow() -> None:
    assert slow_causes(load(running=8, cache_usage=0.99), max_num_seqs=8) == ()


def test_an_engine_with_preempted_and_waiting_requests_has_two_causes() -> None:
    assert len(slow_causes(load(preemptions=1, waiting=1), max_num_seqs=None)) == 2
