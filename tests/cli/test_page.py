"""`infd ui`: who reaches the page, what it loads, its answers, and browsers that leave, are slow or send nonsense."""

import asyncio
import json
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection, HTTPResponse
from importlib.resources import files
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from aiohttp import web

from inference_operator.cli.chat.page import ANSWERS_AT_ONCE, BODY_BYTES
from tests.cli.conftest import Infd
from tests.cli.forwarding import Behind, Handler, behind_api_server, one_after_the_other, refused, streamed
from tests.cli.test_chat import live, router

SECONDS = 120
HELD_BYTES = 64 * 2**20
"""More than the sockets on the way of an answer hold (Linux: at most 6 MiB each)."""


class Browser:
    """What a browser does, at the address that the command printed."""

    def __init__(self, address: str) -> None:
        self.address = urlsplit(address)
        self._open = ExitStack()

    def open(self, method: str, path: str, body: object = None) -> HTTPResponse:
        connection = self._open.enter_context(closing(HTTPConnection(self.address.netloc, timeout=SECONDS)))
        text = body if isinstance(body, str | None) else json.dumps(body)
        connection.request(method, path, text)
        return self._open.enter_context(connection.getresponse())

    def leave(self) -> None:
        self._open.close()

    def get(self, name: str = "") -> HTTPResponse:
        return self.open("GET", f"{self.address.path}{name}")

    def ask(self, body: object) -> HTTPResponse:
        return self.open("POST", f"{self.address.path}answers", body)

    def said(self, body: object) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.ask(body).read().splitlines()]


@pytest.fixture
def behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Behind]:
    monkeypatch.delenv("INFD_API_KEY", raising=False)
    with behind_api_server(tmp_path, monkeypatch) as found:
        found.serve(live(), router("a"))
        yield found


