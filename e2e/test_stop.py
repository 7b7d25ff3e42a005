"""How an engine is stopped: at once where it loads or is idle, and otherwise after its last answer."""

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import aiohttp
import pytest

from e2e import stack
from e2e.faults import paused
from e2e.load.completion import Question, answer_text
from e2e.load.load import PROMPTS
from e2e.served import Served
from e2e.waiting import eventually

TOKENS = 1500
"""Seconds of work for an engine, and below the model's context."""
STREAMS = 8
SLOW_SECONDS = 90
"""How long the answers are held up once their engine is to stop: longer than most pods are given at all."""
STALENESS_SECONDS = 15
"""`dnsStaleness`, after which an idle engine stops."""
END_SECONDS = 30
"""For an idle engine's end after that, on two busy cores: the signal, vLLM's own teardown, the kubelet's."""
ANSWER_SECONDS = 400


def test_answers_that_take_long_are_finished(tiny: Served, capsys: pytest.CaptureFixture[str]) -> None:
    questions = [
        Question(f"http://{tiny.address}/v1/completions", tiny.name, prompt, streamed=True, tokens=TOKENS)
        for prompt in PROMPTS[:STREAMS]
    ]
    expected = asyncio.run(_answers(questions))
    (pod,) = tiny.pods("engine")
    with ThreadPoolExecutor(1) as pool:
        answers = pool.submit(lambda: asyncio.run(_answers(questions)))
        eventually(lambda: tiny.running(pod) == STREAMS, seconds=20, what="all answers are being written")
        with paused(tiny.cluster, pod):
            tiny.kubectl("delete", "pod", pod, "--wait=false")
            began = time.monotonic()
            time.sleep(SLOW_SECONDS)
            assert not answers.done()
        assert answers.result() == expected
    seconds = time.monotonic() - began
    with capsys.disabled():
        print(f"\n  {STREAMS} streams were finished {seconds:.1f} s after their engine was deleted", flush=True)
    eventually(lambda: pod not in tiny.pods("engine"), seconds=END_SECONDS, what="the engine is gone soon after")


def test_an_idle_engine_stops_as_soon_as_nobody_can_ask_it_any_more(
    tiny: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    stack.wait_engines(tiny.cluster, tiny.name, 1)
    asyncio.run(_hang_up(tiny))
    (pod,) = tiny.pods("engine")
    began = time.monotonic()
    tiny.kubectl("delete", "pod", pod, "--wait=true")
    seconds = time.monotonic() - began
    with capsys.disabled():
        print(f"\n  an idle engine was gone {seconds:.1f} s after it was deleted", flush=True)
    assert STALENESS_SECONDS <= seconds < STALENESS_SECONDS + END_SECONDS


def test_an_engine_that_still_loads_is_ended_at_once(tiny: Served, capsys: pytest.CaptureFixture[str]) -> None:
    """It would forget the signal and go on until it is killed, with a GPU that its successor waits for."""
    stack.wait_engines(tiny.cluster, tiny.name, 1)
    old = set(tiny.pods("engine"))
    tiny.kubectl("scale", f"infd/{tiny.name}", "--replicas=2")
    eventually(lambda: set(tiny.pods("engine")) - old, seconds=30, what="a second engine")
    (pod,) = set(tiny.pods("engine")) - old
    tiny.kubectl("wait", "--for=jsonpath={.status.phase}=Running", f"pod/{pod}", "--timeout=120s")
    tiny.kubectl("scale", f"infd/{tiny.name}", "--replicas=1")
    began = time.monotonic()
    eventually(lambda: pod not in tiny.pods("engine"), seconds=END_SECONDS, what="the loading engine is gone")
    with capsys.disabled():
        print(f"\n  a loading engine was gone {time.monotonic() - began:.1f} s after it was to stop", flush=True)


async def _hang_up(served: Served) -> None:
    """Ask for a long answer and go away: a request that nobody waits for must not keep the engine."""
    body = Question("", served.name, PROMPTS[0], streamed=True, tokens=TOKENS).body
    url = f"http://{served.address}/v1/completions"
    async with aiohttp.ClientSession() as session, session.post(url, json=body, raise_for_status=True) as response:
        await response.content.readline()


async def _answers(questions: Sequence[Question]) -> list[str]:
    timeout = aiohttp.ClientTimeout(total=ANSWER_SECONDS)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        return list(await asyncio.gather(*(answer_text(session, question) for question in questions)))
