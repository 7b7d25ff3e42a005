"""A simulated engine whose core hangs: its metrics do not change, and its requests get no response."""

import json
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from e2e.waiting import eventually
from inference_operator.engines.vllm.vllm import PORT
from tests.testing.workspace import Workspace

METRICS = (Path(__file__).parents[1] / "engines" / "vllm-0.32.0-metrics.txt").read_bytes()


class _Handler(BaseHTTPRequestHandler):
    ended = threading.Event()

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(METRICS)

    def do_POST(self) -> None:
        self.ended.wait()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def hung_engine() -> Iterator[str]:
    """Its address, which is one of loopback, by chance: several test runs share a machine."""
    address = f"127.{random.randint(64, 250)}.{random.randint(0, 250)}.{random.randint(2, 250)}"  # noqa: S311
    with ThreadingHTTPServer((address, PORT), _Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield address
        finally:
            _Handler.ended.set()
            server.shutdown()
            thread.join()


def let_an_engine_stand_still(workspace: Workspace, name: str, *, within: float) -> None:
    """Give an engine's pod the address of one that hangs, and wait until it is replaced."""
    selector = f"inference-operator.dev/name={name},app.kubernetes.io/component=engine"

    def names() -> list[str]:
        return [str(one["metadata"]["name"]) for one in workspace.all("pods", selector)]

    pod = names()[0]
    with hung_engine() as address:
        patch = json.dumps({"status": {"podIP": address, "podIPs": [{"ip": address}]}})
        workspace.kubectl("patch", "pod", pod, "--subresource=status", "--type=merge", f"--patch={patch}")
        eventually(
            lambda: pod not in names(),
            seconds=within,
            what=lambda: f"{pod} is replaced: {workspace.get('infd', name)['status']}",
        )
