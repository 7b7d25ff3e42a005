"""An adapter for `external.metrics.k8s.io` on this machine, as the API server of a test finds it."""

import base64
import json
import socket
import ssl
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from e2e.localkube.certificates import Authority, Identity
from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually

API = "external.metrics.k8s.io/v1beta1"
NAMESPACE, SERVICE = "metrics-adapter", "adapter"
API_SERVICE = "v1beta1.external.metrics.k8s.io"
AVAILABLE_SECONDS = 120
_ELSEWHERE = ("198.51.100.1", 9)
"""An address for documentation (RFC 5737): no packet is sent to it."""

Value = Callable[[str, str], float | None]
"""From the name of a metric and the selector of its labels to its value."""


def own_address() -> str:
    """An address of this machine that is not of loopback: an EndpointSlice may not have one of those."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(_ELSEWHERE)
        found: str = probe.getsockname()[0]
    return found


def certificates(folder: Path) -> Path:
    """A folder with `ca.crt`, `tls.crt` and `tls.key` for a server on this machine, and for its clients."""
    hosts = ("localhost", "127.0.0.1", f"{SERVICE}.{NAMESPACE}.svc")
    Authority(folder).issue(Identity("tls", "adapter", hosts=hosts))
    return folder


@contextmanager
def registered(cluster: LocalCluster, port: int, authority: Path) -> Iterator[None]:
    """Register the adapter at this port of this machine until the block ends."""
    cluster.kubectl("create", "namespace", NAMESPACE)
    objects = [_service(port), _slice(port), _api_service(authority)]
    cluster.kubectl("apply", "--filename=-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    try:
        eventually(
            lambda: _condition(cluster).get("status") == "True",
            seconds=AVAILABLE_SECONDS,
            what=lambda: f"the API server reaches the adapter: {_condition(cluster)}",
        )
        yield
    finally:
        cluster.kubectl("delete", "apiservice", API_SERVICE)
        cluster.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


def _condition(cluster: LocalCluster) -> dict[str, Any]:
    status = json.loads(cluster.kubectl("get", "apiservice", API_SERVICE, "--output=json")).get("status", {})
    return next((one for one in status.get("conditions", []) if one["type"] == "Available"), {})


def _service(port: int) -> dict[str, Any]:
    ports = [{"name": "https", "port": 443, "targetPort": port}]
    return {"apiVersion": "v1", "kind": "Service", "metadata": _metadata(), "spec": {"ports": ports}}


def _slice(port: int) -> dict[str, Any]:
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {**_metadata(), "labels": {"kubernetes.io/service-name": SERVICE}},
        "addressType": "IPv4",
        "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
        "endpoints": [{"addresses": [own_address()], "conditions": {"ready": True}}],
    }


def _api_service(authority: Path) -> dict[str, Any]:
    group, _, version = API.partition("/")
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": API_SERVICE},
        "spec": {
            "service": {"namespace": NAMESPACE, "name": SERVICE, "port": 443},
            "group": group,
            "version": version,
            "caBundle": base64.b64encode(authority.read_bytes()).decode(),
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
        },
    }


def _metadata() -> dict[str, Any]:
    return {"namespace": NAMESPACE, "name": SERVICE}


class _Adapter(ThreadingHTTPServer):
    daemon_threads = True
    value: Value


class _Handler(BaseHTTPRequestHandler):
    """Lists no metric by name, as KEDA's adapter does, and answers for each one."""

    server: _Adapter
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path, _, options = self.path.partition("?")
        head, _, name = path.rpartition("/")
        if not head.startswith(f"/apis/{API}/namespaces/"):
            self._answer(200, {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": API, "resources": []})
            return
        selector = urllib.parse.parse_qs(options).get("labelSelector", [""])[0]
        found = self.server.value(name, selector)
        if found is None:
            self._answer(404, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound"})
            return
        at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        item = {"metricName": name, "metricLabels": {}, "timestamp": at, "value": f"{round(1000 * found)}m"}
        self._answer(200, {"kind": "ExternalMetricValueList", "apiVersion": API, "metadata": {}, "items": [item]})

    def _answer(self, status: int, content: dict[str, Any]) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def adapter(cluster: LocalCluster, folder: Path, value: Value) -> Iterator[None]:
    """Serve external metrics with these values until the block ends, and tell the API server of it."""
    files = certificates(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files / "tls.crt", files / "tls.key")
    server = _Adapter((own_address(), 0), _Handler)
    server.value = value
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        with registered(cluster, server.server_address[1], files / "ca.crt"):
            yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
