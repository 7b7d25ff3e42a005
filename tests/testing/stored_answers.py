"""An API server of stored answers on the loopback, with a kubeconfig: enough for the commands that read."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar
from urllib.parse import parse_qs

from inference_operator.manifest import Manifest

SHUTDOWN_SECONDS = 0.02
"""How long the end of a server may take, at each of hundreds of tests."""


class ApiServer(BaseHTTPRequestHandler):
    """Answers GET requests with what is stored for their path, and PATCH requests with 403, unless it is changeable."""

    answers: ClassVar[dict[str, bytes]] = {}
    forbidden: ClassVar[set[str]] = set()
    changeable: ClassVar[set[str]] = set()
    asked: ClassVar[list[str]] = []
    """The paths of GET requests."""

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        self.asked.append(path)
        content, code = self.answers.get(path), 403 if path in self.forbidden else 404
        if lines := parse_qs(query).get("tailLines"):
            content = content and b"".join(content.splitlines(keepends=True)[-int(lines[0]) :])
        self.send_response(200 if content else code)
        self.end_headers()
        refused = json.dumps({"kind": "Status", "code": code, "message": "may not be read"}).encode()
        self.wfile.write(content or refused)

    def do_PATCH(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path.partition("?")[0] in self.changeable:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)
            return
        self.send_response(403)
        self.end_headers()
        self.wfile.write(json.dumps({"kind": "Status", "code": 403, "message": "may not be patched"}).encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """Say nothing of clients that go away."""


@contextmanager
def stored_answers(kubeconfig: Path) -> Iterator[dict[str, bytes]]:
    """The answers of an API server by path, which the kubeconfig that is written names."""
    ApiServer.answers, ApiServer.forbidden, ApiServer.changeable, ApiServer.asked = {}, set(), set(), []
    with serving(ApiServer, kubeconfig):
        yield ApiServer.answers


@contextmanager
def serving(server: type[BaseHTTPRequestHandler], kubeconfig: Path) -> Iterator[None]:
    """An API server, which the kubeconfig that is written names."""
    with _Server(("127.0.0.1", 0), server) as http:
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": SHUTDOWN_SECONDS})
        thread.start()
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "a",
            "clusters": [{"name": "a", "cluster": {"server": f"http://127.0.0.1:{http.server_port}"}}],
            "users": [{"name": "a", "user": {"token": "x"}}],
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        }
        kubeconfig.write_text(json.dumps(config))
        try:
            yield
        finally:
            http.shutdown()
            thread.join()


def listing(*items: Manifest) -> bytes:
    """A page with these objects, as the API server lists them."""
    return json.dumps({"metadata": {"resourceVersion": "1"}, "items": items}).encode()
