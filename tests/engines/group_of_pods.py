"""Pods of an engine over several nodes, as processes of this machine, and an engine that does what it is told."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from e2e.helpers.free_ports import free_port
from e2e.localkube.waiting import eventually
from inference_operator.engines.group.launch import GROUP_PROGRAMS, GroupedEngine, group_command, group_drain
from inference_operator.engines.group.options import Waits
from inference_operator.engines.group.processes import descendants
from inference_operator.engines.process import Timeouts
from inference_operator.engines.programs import PROGRAMS_VARIABLE, programs_text
from tests.testing.program_waits import calling

WAIT_SECONDS = 30
"""Of one condition, on a machine that does much else."""
SILENCE_SECONDS = 3
WAITS, HOOK_PERIOD_SECONDS = Waits(retry=0.1, look=0.1, repeat=0.5, lease=2.0, margin=0.5, linger=0.5), 0.1
"""Of members and hooks, unless a test wants those of a cluster."""
GONE = 0
"""Status of a port that does not answer."""
SERVICE = "qwen-engine.default.svc"

ENGINE = """
import json, os, signal, subprocess, sys, threading, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

folder, port, running = Path(sys.argv[1]), int(sys.argv[2]), []

def stop(*_):
    (folder / "stopping").touch()
    while running:
        time.sleep(0.02)
    os._exit(0)

class Answer(BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/slow":
            running.append(1)
            while not (folder / "release").exists():
                time.sleep(0.02)
            self.reply(200, "whole")
            running.pop()
        elif self.path == "/metrics":
            self.reply(200, f'requests{{engine="0"}} {len(running)}.0\\n')
        else:
            self.reply(503 if (folder / "sick").exists() else 200, "")

    def reply(self, status, text):
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_):
        pass

loads = (folder / "loads").exists()
signal.signal(signal.SIGTERM, signal.SIG_IGN if loads else stop)
orphan = "setsid sleep 600 >/dev/null 2>&1 & echo $!"
child = subprocess.run(["sh", "-c", orphan], capture_output=True, text=True)
told = {"args": sys.argv[3:], "address": os.environ.get("ADDRESS"), "pid": os.getpid(), "orphan": int(child.stdout)}
(folder / "new").write_text(json.dumps(told))
(folder / "new").rename(folder / "started")
if "--headless" not in sys.argv and not loads:
    threading.Thread(target=ThreadingHTTPServer(("127.0.0.1", port), Answer).serve_forever, daemon=True).start()
parent = os.getppid()
while os.getppid() == parent:
    if (folder / "exit").exists():
        os._exit(int((folder / "exit").read_text()))
    time.sleep(0.02)
