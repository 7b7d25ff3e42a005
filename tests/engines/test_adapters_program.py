"""The program that loads adapters, run as the kubelet runs it, beside a server with the routes of an engine."""

import json
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from e2e.helpers.free_ports import free_port
from inference_operator.api.engine import EngineSpec
from inference_operator.engines.group.launch import group_member
from inference_operator.engines.programs import PROGRAMS_VARIABLE, programs_text
from inference_operator.engines.vllm.adapters import LOADER_PORT, adapter_loader, adapter_programs
from inference_operator.engines.vllm.adapters_program import MOST_READERS, SHARE, LoaderWaits, Server
from inference_operator.objects.adapter_list import text_hash
from inference_operator.views.samples import AdapterReport, adapter_report
from tests.testing.hostile_readers import survives
from tests.testing.program_waits import calling

WAIT_SECONDS = 20.0
WAITS = LoaderWaits(tick=0.05, look=0.5, linger=0.5)
A, B, BROKEN = "/adapter-cache/a", "/adapter-cache/b", "/adapter-cache/broken"


class Engine(ThreadingHTTPServer):
    """An engine with the routes and answers of vLLM 0.32."""

    daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Answers)
        self.loaded: dict[str, str] = {}
        self.loads: list[tuple[str, str, bool]] = []
        self.unloads: list[str] = []
        self.in_use = ""
        self.healthy = 200
        self.key = ""


