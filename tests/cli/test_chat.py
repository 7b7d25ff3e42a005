"""`infd chat` through a port-forward: the answer, its faults, keys, waiting, and a dialogue on a terminal."""

import asyncio
import base64
import json
import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import web

from inference_operator.cli.chat.command import ChatWaits
from inference_operator.manifest import SECRET, Manifest, Ref
from inference_operator.objects.names import ENGINE, ROUTER
from tests.cli.conftest import Infd
from tests.cli.forwarding import Behind, behind_api_server, one_after_the_other, refused, streamed
from tests.testing.builders import inference_deployment, pod, ready_pod

NO_TEMPLATE = "default chat template is no longer allowed, so you must provide a chat template"
SECONDS = 600
"""As long as the machine may be busy with the tests of clusters, to which this process gives way."""
WAITS = ChatWaits(first_look=0.05, look=0.05, retry=0.05, connect=0.05)
STALLED = {
    "type": "Stalled",
    "status": "True",
    "reason": "InvalidSpec",
    "message": "It cannot.",
    "observedGeneration": 1,
    "lastTransitionTime": "2026-01-02T03:04:05Z",
}


@pytest.fixture
def behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Behind]:
    monkeypatch.delenv("INFD_API_KEY", raising=False)
    with behind_api_server(tmp_path, monkeypatch) as found:
        found.serve(live(), router("a"))
        yield found


def live(*, ready: int = 1, **spec: object) -> Manifest:
    raw = inference_deployment()
    raw["spec"] |= spec
    return {**raw, "status": {"readyReplicas": ready, "replicas": ready}}


def router(name: str) -> Manifest:
    return pod(name=f"qwen-router-{name}", component=ROUTER, status=ready_pod())


def test_an_answer_is_streamed_and_its_times_follow(infd: Infd, behind: Behind) -> None:
    behind.answer = streamed(["Hel", "lo\x1b[2J", "!"], tokens=7)
    status, said, complaints = infd("chat", "qwen", "Hi", "--system=Be brief.", "--max-tokens=9", "--temperature=0.5")
    assert (status, said) == (0, "Hello\ufffd[2J!\n")
    assert complaints.startswith("first token after ")
    assert "7 tokens, " in complaints
    ((path, body, headers),) = behind.requests
    assert (path, body["model"], body["max_tokens"], body["temperature"]) == ("/v1/chat/completions", "qwen", 9, 0.5)
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    assert body["messages"] == messages
    assert "Authorization" not in headers
    assert behind.forwarded == [("qwen-router-a", "8080")]


def test_a_pipe_is_the_question_and_an_adapter_the_model(infd: Infd, behind: Behind) -> None:
    assert infd("chat", "qwen", "--model=sql", stdin="How many?\n")[0] == 0
    assert behind.requests[0][1]["messages"] == [{"role": "user", "content": "How many?"}]
    assert behind.requests[0][1]["model"] == "sql"
    status, _, complaints = infd("chat", "qwen", stdin=" \n")
    assert (status, complaints.startswith("There is no question.")) == (2, True)


def test_a_model_without_a_template_continues_the_text(infd: Infd, behind: Behind) -> None:
    behind.answer = one_after_the_other(refused(400, NO_TEMPLATE), streamed(["upon a time"]))
    status, said, complaints = infd("chat", "qwen", "Once")
    assert (status, said) == (0, "upon a time\n")
    assert "has no chat template, so it continues the text" in complaints
    assert [(path, body.get("prompt")) for path, body, _ in behind.requests] == [
        ("/v1/chat/completions", None),
        ("/v1/completions", "Once"),
    ]


def test_keys_come_of_a_variable_or_a_secret(infd: Infd, behind: Behind, monkeypatch: pytest.MonkeyPatch) -> None:
    behind.serve(live(router={"keys": {"secretRef": {"name": "hashes"}}}), router("a"))
    status, _, complaints = infd("chat", "qwen", "Hi")
    assert (status, "needs an API key. Set INFD_API_KEY" in complaints) == (2, True)
    monkeypatch.setenv("INFD_API_KEY", "sk-variable")
    assert infd("chat", "qwen", "Hi")[0] == 0
    secret = {"one": base64.b64encode(b"sk-secret\n").decode(), "two": base64.b64encode(b"a: 1\nb: 2").decode()}
    behind.objects[Ref(SECRET, "default", "mine").path] = {"data": secret}
    assert infd("chat", "qwen", "Hi", "--key-from=mine/one")[0] == 0
    assert [headers["Authorization"] for *_, headers in behind.requests] == ["Bearer sk-variable", "Bearer sk-secret"]
    for option, cure, expected in (
        ("mine", "name one entry of the Secret as mine/ENTRY. It has `one`, `two`.", 2),
        ("mine/three", "name one entry of the Secret as mine/ENTRY.", 2),
        ("mine/two", "The Secret of `router.keys` has only hashes", 2),
        ("other", "there is no Secret `other` in the namespace `default`.", 3),
        ("forbidden", "It needs the right to get the Secret `forbidden`.", 4),
    ):
        status, _, complaints = infd("chat", "qwen", "Hi", f"--key-from={option}")
        assert (status, cure in complaints) == (expected, True), complaints


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (401, "qwen needs an API key, or does not know this one. Set INFD_API_KEY"),
        (404, "qwen has no model or adapter `otter`. It has `qwen`."),
        (429, "qwen is busy, or a limit of your key is reached. Try again later. It says: too many"),
        (503, "No engine of qwen answers. `infd status qwen` shows the cause."),
        (418, "qwen refuses the request (HTTP 418). It says: too many"),
    ],
)
def test_a_refusal_is_told_with_what_helps(infd: Infd, behind: Behind, status: int, words: str) -> None:
    behind.answer = refused(status, "too\x1b many")
    ended, said, complaints = infd("chat", "qwen", "Hi", "--model=otter")
    assert (ended, said) == (1, "")
    assert words.replace("too many", "too\ufffd many") in complaints


