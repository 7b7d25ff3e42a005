"""What users get from every engine behind real routers, and what becomes of requests when it stops.

A module of one engine has the fixture `named`: the tiny model on that engine, and subclasses `EngineBehindRouter`.
"""

import asyncio
import json
import os
import signal
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, ClassVar

import aiohttp
import openai
import pytest
import yaml

from e2e.deploy import stack
from e2e.helpers.container_processes import container_processes
from e2e.helpers.faults import kill_container
from e2e.helpers.served_deployment import PROMPT, Served, metric
from e2e.load import Fault, Load
from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually
from e2e.runs.printed_figures import Say
from inference_operator.cli.drill.completion import Question, answer_text
from inference_operator.cli.drill.load import PROMPTS

STREAMS = 4
BEFORE, AFTER = 100, 200
PHASE_SECONDS = 300
END_SECONDS = 40
"""`dnsStaleness`, the end of the server, and a margin for two busy cores."""
HANG_SECONDS = 420
"""Five liveness probes of 60 s each, the grace period of 10 s, and a margin."""


@contextmanager
def applied(cluster: LocalCluster, name: str, **spec: Any) -> Iterator[Served]:  # noqa: ANN401 - any JSON
    """The sample for CPUs with other fields, at rest; deleted at the end of the block, which does not wait."""
    resource = yaml.safe_load(stack.SAMPLE.read_text())
    resource["metadata"]["name"] = name
    resource["spec"] = {**resource["spec"], "router": {"replicas": 1}, **spec}
    served = Served(cluster, name)
    served.await_left()
    served.kubectl("apply", "--filename=-", input=yaml.safe_dump(resource))
    try:
        yield served
    finally:
        served.leave()


def status_of(served: Served) -> dict[str, Any]:
    """The status of its resource."""
    found: dict[str, Any] = json.loads(served.kubectl("get", "infd", served.name, "--output=json"))["status"]
    return found


class EngineBehindRouter:
    """The tests of one engine."""

    running: ClassVar[str]
    """Series with the number of requests that it computes."""
    too_long: ClassVar[str]
    """Words of its error for a prompt that is longer than the context."""
    closed: ClassVar[Sequence[str]]
    """Paths that routers do not forward."""
    slow_words: ClassVar[int] = 1500
    """An answer that takes several seconds."""

    def test_answers_are_those_of_vllm(self, tiny: Served, named: Served) -> None:
        for prompt in (PROMPT, *PROMPTS[:4]):
            assert named.complete(prompt, max_tokens=16) == tiny.complete(prompt, max_tokens=16)

    def test_the_openai_client_gets_completions_chats_streams_and_the_list_of_models(self, named: Served) -> None:
        client = openai.OpenAI(base_url=f"http://{named.address}/v1", api_key="none", max_retries=0)
        assert [one.id for one in client.models.list()] == [named.name]
        assert client.models.retrieve(named.name).id == named.name
        whole = client.completions.create(model=named.name, prompt=PROMPT, max_tokens=8, temperature=0)
        assert (whole.model, whole.choices[0].finish_reason) == (named.name, "length")
        streamed = client.completions.create(model=named.name, prompt=PROMPT, max_tokens=8, temperature=0, stream=True)
        assert "".join(chunk.choices[0].text for chunk in streamed) == whole.choices[0].text
        said: Any = {"messages": [{"role": "user", "content": PROMPT}], "max_tokens": 4, "temperature": 0}
        chat = client.chat.completions.create(model=named.name, **said)
        chunks = client.chat.completions.create(model=named.name, stream=True, **said)
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        assert text == chat.choices[0].message.content
        with pytest.raises(openai.NotFoundError):
            client.models.retrieve("nobody")

    def test_each_request_has_sampling_parameters_of_its_own(self, named: Served) -> None:
        asked = {"model": named.name, "prompt": PROMPT, "max_tokens": 200}
        hot = [json.loads(named.post("/v1/completions", {**asked, "temperature": 2})[1]) for _ in range(3)]
        cold = [named.complete(max_tokens=200) for _ in range(2)]
        assert len({one["choices"][0]["text"] for one in hot}) == 3
        assert len(set(cold)) == 1

    def test_a_prompt_is_at_most_as_long_as_the_context(self, named: Served) -> None:
        status, body = named.post("/v1/completions", {"model": named.name, "prompt": "otter " * 3000})
        assert (status, self.too_long in body) == (400, True), body

    def test_routes_that_control_the_server_are_closed_at_the_router(self, named: Served) -> None:
        for path in set(self.closed) - {"/"}:  # where the router answers health checks itself
            assert named.get(path)[0] == 404

    def test_a_stopped_engine_finishes_its_streams_and_is_gone_soon_after(self, named: Served, say: Say) -> None:
        questions = [
            Question(
                f"http://{named.address}/v1/completions", named.name, prompt, streamed=True, tokens=self.slow_words
            )
            for prompt in PROMPTS[:STREAMS]
        ]
        right = asyncio.run(_answers(questions))
        ((pod, address),) = named.pods("engine").items()
        with ThreadPoolExecutor(1) as pool:
            answers = pool.submit(lambda: asyncio.run(_answers(questions)))
            eventually(lambda: metric(address, self.running) == STREAMS, seconds=30, what="all requests are running")
            named.kubectl("delete", "pod", pod, "--wait=false")
            began = time.monotonic()
            assert answers.result() == right
        eventually(lambda: pod not in named.pods("engine"), seconds=END_SECONDS, what="the engine is gone")
        took = time.monotonic() - began
        say(f"{STREAMS} streams were finished; their engine was gone {took:.1f} s after its deletion")
        stack.wait_engines(named.cluster, named.name, 1)

    def test_a_killed_engine_loses_only_the_requests_in_progress(self, named: Served, say: Say) -> None:
        named.scale(2)
        load = Load(named.address, named.name)
        load.learn()
        pod = min(named.pods("engine"))
        with load.phase("SIGKILL of an engine", at_least=BEFORE, seconds=PHASE_SECONDS) as phase:
            phase.await_answers(BEFORE)
            kill_container(named.cluster, pod)
            phase.mark()
            phase.await_answers(AFTER)
        say(str(phase.result))
        assert phase.result.beyond(Fault.KILL_ENGINE) == ()

    @pytest.mark.full
    def test_a_server_that_hangs_is_restarted_by_the_kubelet(self, named: Served) -> None:
        named.scale(1)
        (pod,) = named.pods("engine")
        os.kill(int(container_processes(named.cluster, pod)[0].name), signal.SIGSTOP)
        restarts = "jsonpath={.status.containerStatuses[0].restartCount}"
        eventually(
            lambda: named.kubectl("get", "pod", pod, f"--output={restarts}") == "1",
            seconds=HANG_SECONDS,
            what="the kubelet restarts it",
        )
        stack.wait_engines(named.cluster, named.name, 1)
        assert named.complete()

    def test_from_none_to_two_to_none(self, named: Served) -> None:
        named.scale(0)
        with ThreadPoolExecutor(1) as client:
            waiting = client.submit(named.complete)
            assert named.get("/v1/models")[0] == 200
            named.scale(2)
            assert waiting.result() == named.complete()
        named.scale(0)


async def _answers(questions: list[Question]) -> list[str]:
    async with aiohttp.ClientSession() as session:
        return list(await asyncio.gather(*(answer_text(session, question) for question in questions)))