class _Answers(BaseHTTPRequestHandler):
    server: Engine

    def has_key(self) -> bool:
        """Whether it has the key; without one of the engine, it must not have a header for it."""
        expected = f"Bearer {self.server.key}" if self.server.key else None
        return self.path in ("/health", "/metrics") or self.headers["Authorization"] == expected

    def do_GET(self) -> None:
        if not self.has_key():
            self.answer(401, "{}")
        elif self.path == "/v1/models":
            adapters = [{"id": name, "root": path, "parent": "qwen"} for name, path in self.server.loaded.items()]
            self.answer(200, json.dumps({"data": [{"id": "qwen", "root": "/models"}, *adapters]}))
        elif self.path == "/metrics":
            labels = f'max_lora="4",running_lora_adapters="{self.server.in_use}",waiting_lora_adapters=""'
            self.answer(200, f"vllm:lora_requests_info{{{labels}}} 1.0\n")
        else:
            self.answer(self.server.healthy, "")

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        name = body["lora_name"]
        if not self.has_key():
            self.answer(401, "{}")
            return
        if self.path == "/v1/unload_lora_adapter":
            self.server.unloads.append(name)
            self.server.loaded.pop(name)
        else:
            self.server.loads.append((name, body["lora_path"], body["load_inplace"]))
            if body["lora_path"] == BROKEN:
                self.answer(500, '{"error": {"message": "no"}}')
                return
            self.server.loaded[name] = body["lora_path"]
        self.answer(200, "done")

    def answer(self, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Tests are quiet."""


class Member(ThreadingHTTPServer):
    """The program of a member of a group, with this rank."""

    daemon_threads = True

    def __init__(self, rank: int) -> None:
        super().__init__(("127.0.0.1", 0), _MemberAnswers)
        self.rank, self.ready = rank, 503
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()


class _MemberAnswers(BaseHTTPRequestHandler):
    server: Member

    def do_GET(self) -> None:
        text = json.dumps({"rank": self.server.rank})
        self.send_response({"/ready": self.server.ready, "/state": 200}[self.path])
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Tests are quiet."""


class Pod:
    """An engine and the program beside it, with a list in a file."""

    def __init__(self, folder: Path) -> None:
        self.list, self.key_file = folder / "loaded.json", folder / "key"
        self.engine_port, self.port = free_port(), free_port()
        self.engine: Engine | None = None
        self.program: subprocess.Popen[bytes] | None = None
        self.member: Member | None = None
        self.waits: LoaderWaits | None = WAITS
        """None: the defaults, with the very command of a pod."""

    def start_engine(self) -> Engine:
        self.engine = Engine(self.engine_port)
        threading.Thread(target=self.engine.serve_forever, args=(0.01,), daemon=True).start()
        return self.engine

    def stop_engine(self) -> None:
        if self.engine:
            self.engine.shutdown()
            self.engine.server_close()
            self.engine = None

    def start_program(self) -> None:
        spec = EngineSpec(adapterSlots=4)
        member = group_member(2)
        assert member is not None
        ours = replace(member, health_port=self.member.server_port) if self.member else None
        key_file = str(self.key_file) if self.key_file.exists() else ""
        loader = adapter_loader(spec, self.engine_port, ours, key_file=key_file)
        assert loader is not None
        _, *rest = calling(loader.command, f"main({self.waits!r})") if self.waits else loader.command
        rest[rest.index(str(LOADER_PORT))] = str(self.port)
        environment = {**os.environ, PROGRAMS_VARIABLE: programs_text(adapter_programs(spec))}
        self.program = subprocess.Popen([sys.executable, *rest, str(self.list)], env=environment)

    def write(self, **paths: str) -> str:
        text = json.dumps(paths, sort_keys=True)
        self.list.write_text(text)
        return text_hash(text)

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def report(self) -> AdapterReport | None:
        return adapter_report(self.get("/adapters")[1])

    def close(self) -> None:
        if self.program:
            until(lambda: self.get("/adapters")[0] == 200)
            self.program.terminate()
            assert self.program.wait(WAIT_SECONDS) == 0, "it ends by itself, so that it does as process 1 too"
        self.stop_engine()
        if self.member:
            self.member.shutdown()
            self.member.server_close()


@pytest.fixture
def pod(tmp_path: Path) -> Iterator[Pod]:
    found = Pod(tmp_path)
    try:
        yield found
    finally:
        found.close()


def until(holds: Callable[[], Any]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def carried_out(pod: Pod, list_hash: str) -> AdapterReport:
    def found() -> bool:
        report = pod.report()
        return report is not None and report.list_hash == list_hash

    until(found)
    report = pod.report()
    assert report is not None
    return report


def test_adapters_are_loaded_into_an_engine_that_asks_for_a_key_also_after_the_key_was_renewed(pod: Pod) -> None:
    pod.key_file.write_text("first\n")
    engine = pod.start_engine()
    engine.key = "first"
    wanted = pod.write(a=A)
    pod.start_program()
    assert carried_out(pod, wanted).loaded == {"a": A}
    engine.key = "second"
    pod.key_file.write_text("second\n")
    wanted = pod.write(b=B)
    assert carried_out(pod, wanted).loaded["b"] == B
    until(lambda: engine.unloads == ["a"])
    assert pod.get("/ready")[0] == 200


def test_an_engine_is_ready_once_its_list_is_loaded(pod: Pod) -> None:
    wanted = pod.write(a=A, b=B)
    pod.start_program()
    until(lambda: pod.get("/ready")[0] == 503)
    engine = pod.start_engine()
    until(lambda: pod.get("/ready")[0] == 200)
    assert engine.loads == [("a", A, False), ("b", B, False)]
    assert carried_out(pod, wanted).loaded == {"a": A, "b": B}


def test_a_broken_adapter_keeps_neither_the_engine_nor_another_adapter_back(pod: Pod) -> None:
    wanted = pod.write(a=A, broken=BROKEN)
    pod.start_program()
    pod.start_engine()
    until(lambda: pod.get("/ready")[0] == 200)
    report = carried_out(pod, wanted)
    assert report.loaded == {"a": A}
    assert report.failed["broken"].status == 500


def test_a_change_of_the_list_loads_replaces_and_unloads_while_the_engine_stays_ready(pod: Pod) -> None:
    pod.write(a=A)
    pod.start_program()
    engine = pod.start_engine()
    until(lambda: pod.get("/ready")[0] == 200)
    wanted = pod.write(a=B)
    assert carried_out(pod, wanted).loaded == {"a": B}
    assert engine.loads[-1] == ("a", B, True)
    carried_out(pod, pod.write())
    assert pod.get("/ready")[0] == 200
    until(lambda: engine.unloads == ["a"])


def test_an_adapter_in_use_is_unloaded_after_its_last_request(pod: Pod) -> None:
    pod.write(a=A)
    pod.start_program()
    engine = pod.start_engine()
    until(lambda: pod.get("/ready")[0] == 200)
    engine.in_use = "other,a"
    carried_out(pod, pod.write())
    time.sleep(1.5)  # three times as long as an unlisted adapter stays
    assert engine.unloads == []
    engine.in_use = "other,ab"
    until(lambda: engine.unloads == ["a"])


def test_an_adapter_that_somebody_else_loaded_is_unloaded(pod: Pod) -> None:
    pod.write(a=A)
    pod.start_program()
    engine = pod.start_engine()
    until(lambda: pod.get("/ready")[0] == 200)
    engine.loaded["foreign"] = "/tmp/foreign"  # noqa: S108 - a name
    until(lambda: engine.unloads == ["foreign"])
    assert engine.loaded == {"a": A}


def test_a_restarted_engine_gets_its_adapters_again_before_it_is_ready(pod: Pod) -> None:
    wanted = pod.write(a=A)
    pod.start_program()
    pod.start_engine()
    carried_out(pod, wanted)
    pod.stop_engine()
    until(lambda: pod.get("/ready")[0] == 503)
    engine = pod.start_engine()
    until(lambda: pod.get("/ready")[0] == 200)
    assert engine.loads == [("a", A, False)]


def test_a_restarted_program_loads_nothing_twice(pod: Pod) -> None:
    wanted = pod.write(a=A)
    pod.start_program()
    engine = pod.start_engine()
    carried_out(pod, wanted)
    assert pod.program
    pod.program.kill()
    pod.program.wait()
    pod.start_program()
    carried_out(pod, wanted)
    assert engine.loads == [("a", A, False)]


def test_readiness_is_the_health_of_the_engine(pod: Pod) -> None:
    pod.write()
    pod.start_program()
    engine = pod.start_engine()
    until(lambda: pod.get("/ready")[0] == 200)
    engine.healthy = 503
    assert pod.get("/ready")[0] == 503


@pytest.mark.parametrize("text", ["", "[", "[]", '{"a": 1'])
def test_a_list_that_cannot_be_read_keeps_the_former_one(pod: Pod, text: str) -> None:
    wanted = pod.write(a=A)
    pod.start_program()
    engine = pod.start_engine()
    carried_out(pod, wanted)
    pod.list.write_text(text)
    time.sleep(1)  # looks at the engine twice
    assert engine.loaded == {"a": A}
    assert carried_out(pod, wanted).loaded == {"a": A}


def test_no_list_is_no_adapters(pod: Pod) -> None:
    pod.waits = None
    pod.start_program()
    pod.start_engine()
    until(lambda: pod.get("/ready")[0] == 200)
    assert carried_out(pod, text_hash("{}")).loaded == {}


def test_the_leader_of_a_group_is_ready_once_its_list_is_loaded_and_the_group_serves(pod: Pod) -> None:
    wanted = pod.write(a=A)
    pod.member = Member(0)
    pod.start_program()
    pod.member.ready = 200
    until(lambda: pod.get("/ready")[0] == 503)
    pod.start_engine()
    until(lambda: pod.get("/ready")[0] == 200)
    assert carried_out(pod, wanted).loaded == {"a": A}
    pod.member.ready = 503
    assert pod.get("/ready")[0] == 503, "it drains"


def test_a_worker_of_a_group_loads_nothing_and_repeats_the_readiness_of_its_member(pod: Pod) -> None:
    pod.write(a=A)
    pod.member = Member(1)
    pod.start_program()
    until(lambda: pod.get("/ready")[0] == 503)
    pod.member.ready = 200
    until(lambda: pod.get("/ready")[0] == 200)
    pod.member.ready = 503
    assert pod.get("/ready")[0] == 503


def test_readers_that_leave_or_stay_keep_no_probe_out_and_leave_nothing_behind(
    pod: Pod, capfd: pytest.CaptureFixture[str]
) -> None:
    pod.start_engine()
    pod.write(a=A)
    pod.start_program()
    until(lambda: pod.get("/ready")[0] == 200)
    assert pod.program is not None
    pages = [f"GET {path} HTTP/1.1\r\nHost: pod\r\n\r\n".encode() for path in ("/ready", "/adapters")]
    capfd.readouterr()
    survives(
        pod.program.pid, pod.port, pages, lambda: pod.get("/ready")[0] == 200, share=MOST_READERS // SHARE, spare=2
    )
    assert capfd.readouterr() == ("", ""), "readers write nothing into the log"


def test_a_source_has_a_share_of_the_connections_that_are_left_free() -> None:
    stranger, other = ("10.0.0.1", 1), ("10.0.0.2", 1)
    with Server(("", 0), BaseHTTPRequestHandler) as server, ExitStack() as stack:
        while server.verify_request(None, stranger):
            server.sources[stack.enter_context(socket.socket())] = stranger[0]
        assert len(server.sources) == MOST_READERS // (1 + SHARE)
        assert server.verify_request(None, other)


def test_a_reader_that_sends_one_byte_after_the_other_is_ended(pod: Pod) -> None:
    pod.waits = WAITS._replace(reader=1.0)
    pod.start_program()
    until(lambda: pod.get("/adapters")[0] == 200)
    with socket.create_connection(("127.0.0.1", pod.port)) as reader:

        def is_ended() -> bool:
            try:
                reader.sendall(b"G")  # sooner than a time-out of one read
            except ConnectionError:
                return True
            return False

        until(is_ended)
