"""`infd bench`: rising load on a real service, when it stops, what it asks, and its screen at two widths."""

import argparse
import json
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web
from syrupy.assertion import SnapshotAssertion

from inference_operator.cli.bench.command import COLUMNS, aligned, plot, row, verdict
from inference_operator.cli.bench.levels import BenchReport, LatencyGoal, LevelResult, level_result
from inference_operator.cli.chat.answers import AnswerTimes
from inference_operator.cli.cluster_command import ClusterCommand
from inference_operator.kube.cluster import KubeCluster
from inference_operator.manifest import Manifest
from tests.cli.conftest import Infd
from tests.cli.forwarding import Behind, Handler, behind_api_server, one_after_the_other, refused, streamed
from tests.cli.test_chat import SECONDS, Terminal, live, router
from tests.testing.golden import GoldenFile

GOAL = LatencyGoal(ttft=2.0, tpot=0.05, percentile=95)
LEVEL_SECONDS = 0.8
"""Long enough for a first answer on a machine that does much else."""
LEVELS = (
    LevelResult(1, 20.0, 16, 0, 0.8, 99.0, 0.08, 0.11, 0.009, 0.012, 0.11, 0.01),
    LevelResult(2, 20.0, 30, 0, 1.5, 190.0, 0.09, 0.14, 0.01, 0.014, 0.14, 0.0105),
    LevelResult(4, 20.0, 56, 0, 2.8, 358.0, 0.12, 0.31, 0.011, 0.02, 0.31, 0.0115),
    LevelResult(8, 20.0, 74, 0, 3.7, 470.0, 0.6, 2.61, 0.015, 0.05, 2.61, 0.017),
)
REPORT = BenchReport("default", "qwen", GOAL, 256, 128, LEVELS, f"with 8 requests at once, {LEVELS[-1].broken(GOAL)}")


@pytest.fixture
def behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Behind]:
    monkeypatch.delenv("INFD_API_KEY", raising=False)
    with behind_api_server(tmp_path, monkeypatch) as found:
        found.serve(patient(), router("a"), router("b"))
        yield found


def patient() -> Manifest:
    """A resource whose objective a slow machine keeps."""
    return live(autoscaling={"maxReplicas": 1, "objective": {"ttft": "1h", "tpot": "1m"}})


def bounded(most: int, inner: Handler) -> Handler:
    """Refuses requests beyond a number at once."""
    running = 0

    async def answer(request: web.Request) -> web.StreamResponse:
        nonlocal running
        running += 1
        try:
            return await (inner if running <= most else refused(429, "full"))(request)
        finally:
            running -= 1

    return answer


def test_the_load_rises_until_its_limit_over_all_routers(infd: Infd, behind: Behind) -> None:
    behind.answer = streamed(["a", "b", "c"], tokens=6, wait=0.01)
    status, said, complaints = infd(
        "bench", "qwen", "--yes", "--max-concurrency=3", "--prompt-tokens=5", "--max-tokens=6", seconds=LEVEL_SECONDS
    )
    assert (status, complaints) == (0, "")
    lines = said.splitlines()
    assert [line.split()[0] for line in lines[1:4]] == ["1", "2", "3"]
    assert lines[-2].startswith("qwen meets its objective (TTFT 3600 s, ")
    assert lines[-1] == "Stopped: --max-concurrency is reached."
    assert {pod for pod, _ in behind.forwarded} == {"qwen-router-a", "qwen-router-b"}
    prompts = [body["prompt"] for _, body, _ in behind.requests]
    assert len(set(prompts)) == len(prompts)
    assert {len(one.split()) for one in prompts} == {5}
    assert behind.requests[0][1]["max_tokens"] == 6


