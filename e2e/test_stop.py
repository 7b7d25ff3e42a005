"""How an engine stops: at once while it loads, soon when it is idle, and otherwise after its last answer."""

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import aiohttp
import pytest

from e2e.deploy import stack
from e2e.helpers.container_processes import container_processes
from e2e.helpers.faults import stopped
from e2e.helpers.served_deployment import Served
from e2e.localkube.waiting import eventually
from e2e.runs.printed_figures import Say
from inference_operator.cli.drill.completion import Question, answer_text
from inference_operator.cli.drill.load import PROMPTS

TOKENS = 1500
"""Several seconds of work for an engine, and fewer than the model's context."""
STREAMS = 8
SLOW_SECONDS = 45
"""How long the answers are delayed after their pod's deletion: longer than Kubernetes' default grace period of 30 s."""
STALENESS_SECONDS = stack.TESTS_NUMBERS["settings.dnsStalenessSeconds"]
"""`dnsStaleness`, after which an idle engine stops."""
END_SECONDS = 30
"""For the end of an idle engine after that, on two busy cores: the signal, vLLM's teardown and the kubelet's."""
ANSWER_SECONDS = 400


@pytest.mark.full
def test_a_deleted_engine_finishes_long_answers(tiny: Served, say: Say) -> None:
    questions = [
        Question(f"http://{tiny.address}/v1/completions", tiny.name, prompt, streamed=True, tokens=TOKENS)
        for prompt in PROMPTS[:STREAMS]
    ]
    expected = asyncio.run(_answers(questions))
    (pod,) = tiny.pods("engine")
    processes = container_processes(tiny.cluster, pod)
    with ThreadPoolExecutor(1) as pool:
        answers = pool.submit(lambda: asyncio.run(_answers(questions)))
        eventually(lambda: tiny.running(pod) == STREAMS, seconds=20, what="all requests are running")
        with stopped(processes):
            tiny.kubectl("delete", "pod", pod, "--wait=false")
            began = time.monotonic()
            time.sleep(SLOW_SECONDS)
            assert not answers.done()
        assert answers.result() == expected
    seconds = time.monotonic() - began
    say(f"{STREAMS} streams were finished {seconds:.1f} s after their engine was deleted")
    eventually(lambda: pod not in tiny.pods("engine"), seconds=END_SECONDS, what="the engine is gone soon after")


def test_a_deleted_engine_that_loads_its_model_ends_at_once(tiny: Served, say: Say) -> None:
    """vLLM forgets a signal that comes while it loads. It would run until SIGKILL, on its successor's GPU."""
    stack.wait_engines(tiny.cluster, tiny.name, 1)
    old = set(tiny.pods("engine"))
    tiny.kubectl("scale", f"infd/{tiny.name}", "--replicas=2")
    eventually(lambda: set(tiny.pods("engine")) - old, seconds=30, what="a second engine")
    (pod,) = set(tiny.pods("engine")) - old
    tiny.kubectl("wait", "--for=jsonpath={.status.phase}=Running", f"pod/{pod}", "--timeout=120s")
    tiny.kubectl("scale", f"infd/{tiny.name}", "--replicas=1")
    began = time.monotonic()
    eventually(lambda: pod not in tiny.pods("engine"), seconds=END_SECONDS, what="the loading engine is gone")
    say(f"a loading engine was gone {time.monotonic() - began:.1f} s after the scale-down")


def test_a_deleted_idle_engine_ends_after_dns_staleness(tiny: Served, say: Say) -> None:
    stack.wait_engines(tiny.cluster, tiny.name, 1)
    asyncio.run(_disconnect_early(tiny))
    (pod,) = tiny.pods("engine")
    began = time.monotonic()
    tiny.kubectl("delete", "pod", pod, "--wait=true")
    seconds = time.monotonic() - began
    say(f"an idle engine was gone {seconds:.1f} s after it was deleted")
    assert STALENESS_SECONDS <= seconds < STALENESS_SECONDS + END_SECONDS


async def _disconnect_early(served: Served) -> None:
    """Send a request for a long answer and disconnect: an abandoned request must not keep the engine running."""
    body = Question("", served.name, PROMPTS[0], streamed=True, tokens=TOKENS).body
    url = f"http://{served.address}/v1/completions"
    async with aiohttp.ClientSession() as session, session.post(url, json=body, raise_for_status=True) as response:
        await response.content.readline()


async def _answers(questions: Sequence[Question]) -> list[str]:
    timeout = aiohttp.ClientTimeout(total=ANSWER_SECONDS)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        return list(await asyncio.gather(*(answer_text(session, question) for question in questions)))
