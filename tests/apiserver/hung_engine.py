"""Simulated engines for pods of KWOK nodes: one whose core hangs, so its metrics do not change and requests get no
response, and one that has nothing to do."""

import json
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from e2e.localkube.waiting import eventually
from inference_operator.engines.vllm.vllm import PORT
from inference_operator.views.pod import TRAFFIC_LABEL
from tests.testing.workspace import Workspace

METRICS = (Path(__file__).parents[1] / "engines" / "vllm-0.32.0-metrics.txt").read_bytes()
IDLE = METRICS.replace(
    b'vllm:num_requests_running{engine="0",model_name="tiny"} 2.0',
    b'vllm:num_requests_running{engine="0",model_name="tiny"} 0.0',
).replace(
    b'vllm:num_requests_waiting{engine="0",model_name="tiny"} 8.0',
    b'vllm:num_requests_waiting{engine="0",model_name="tiny"} 0.0',
)
OUT_SECONDS = 30
"""Limit until an engine is out of traffic, or back in; the first scrape of its metrics comes within 8 s."""


class _Engine(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: str, metrics: bytes) -> None:
        super().__init__((address, PORT), _Handler)
        self.metrics = metrics
        self.responds = threading.Event()


class _Handler(BaseHTTPRequestHandler):
    server: _Engine

    def do_GET(self) -> None:
        self._respond(self.server.metrics)

    def do_POST(self) -> None:
        self.server.responds.wait()
        self._respond(b"{}")

    def _respond(self, body: bytes) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def _engine(workspace: Workspace, pod: str, metrics: bytes) -> Iterator[threading.Event]:
    """Give a pod the address of a simulated engine, which responds to requests once the event is set.

    The address is one of loopback, by chance: several test runs share a machine.
    """
    address = f"127.{random.randint(64, 250)}.{random.randint(0, 250)}.{random.randint(2, 250)}"  # noqa: S311
    with _Engine(address, metrics) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            patch = json.dumps({"status": {"podIP": address, "podIPs": [{"ip": address}]}})
            workspace.kubectl("patch", "pod", pod, "--subresource=status", "--type=merge", f"--patch={patch}")
            yield server.responds
        finally:
            server.responds.set()
            server.shutdown()
            thread.join()


@contextmanager
def idle_engine(workspace: Workspace, pod: str) -> Iterator[None]:
    """Give a pod the address of a simulated engine that has nothing to do."""
    with _engine(workspace, pod, IDLE) as responds:
        responds.set()
        yield


def let_an_engine_stand_still(workspace: Workspace, name: str, *, within: float) -> None:
    """Let an engine hang, and wait until it is replaced."""
    pod = next(iter(traffic(workspace, name)))
    with _engine(workspace, pod, METRICS):
        eventually(
            lambda: pod not in traffic(workspace, name),
            seconds=within,
            what=lambda: f"{pod} is replaced: {workspace.get('infd', name)['status']}",
        )


def let_an_engine_stand_still_for_a_while(workspace: Workspace, name: str) -> str:
    """Let one of two engines hang until it is out of traffic, and wait until it is back; returns its pod."""
    eventually(lambda: len(traffic(workspace, name)) == 2, seconds=20, what="two engines")
    pod, other = traffic(workspace, name)
    with _engine(workspace, other, IDLE) as responds, _engine(workspace, pod, METRICS) as moves:
        responds.set()
        _await_traffic(workspace, name, {pod: "false", other: "true"})
        told = workspace.settled(name, "EnginesAvailable", "False", "EngineNotProgressing")["message"]
        assert f"Pod `{pod}` makes no progress and gets no new requests." in told
        moves.set()
        _await_traffic(workspace, name, {pod: "true", other: "true"})
        workspace.settled(name, "EnginesAvailable", "True", "Serving")
    return pod


def _await_traffic(workspace: Workspace, name: str, expected: dict[str, str]) -> None:
    eventually(
        lambda: traffic(workspace, name) == expected,
        seconds=OUT_SECONDS,
        what=lambda: f"{expected}: {traffic(workspace, name)}, {workspace.get('infd', name)['status']}",
    )


def traffic(workspace: Workspace, name: str) -> dict[str, str]:
    """Values of the engines' traffic labels, by pod."""
    selector = f"inference-operator.dev/name={name},app.kubernetes.io/component=engine"
    pods = (pod["metadata"] for pod in workspace.all("pods", selector))
    return {meta["name"]: meta["labels"][TRAFFIC_LABEL] for meta in pods}