@contextmanager
def shown(*options: str) -> Iterator[Browser]:
    command = [str(Path(sys.executable).with_name("infd")), "ui", "qwen", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            browser = Browser(process.stdout.readline().strip())
            yield browser
        finally:
            browser.leave()
            process.send_signal(signal.SIGINT)
            assert process.wait(SECONDS) == 130


@pytest.fixture
def browser(behind: Behind) -> Iterator[Browser]:
    assert behind
    with shown() as found:
        yield found


def eventually(condition: Iterator[bool]) -> None:
    end = time.monotonic() + SECONDS
    while not next(condition):
        assert time.monotonic() < end
        time.sleep(0.02)


def test_only_who_knows_the_address_on_this_machine_sees_the_page_and_it_loads_nothing(browser: Browser) -> None:
    assert browser.address.hostname == "127.0.0.1"
    assert re.fullmatch(r"/[\w-]{22}/", browser.address.path)
    for path in ("/", "/state", "/page.js", f"{browser.address.path[:-2]}x/"):
        assert browser.open("GET", path).status == 404
    for name in ("", "page.js", "page.css", "state"):
        answer = browser.get(name)
        policy = answer.headers["Content-Security-Policy"]
        assert answer.status == 200
        assert "default-src 'none'" in policy
        assert not {"unsafe", "http:", "https:", "*"} & set(re.split(r"[ ';-]+", policy))
        assert "http" not in answer.read().decode().replace("http-equiv", "")


def test_the_script_sets_texts_and_never_html() -> None:
    script = files("inference_operator.cli.chat").joinpath("page.js").read_text()
    assert not re.findall(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval|Function\(|setAttribute", script)


def test_an_answer_is_streamed_with_what_was_said_before(browser: Browser, behind: Behind) -> None:
    behind.answer = streamed(["<script>", "alert(1)\x1b</script>"], tokens=7)
    *pieces, times, end = browser.said({"question": "Hi", "turns": [["Who?", "An otter"]]})
    assert [one["text"] for one in pieces] == ["<script>", "alert(1)\x1b</script>"]
    assert "7 tokens" in str(times["say"])
    assert end == {"end": 0}
    assert [one["content"] for one in behind.requests[0][1]["messages"]] == ["Who?", "An otter", "Hi"]
    state = json.loads(browser.get("state").read())
    assert state == {"name": "default/qwen", "model": "qwen", "engines": 1, "message": ""}


def test_a_refusal_and_an_answer_that_breaks_off_are_told(browser: Browser, behind: Behind) -> None:
    behind.answer = one_after_the_other(refused(429, "too\x1b many"), streamed(["Hel"], cut=True))
    said, end = browser.said({"question": "Hi"})
    assert (str(said["say"]).endswith("It says: too\ufffd many"), end) == (True, {"end": 1})
    *_, said, end = browser.said({"question": "Hi"})
    assert (str(said["say"]).startswith("The connection broke before the answer ended."), end) == (True, {"end": 1})


NONSENSE: list[tuple[object, int]] = [
    ("{", 400),
    ("[]", 400),
    ({"question": ""}, 400),
    ({"question": 1}, 400),
    ({"question": "Hi", "turns": [["one"]]}, 400),
    ({"question": "Hi", "model": "other"}, 400),
    ("[" * 10_000, 400),
    ({"question": "x" * BODY_BYTES}, 413),
]


def test_nonsense_is_refused_and_reaches_no_engine(browser: Browser, behind: Behind) -> None:
    assert [browser.ask(body).status for body, _ in NONSENSE] == [status for _, status in NONSENSE]
    assert not behind.requests


def endless(sent: list[int], gone: list[bool]) -> Handler:
    """An answer that counts its bytes until its reader leaves."""
    line = f"data: {json.dumps({'choices': [{'delta': {'content': 'x' * 10_000}}]})}\n\n".encode()

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(line)
                sent.append(len(line))
                await asyncio.sleep(0)
        finally:
            gone.append(True)

    return answer


def test_a_browser_that_reads_nothing_holds_the_engine_back_and_one_that_leaves_frees_it(
    browser: Browser, behind: Behind
) -> None:
    sent, gone = list[int](), list[bool]()
    behind.answer = one_after_the_other(endless(sent, gone), streamed(["Hello"]))
    with socket.create_connection((browser.address.hostname, browser.address.port)) as slow:
        body = b'{"question": "Hi"}'
        head = f"POST {browser.address.path}answers HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n"
        slow.sendall(head.encode() + body)

        def stands_still() -> Iterator[bool]:
            before, same = -1, 0
            while True:
                same = same + 1 if sent and len(sent) == before else 0
                before = len(sent)
                yield same == 25

        eventually(stands_still())
        assert 0 < sum(sent) < HELD_BYTES
        assert browser.said({"question": "Hi"})[0] == {"text": "Hello", "reasoning": ""}
        assert not gone
    eventually(iter(lambda: bool(gone), None))


def test_a_browser_that_sends_half_a_question_disturbs_nobody(browser: Browser, behind: Behind) -> None:
    with socket.create_connection((browser.address.hostname, browser.address.port)) as half:
        half.sendall(f"POST {browser.address.path}answers HTTP/1.1\r\nHost: a\r\nContent-Length: 99\r\n\r\n".encode())
        assert browser.said({"question": "Hi"})[-1] == {"end": 0}
    assert browser.said({"question": "Hi"})[-1] == {"end": 0}
    assert len(behind.requests) == 2


def test_answers_at_once_are_bounded(browser: Browser, behind: Behind) -> None:
    behind.answer = endless([], [])
    held = [browser.ask({"question": "Hi"}) for _ in range(ANSWERS_AT_ONCE)]
    answer = browser.ask({"question": "Hi"})
    assert (answer.status, answer.read()) == (429, b"8 answers are under way. Stop one.")
    eventually(iter(lambda: len(behind.requests) == len(held), None))


def test_what_will_never_answer_and_a_port_in_use_end_it(infd: Infd, behind: Behind, browser: Browser) -> None:
    status, _, complaints = infd("ui", "qwen", f"--port={browser.address.port}")
    assert (status, f"--port: {browser.address.port} cannot be used" in complaints) == (2, True)
    behind.serve({**live(ready=0), "spec": {**live()["spec"], "replicas": 0}}, router("a"))
    status, _, complaints = infd("ui", "qwen")
    assert (status, "kubectl scale infd qwen --replicas=1" in complaints) == (1, True)
