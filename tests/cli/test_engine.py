"""`infd` sizes models for the engine that is passed to `main`, and imports no engine itself."""

import json

import pytest

from inference_operator.cli.main import main
from inference_operator.engines.base import Engine
from inference_operator.engines.registry import ENGINES, EngineRegistry
from inference_operator.engines.vllm.vllm import Vllm
from inference_operator.hardware.offers import GpuOffer
from inference_operator.sizing.paged import PagedEngine

FIT = ("fit", "Qwen/Qwen3-8B", "--gpu-memory-gib", "23.52", "--max-model-len", "8192", "-o", "json")


class EarlierVllm(Vllm):
    """vLLM with the memory of version 0.19, whatever the image."""

    def on_gpus(self, image: str, offer: GpuOffer, *, reported_gib: float = 0.0) -> PagedEngine:  # noqa: ARG002 - the protocol's
        return super().on_gpus("engine:v0.19.0", offer, reported_gib=reported_gib)


def fit(capsys: pytest.CaptureFixture[str], *more: str, engine: Engine | None = None) -> object:
    with pytest.raises(SystemExit):
        main([*FIT, *more], EngineRegistry({"ONE": engine}, default="ONE") if engine else ENGINES)
    answer: object = json.loads(capsys.readouterr().out)
    return answer


def test_fit_sizes_for_the_engine_that_is_passed_to_main(capsys: pytest.CaptureFixture[str]) -> None:
    given = fit(capsys, engine=EarlierVllm())
    assert given == fit(capsys, "--engine-version", "0.19.0")
    assert given != fit(capsys)