def test_without_the_right_or_a_router_the_message_names_it(infd: Infd, behind: Behind) -> None:
    behind.refused_forwards = [403]
    status, _, complaints = infd("chat", "qwen", "Hi")
    assert (status, "the rights to get and create `pods/portforward` in the namespace" in complaints) == (4, True)
    behind.serve(live(), pod(name="qwen-router-a", component=ROUTER, status={}))
    status, _, complaints = infd("chat", "qwen", "Hi")
    assert (status, complaints) == (1, "No router of default/qwen is ready. `infd status qwen` shows the cause.\n")


def test_without_routers_the_question_goes_to_an_engine(infd: Infd, behind: Behind) -> None:
    ports = {"containers": [{"name": "engine", "ports": [{"name": "http", "containerPort": 8000}]}]}
    engine = pod(name="qwen-engine-a", component=ENGINE, status=ready_pod())
    behind.serve(live(router={"strategy": "External"}), {**engine, "spec": {**engine.get("spec", {}), **ports}})
    assert infd("chat", "qwen", "Hi")[0] == 0
    assert behind.forwarded == [("qwen-engine-a", "8000")]


def test_a_port_forward_that_breaks_before_the_answer_is_made_again(infd: Infd, behind: Behind) -> None:
    behind.breaks = 1
    status, said, _ = infd("chat", "qwen", "Hi", waits=WAITS)
    assert (status, said, len(behind.forwarded), len(behind.requests)) == (0, "Hello world\n", 2, 1)
    behind.refused_forwards = [404]  # its router was replaced
    assert infd("chat", "qwen", "Hi", waits=WAITS)[:2] == (0, "Hello world\n")


def test_a_service_that_cannot_be_reached_is_told_with_the_cause(infd: Infd, behind: Behind) -> None:
    behind.breaks = 100
    status, said, complaints = infd("chat", "qwen", "Hi", waits=WAITS)
    assert (status, said, len(behind.forwarded)) == (1, "", 5)
    assert "No answer: the connection to qwen breaks (the node could not connect to the port of the pod)." in complaints


def test_an_answer_that_breaks_off_is_no_success(infd: Infd, behind: Behind) -> None:
    behind.answer = streamed(["Hel"], cut=True)
    status, said, complaints = infd("chat", "qwen", "Hi")
    assert (status, said) == (1, "Hel\n")
    assert complaints == "The connection broke before the answer ended. Ask again to go on.\n"
    assert len(behind.requests) == 1


def test_an_engine_that_fails_amid_its_answer_is_no_success(infd: Infd, behind: Behind) -> None:
    for error, words in (({"message": ""}, "the engine failed"), ({"message": "CUDA\x1b"}, "CUDA\ufffd")):
        lines: list[Manifest] = [{"choices": [{"delta": {"content": "Hel"}}]}, {"error": error}]

        async def answer(_: web.Request, lines: list[Manifest] = lines) -> web.Response:
            return web.Response(text="".join(f"data: {json.dumps(one)}\n\n" for one in lines))

        behind.answer = answer
        status, said, complaints = infd("chat", "qwen", "Hi")
        assert (status, said) == (1, "Hel\n")
        assert complaints == f"qwen broke off the answer. It says: {words}\n"


def test_an_event_of_endless_length_is_no_answer(infd: Infd, behind: Behind) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(text=f"data: {'x' * 2**22}\n\n")

    behind.answer = answer
    status, _, complaints = infd("chat", "qwen", "Hi", waits=WAITS)
    assert (status, "No answer: the connection to qwen breaks" in complaints) == (1, True)


def test_an_engine_that_becomes_ready_after_the_refusal_is_asked_once_more(infd: Infd, behind: Behind) -> None:
    busy = refused(503, "no engine is available", **{"Retry-After": "0"})
    behind.answer = one_after_the_other(busy, streamed(["Here I am"]))
    assert infd("chat", "qwen", "Hi", waits=WAITS)[:2] == (0, "Here I am\n")
    behind.answer = busy
    status, said, complaints = infd("chat", "qwen", "Hi", waits=WAITS)
    assert (status, said, len(behind.requests)) == (1, "", 4)
    assert complaints.startswith("No engine of qwen answers.")


