"""The demand for one InferenceDeployment on a real API server: series as its pods write them, and a real Prometheus."""

import json
import subprocess
import threading
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from e2e.go_modules import PROMETHEUS, ensure_prometheus
from e2e.helpers.free_ports import free_port
from e2e.localkube.waiting import eventually
from e2e.router.prometheus import Target, configured, static_jobs
from inference_operator.autoscaling.query import HELD, QUEUED, RUNNING
from inference_operator.engines.vllm.metrics import SERIES
from tests.testing.operator_process import answers
from tests.testing.workspace import Workspace

READY_SECONDS = 120
SCRAPE_SECONDS = 5.0
"""Time for a page on a busy machine; the page asks the API server for the pods."""
SELECTOR = "inference-operator.dev/name=qwen,app.kubernetes.io/component="


class Demand(ThreadingHTTPServer):
    """A page with the series of the pods of `qwen`: so many requests, of which each ready engine runs its part."""

    daemon_threads = True

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self._workspace = workspace
        self.outstanding = 0
        """Requests that are running, queued or held."""

    def page(self) -> str:
        """The series as HAProxy's exporter and vLLM write them, with the labels that a PodMonitor adds."""
        engines = [one for one in self._pods("engine") if _is_ready(one)]
        part = self.outstanding / max(len(engines), 1)
        lines = [
            f"{name}{{{_labels(one)}}} {self.outstanding if first and name == HELD else 0}"
            for first, one in zip((True, *[False] * 99), self._pods("router"), strict=False)
            for name in (QUEUED, HELD, RUNNING)
        ]
        values = {SERIES.running: part, SERIES.waiting: 0, SERIES.finished: 0}
        lines += [f"{name}{{{_labels(one)}}} {value}" for one in engines for name, value in values.items()]
        return "\n".join([*lines, ""])

    def _pods(self, component: str) -> list[dict[str, Any]]:
        return self._workspace.all("pods", f"{SELECTOR}{component}")


class _Handler(BaseHTTPRequestHandler):
    server: Demand

    def do_GET(self) -> None:
        page = self.server.page().encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def _labels(pod: dict[str, Any]) -> str:
    metadata = pod["metadata"]
    return f'namespace="{metadata["namespace"]}",pod="{metadata["name"]}"'


def _is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod.get("status", {}).get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


@contextmanager
def demand(workspace: Workspace) -> Iterator[Demand]:
    """Serve the page until the block ends."""
    page = Demand(workspace)
    thread = threading.Thread(target=page.serve_forever)
    thread.start()
    try:
        yield page
    finally:
        page.shutdown()
        page.server_close()
        thread.join()


@contextmanager
def prometheus(page: Demand, folder: Path, port: int | None = None) -> Iterator[str]:
    """Run a real Prometheus that scrapes the page, until the block ends; yields its address."""
    url = f"127.0.0.1:{port or free_port()}"
    target = Target(f"127.0.0.1:{page.server_address[1]}", {})
    (folder / "prometheus.json").write_text(json.dumps(configured(static_jobs([target]), SCRAPE_SECONDS)))
    command = [
        str(ensure_prometheus() / PROMETHEUS),
        f"--config.file={folder / 'prometheus.json'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={url}",
    ]
    log = folder / "prometheus.log"
    with log.open("w") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            eventually(
                lambda: answers(f"http://{url}/-/ready"),
                seconds=READY_SECONDS,
                what=lambda: f"Prometheus is ready; its log:\n{log.read_text()[-3000:]}",
            )
            yield f"http://{url}"
        finally:
            process.terminate()


def value(prometheus_url: str, query: str) -> float | None:
    """The value of a query; None if it has none."""
    url = f"{prometheus_url}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
    with urllib.request.urlopen(url, timeout=READY_SECONDS) as answer:  # noqa: S310 - a test's own
        found = json.load(answer)["data"]["result"]
    return float(found[0]["value"][1]) if found else None
