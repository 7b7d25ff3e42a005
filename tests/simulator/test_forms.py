"""The simulated engine answers in the form that was recorded of vLLM."""

import asyncio
import json
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp.test_utils import BaseTestServer, TestServer

from e2e.simulator.api import application
from e2e.simulator.engine import Engine
from e2e.simulator.forms import RECORDED, forms
from e2e.simulator.options import Options, parsed

FAST = Options(names=("tiny", "org/tiny"), max_model_len=2048, decode_step_seconds=0, prefill_tokens_per_second=1e6)


@pytest.fixture
async def server() -> AsyncIterator[BaseTestServer]:
    async with TestServer(application(Engine(FAST)), handler_cancellation=True) as server:
        yield server


async def test_the_simulator_answers_in_the_form_recorded_of_vllm(server: BaseTestServer) -> None:
    recorded = json.loads(RECORDED.read_text())
    simulated = await forms(str(server.make_url("")).rstrip("/"), "tiny")
    assert simulated["answers"] == recorded["answers"]


async def test_the_simulator_has_the_metrics_recorded_of_vllm_with_their_types_and_labels(
    server: BaseTestServer,
) -> None:
    recorded = json.loads(RECORDED.read_text())
    simulated = await forms(str(server.make_url("")).rstrip("/"), "tiny")
    assert simulated["metrics"] == recorded["metrics"]


async def test_metrics_count_what_runs_waits_and_was_answered() -> None:
    options = FAST.model_copy(update={"max_num_seqs": 1, "decode_step_seconds": 0.02})
    async with (
        TestServer(application(Engine(options)), handler_cancellation=True) as server,
        aiohttp.ClientSession() as client,
    ):
        body = {"model": "tiny", "prompt": "x", "max_tokens": 50, "ignore_eos": True}
        asked = [asyncio.ensure_future(client.post(server.make_url("/v1/completions"), json=body)) for _ in range(3)]
        await _until_asked(client, server, 3)
        assert await _metric(client, server, "num_requests_running") == 1
        assert await _metric(client, server, "num_requests_waiting") == 2
        asked.pop().cancel()
        for answer in await asyncio.gather(*asked):
            assert answer.status == 200
            assert (await answer.json())["usage"]["completion_tokens"] == 50
        assert await _metric(client, server, 'request_success_total{engine="0",finished_reason="length"') == 2
        assert await _metric(client, server, 'request_success_total{engine="0",finished_reason="abort"') == 1
        assert await _metric(client, server, "num_requests_running") == 0


async def test_a_request_beyond_the_queue_gets_503() -> None:
    options = FAST.model_copy(update={"max_num_seqs": 1, "max_num_queued_reqs": 1, "decode_step_seconds": 0.02})
    async with (
        TestServer(application(Engine(options)), handler_cancellation=True) as server,
        aiohttp.ClientSession() as client,
    ):
        body = {"model": "tiny", "prompt": "x", "max_tokens": 50}
        asked = (client.post(server.make_url("/v1/completions"), json=body) for _ in range(4))
        statuses = sorted(answer.status for answer in await asyncio.gather(*asked))
        assert statuses[0] == 200
        assert statuses[-1] == 503
        assert await _metric(client, server, "admission_rejections_total") == statuses.count(503)


async def test_the_same_prompt_has_the_same_answer_and_another_prompt_another_one(server: BaseTestServer) -> None:
    async with aiohttp.ClientSession() as client:
        texts = []
        for prompt in ("one", "one", "two"):
            async with client.post(
                server.make_url("/v1/completions"), json={"model": "tiny", "prompt": prompt}
            ) as answer:
                texts.append((await answer.json())["choices"][0]["text"])
    assert texts[0] == texts[1] != texts[2]


def test_arguments_of_the_operators_engine_pods_are_understood() -> None:
    command = [
        "/models",
        "--served-model-name",
        "a",
        "b",
        "--host=::",
        "--port=8001",
        "--max-num-seqs=4",
        "--dtype=float32",
    ]
    options, ignored = parsed(command)
    assert (options.names, options.host, options.port, options.max_num_seqs) == (("a", "b"), "::", 8001, 4)
    assert ignored == ["--dtype=float32"]


def test_the_rates_are_settable_by_environment_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIMULATOR_DECODE_STEP_SECONDS", "0.5")
    monkeypatch.setenv("SIMULATOR_PREFILL_TOKENS_PER_SECOND", "77")
    options, _ = parsed(["model"])
    assert (options.decode_step_seconds, options.prefill_tokens_per_second) == (0.5, 77)


async def _until_asked(client: aiohttp.ClientSession, server: BaseTestServer, requests: int) -> None:
    """Wait until the engine counts this many requests."""
    names = ("num_requests_running", "num_requests_waiting")
    while sum([await _metric(client, server, name) for name in names]) < requests:  # noqa: ASYNC110 - only it says so
        await asyncio.sleep(0.005)


async def _metric(client: aiohttp.ClientSession, server: BaseTestServer, start: str) -> float:
    async with client.get(server.make_url("/metrics")) as answer:
        lines = (await answer.text()).splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(f"vllm:{start}") and "_by_" not in line)