def test_it_stops_where_requests_fail_and_json_tells_all(infd: Infd, behind: Behind) -> None:
    behind.answer = bounded(2, streamed(["a", "b"], wait=0.2))
    # Of a shorter level, one answer more or less would be as much as twice the load gives.
    status, said, _ = infd("bench", "qwen", "--yes", "--max-tokens=2", "--output=json", seconds=2.0)
    found = json.loads(said)
    assert (status, found["bestConcurrency"]) == (0, 2)
    assert [level["concurrency"] for level in found["levels"]] == [1, 2, 4]
    assert found["levels"][-1]["failed"] > 0
    assert found["stopped"].endswith("of its requests failed (HTTP 429: full)")
    assert found["levels"][-1]["failure"] == "HTTP 429: full"


def test_the_first_request_that_a_limit_refuses_is_named_with_its_status(infd: Infd, behind: Behind) -> None:
    limit = "the user of this API key has reached its limit of requests"
    answer = streamed(["a", "b"], wait=0.1)
    behind.answer = one_after_the_other(answer, refused(429, limit))
    status, said, _ = infd("bench", "qwen", "--yes", "--max-tokens=2", seconds=LEVEL_SECONDS)
    assert status == 1
    assert said.endswith(f": with 1 request at once, 1 of its requests failed (HTTP 429: {limit}).\n")


def test_an_objective_that_one_request_breaks_is_a_failure(infd: Infd, behind: Behind) -> None:
    behind.serve(live(autoscaling={"maxReplicas": 1, "objective": {"ttft": "10ms"}}), router("a"))
    behind.answer = streamed(["a", "b"], wait=0.1)
    status, said, _ = infd("bench", "qwen", "--yes", "--max-tokens=2", "--seconds=1")
    assert (status, len(said.splitlines())) == (1, 4)
    assert "does not meet its objective (TTFT 0.01 s" in said


def test_a_field_that_an_engine_does_not_know_is_left_out(infd: Infd, behind: Behind) -> None:
    behind.answer = one_after_the_other(
        refused(422, "Unexpected fields: {'ignore_eos'}"),
        refused(400, "stream_options: extra field"),
        streamed(["a", "b"], wait=0.1),
    )
    assert infd("bench", "qwen", "--yes", "--max-concurrency=1", seconds=LEVEL_SECONDS)[0] == 0
    first, second, *others = [body for _, body, _ in behind.requests]
    assert {"ignore_eos", "stream_options"} <= set(first)
    assert ("ignore_eos" in second, "stream_options" in second) == (False, True)
    assert others
    assert not [one for one in others if "ignore_eos" in one or "stream_options" in one]


def test_a_field_that_an_engine_does_not_know_is_left_out_of_requests_at_once(infd: Infd, behind: Behind) -> None:
    answer = streamed(["a", "b"], wait=0.1)

    async def strict(request: web.Request) -> web.StreamResponse:
        known = "ignore_eos" not in await request.json()
        return await (answer if known else refused(422, "Unexpected: ignore_eos"))(request)

    behind.answer = one_after_the_other(answer, strict)  # the engine changes after the first request
    status, said, _ = infd("bench", "qwen", "--yes", "--max-concurrency=2", "--output=json", seconds=LEVEL_SECONDS)
    assert (status, [level["failed"] for level in json.loads(said)["levels"]]) == (0, [0, 0])


@pytest.mark.usefixtures("behind")
def test_the_client_has_a_connection_for_every_request_at_once() -> None:
    async def limit(cluster: KubeCluster) -> int:
        found: int = cluster.api._client.rest_client.maxsize  # noqa: SLF001 - the limit that aiohttp's connector gets
        return found

    options = argparse.Namespace(kubeconfig=None, context=None)
    assert ClusterCommand(options).run(limit) == 0  # aiohttp: no limit


@pytest.mark.parametrize(("answer", "status"), [(None, 130), ("n\r", 1), ("\x04", 1)], ids=["Ctrl-C", "no", "Ctrl-D"])
def test_a_question_that_is_not_agreed_to_sends_nothing(behind: Behind, answer: str | None, status: int) -> None:
    terminal = Terminal("bench", "qwen")
    try:
        terminal.until("Go on? [y/N]")
        if answer is None:
            terminal.process.send_signal(signal.SIGINT)
        else:
            terminal.write(answer)
        assert terminal.process.wait(SECONDS) == status
    finally:
        terminal.process.kill()
        terminal.process.wait()
        os.close(terminal.screen)
    assert not behind.requests