def test_no_wait_is_longer_than_the_timeout(infd: Infd, behind: Behind) -> None:
    behind.serve(live(ready=0, autoscaling={"minReplicas": 0, "maxReplicas": 2}), router("a"))
    behind.answer = refused(503, "no engine is available", **{"Retry-After": "100000"})
    status, said, _ = infd("chat", "qwen", "Hi", timeout=0.5)
    assert (status, said) == (1, "")
    assert len(behind.requests) in {1, 2}  # where the first answer takes longer than the timeout, there is no second


def test_a_pipe_without_text_is_refused(behind: Behind) -> None:
    command = (str(Path(sys.executable).with_name("infd")), "chat", "qwen")
    ended = subprocess.run(command, input=b"\x89PNG\xff", capture_output=True, check=False)
    assert (ended.returncode, ended.stderr) == (2, b"standard input: is not UTF-8 text.\n")
    assert not behind.requests


def test_at_zero_engines_it_waits_for_the_one_that_starts(infd: Infd, behind: Behind) -> None:
    scaled = live(ready=0, autoscaling={"minReplicas": 0, "maxReplicas": 2})
    scaled["status"]["message"] = "Pod qwen-engine-a loads its weights, 40 %."
    behind.serve(scaled, router("a"))
    held = refused(503, "no engine is available", **{"Retry-After": "1"})

    async def late(request: web.Request) -> web.StreamResponse:
        looks = len(behind.asked) + 2  # before the second one, what the first one found is told
        async with asyncio.timeout(SECONDS):
            while len(behind.asked) < looks:  # noqa: ASYNC110 - what the server lists
                await asyncio.sleep(0.01)
        return await held(request)

    behind.answer = one_after_the_other(late, streamed(["Here I am"]))
    status, said, complaints = infd("chat", "qwen", "Hi", waits=WAITS)
    assert (status, said, len(behind.requests)) == (0, "Here I am\n", 2)
    first, second, *_ = complaints.splitlines()
    assert first == "No engine of qwen is ready. The question waits for one; Ctrl-C gives up."
    assert second == "Pod qwen-engine-a loads its weights, 40 %."


def test_what_will_never_answer_is_not_asked(infd: Infd, behind: Behind) -> None:
    behind.serve({**live(ready=0), "spec": {**live()["spec"], "replicas": 0}}, router("a"))
    status, _, complaints = infd("chat", "qwen", "Hi")
    assert (status, "kubectl scale infd qwen --replicas=1" in complaints) == (1, True)
    behind.serve({**live(), "status": {"conditions": [STALLED]}}, router("a"))
    assert infd("chat", "qwen", "Hi") == (1, "", "qwen has no engine: It cannot.\n")
    assert not behind.forwarded


class Terminal:
    """`infd` on a terminal of its own."""

    def __init__(self, *arguments: str) -> None:
        self.screen, inner = pty.openpty()
        command = (str(Path(sys.executable).with_name("infd")), *arguments)
        own = {**os.environ, "PROMPT_TOOLKIT_NO_CPR": "1"}  # nobody here answers where the cursor is
        self.process = subprocess.Popen(command, stdin=inner, stdout=inner, stderr=inner, env=own)
        os.close(inner)
        self.shown = ""

    def until(self, words: str) -> None:
        """Wait until the screen has shown these words since the last ones."""
        while words not in self.shown:
            assert select.select([self.screen], [], [], SECONDS)[0], self.shown
            self.shown += os.read(self.screen, 65_536).decode(errors="replace")
        self.shown = self.shown.partition(words)[2]

    def write(self, text: str) -> None:
        os.write(self.screen, text.encode())


def test_a_dialogue_keeps_what_was_said_until_ctrl_d(behind: Behind) -> None:
    behind.answer = one_after_the_other(
        streamed(["I am an otter"]), streamed(["one ", *["more "] * 500], wait=0.05), streamed(["Bye"])
    )
    terminal = Terminal("chat", "qwen")
    try:
        terminal.until(">")
        terminal.write("Who?\r")
        terminal.until("I am an otter")
        terminal.until(">")
        terminal.write("Count\r")
        terminal.until("more")
        terminal.process.send_signal(signal.SIGINT)
        terminal.until("Stopped.")
        terminal.until(">")
        terminal.write("\x03")  # at the prompt it ends nothing
        terminal.until(">")
        terminal.write("End\r")
        terminal.until("Bye")
        terminal.until(">")
        terminal.write("\x04")
        assert terminal.process.wait(SECONDS) == 0
    finally:
        terminal.process.kill()
        terminal.process.wait()
        os.close(terminal.screen)
    said = [one["content"] for one in behind.requests[-1][1]["messages"]]
    assert said[:3] == ["Who?", "I am an otter", "Count"]
    assert said[3].startswith("one more")
    assert said[4:] == ["End"]