os._exit(9)
"""


@dataclass
class Pod:
    """A pod: a folder, a health port of its own, and a container that can be started again."""

    folder: Path
    rank: int
    options: dict[str, str]
    command: Sequence[str] = ()
    service: str = SERVICE
    waits: Waits | None = WAITS
    """None: the defaults, with the very command of a pod."""
    health: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def name(self) -> str:
        return f"qwen-engine-0-{self.rank}"

    @property
    def running(self) -> subprocess.Popen[bytes]:
        assert self.process is not None
        return self.process

    def start(self) -> None:
        """Start the container, as the kubelet does."""
        for name in ("message", "started", "exit", "log", "stopping"):
            (self.folder / name).unlink(missing_ok=True)
        (self.folder / "message").touch()
        names = {"GROUP_RANK": str(self.rank), "POD_NAME": self.name, "POD_IP": "127.0.0.1"}
        env = {**os.environ, **names, "GROUP_SERVICE": self.service, PROGRAMS_VARIABLE: programs_text(GROUP_PROGRAMS)}
        with (self.folder / "log").open("wb") as log:
            self.process = subprocess.Popen(self.words(), env=env, stderr=log)

    def words(self) -> list[str]:
        engine = GroupedEngine(
            0,
            "/health",
            metrics=("requests",),
            stop_seconds=30,
            leader_args=("--rank={rank}", "--size={size}", "--leader={leader}"),
            worker_args=("--rank={rank}", "--headless"),
            address_variable="ADDRESS",
        )
        given = {**self.options, "health": str(self.health), "host": "127.0.0.1"}
        given["message"] = str(self.folder / "message")
        made = group_command(self.command or self.engine(), engine, int(self.options["size"]), TIMEOUTS)
        end = made.index("--")
        kept = [word for word in made[5:end] if word.partition("=")[0] not in given]
        added = [f"{key}={value}" for key, value in given.items()]
        program = calling(made[1:5], f"main({self.waits!r})") if self.waits else made[1:5]
        return [sys.executable, *program, *kept, *added, *made[end:]]

    def engine(self) -> tuple[str, ...]:
        script = self.folder / "engine.py"
        script.write_text(ENGINE)
        return (sys.executable, str(script), str(self.folder), self.options["port"])

    def get(self, path: str, method: str = "GET", port: int = 0) -> tuple[int, str]:
        """Status and text of an answer; `GONE` if nothing listens."""
        connection = http.client.HTTPConnection("127.0.0.1", port or self.health, timeout=WAIT_SECONDS)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except OSError:
            return GONE, ""
        finally:
            connection.close()

    def status(self, path: str) -> int:
        return self.get(path)[0]

    def state(self) -> dict[str, object]:
        status, text = self.get("/state")
        return dict(json.loads(text)) if status else {}

    def started(self) -> dict[str, object]:
        """What the engine was started with; empty if it was not."""
        with suppress(FileNotFoundError):
            return dict(json.loads((self.folder / "started").read_text()))
        return {}

    def tell(self, name: str, text: str = "") -> None:
        """Tell the engine something, by a file."""
        (self.folder / "told").write_text(text)
        (self.folder / "told").rename(self.folder / name)

    def drains(self) -> subprocess.Popen[bytes]:
        """The hook before the stop, as the kubelet runs it."""
        _, *rest, _, seconds = group_drain(TIMEOUTS)
        rest = calling(rest, f"main({HOOK_PERIOD_SECONDS})") if self.waits else rest
        env = {**os.environ, PROGRAMS_VARIABLE: programs_text(GROUP_PROGRAMS)}
        return subprocess.Popen([sys.executable, *rest, str(self.health), seconds], env=env)

    def ended(self) -> int:
        """The exit status, once the container has ended."""
        return self.running.wait(WAIT_SECONDS)

    def message(self) -> str:
        return (self.folder / "message").read_text()

    def log(self) -> str:
        return (self.folder / "log").read_text()

    def kill(self) -> None:
        """End the container as the kernel does: its first process, and all others with it."""
        self.running.send_signal(signal.SIGSTOP)  # it starts nothing any more
        alive = descendants(self.running.pid)
        self.running.kill()
        for pid in alive:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.ended()

    def close(self) -> None:
        if self.process and self.process.poll() is None:
            self.kill()


TIMEOUTS = Timeouts(startup=600, dns_staleness=0, drain=600)


class Group:
    """The pods of one engine."""

    def __init__(self, folder: Path, size: int, waits: Waits | None = WAITS, **options: str) -> None:
        ports = {"control": str(free_port()), "port": str(free_port())}
        given = {"size": str(size), "staleness": "0", "silence": str(SILENCE_SECONDS), **ports, **options}
        self.pods = [Pod(folder / str(rank), rank, given, waits=waits) for rank in range(size)]
        for pod in self.pods:
            pod.folder.mkdir()

    @property
    def leader(self) -> Pod:
        return self.pods[0]

    @property
    def control(self) -> int:
        return int(self.leader.options["control"])

    def start(self) -> None:
        for pod in self.pods:
            pod.start()

    def serve(self) -> None:
        """Start all, and wait until they serve."""
        self.start()
        self.until_ready()

    def until_ready(self) -> None:
        # A member is ready before the engine of a worker has written what it was started with.
        ready = lambda: all(pod.status("/ready") == 200 and pod.started() for pod in self.pods)  # noqa: E731
        eventually(ready, seconds=WAIT_SECONDS, what=lambda: f"all serve:\n{self.logs()}")

    def logs(self) -> str:
        return "\n".join(f"{pod.name}:\n{pod.log()}" for pod in self.pods if pod.process)

    def connect(self, source: str = "127.0.0.1") -> socket.socket:
        """A connection of a stranger to the control port. The members have the same address by default."""
        return socket.create_connection(("127.0.0.1", self.control), WAIT_SECONDS, (source, 0))

    def close(self) -> None:
        for pod in self.pods:
            pod.close()