def test_it_asks_first_and_needs_a_service_that_serves(infd: Infd, behind: Behind) -> None:
    status, _, complaints = infd("bench", "qwen")
    assert (status, "Add --yes" in complaints) == (2, True)
    status, _, complaints = infd("bench", "qwen", "otter", "--yes")
    assert (status, "unrecognized arguments: otter" in complaints) == (2, True)
    assert infd("bench", "qwen", "--yes", "--max-concurrency=10000")[0] == 2
    behind.serve(live(ready=0, autoscaling={"minReplicas": 0, "maxReplicas": 1}), router("a"))
    status, _, complaints = infd("bench", "qwen", "--yes")
    assert (status, complaints) == (1, "qwen has no ready engine. `infd status qwen` shows the cause.\n")
    behind.serve(live(), router("a"))
    behind.answer = refused(401, "no key")
    status, said, complaints = infd("bench", "qwen", "--yes")
    assert (status, said, "needs an API key, or does not know this one" in complaints) == (1, "", True)
    assert len(behind.requests) == 1


def test_a_level_counts_what_arrived_in_its_time() -> None:
    begin, end = 100.0, 110.0
    whole = AnswerTimes(begin, [101.0, 102.0, 103.0], 6, ended=True)
    cut = AnswerTimes(104.0, [105.0, 109.0])
    waits = AnswerTimes(begin)
    late = AnswerTimes(105.0, [106.0, 111.0], ended=True)
    found = level_result(4, [whole, cut, waits, late], failures=(), begin=begin, seconds=end - begin, percentile=50)
    assert (found.answered, found.requests_per_second, found.tokens_per_second) == (1, 0.1, 0.9)
    assert (found.ttft_p50_seconds, found.ttft_p95_seconds) == (1.0, 10.0)
    assert (found.ttft_objective_seconds, found.tpot_objective_seconds) == (1.0, 0.4)
    nothing = level_result(4, [], failures=(), begin=begin, seconds=10, percentile=95)
    assert nothing.broken(GOAL) == "no answer came in its time"
    silent = level_result(1, [AnswerTimes(begin)], failures=(), begin=begin, seconds=1, percentile=95)
    assert (silent.ttft_p95_seconds, silent.broken(GOAL)) == (1.0, "no answer came in its time")
    assert replace(LEVELS[0], tpot_objective_seconds=0.06).broken(GOAL).startswith("its time per output token of 60 ms")


@pytest.mark.parametrize("columns", [80, 120])
def test_the_screen_of_a_service(columns: int, snapshot: SnapshotAssertion) -> None:
    lines = [aligned(COLUMNS), *map(row, LEVELS), "", plot(REPORT, columns), "", *verdict(REPORT)]
    text = "\n".join(lines) + "\n"
    assert max(map(len, text.splitlines()[:-3])) <= columns
    assert text == snapshot.use_extension(GoldenFile.ending("txt"))
    assert plot(replace(REPORT, levels=LEVELS[:1]), columns) == ""


def test_nothing_runs_on_after_a_level(infd: Infd, behind: Behind) -> None:
    running, idle = 0, threading.Event()

    async def endless(request: web.Request) -> web.StreamResponse:
        nonlocal running
        running += 1
        idle.clear()
        try:
            return await streamed(["a"] * 1_000, wait=0.05)(request)
        finally:
            running -= 1
            if not running:
                idle.set()

    behind.answer = one_after_the_other(streamed(["a"]), endless)
    status, said, _ = infd("bench", "qwen", "--yes", "--max-concurrency=2", seconds=LEVEL_SECONDS)
    assert (status, len(said.splitlines())) == (0, 6)
    assert idle.wait(SECONDS)
