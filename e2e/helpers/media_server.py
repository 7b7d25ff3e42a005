"""A server of images that notes who was asked: names of the cluster's DNS lead to it."""

import base64
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

from e2e.deploy import stack
from e2e.localkube.handle import LocalCluster
from inference_operator.engines.vllm.request_limits import NO_HOST

IMAGE, REDIRECT = "/image.png", "/redirect"
_POLL_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class MediaServer:
    """A running server."""

    address: str
    port: int
    asked: list[str] = field(default_factory=list)
    """Host and path of each request."""

    def url(self, host: str, path: str = IMAGE) -> str:
        """A URL with one of its names."""
        return f"http://{host}:{self.port}{path}"

    @property
    def by_address(self) -> str:
        """The URL of its image without a name."""
        return f"http://{stack.authority(self.address, self.port)}{IMAGE}"


def tricks(server: MediaServer, allowed: str, other: str) -> list[str]:
    """URLs of the server that look like another host, or that a list of names does not have."""
    mapped = f"[::ffff:{server.address}]"
    return [
        server.by_address,
        server.by_address.replace("http:", "HTTP:"),
        server.url(other),
        server.url(f"{other}."),
        server.url(f"{allowed}@{other}"),
        server.url(f"{allowed}:80@{other}"),
        server.url(f"{NO_HOST}@{other}"),
        server.url(f"{allowed}%00.{other}"),
        f"http://{other}:{server.port}\\@{allowed}{IMAGE}",
        f"http://{other}:{server.port}#@{allowed}{IMAGE}",
        server.url(mapped),
        f"http://{NO_HOST}{IMAGE}",
    ]


def redirecting(server: MediaServer, host: str, target: str) -> str:
    """A URL of a host that redirects to the image of another one."""
    return server.url(host, f"{REDIRECT}?to={quote(server.url(target), safe='')}")


@contextmanager
def media_server(address: str, data_url: str) -> Iterator[MediaServer]:
    """A server with the image of a data URL, and with redirects to the URL in the query `to`."""
    image, asked = base64.b64decode(data_url.partition(",")[2]), list[str]()
    with ThreadingHTTPServer((address, 0), partial(_Handler, image, asked)) as server:
        thread = threading.Thread(target=server.serve_forever, args=(_POLL_SECONDS,))
        thread.start()
        try:
            yield MediaServer(address, server.server_address[1], asked)
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def named(cluster: LocalCluster, server: MediaServer, *names: str) -> Iterator[list[str]]:
    """Headless Services of the server; yields their names in the cluster's DNS."""
    objects = [one for name in names for one in _service(name, server)]
    listed = {"apiVersion": "v1", "kind": "List", "items": objects}
    text = json.dumps(listed)
    cluster.kubectl("--namespace=default", "apply", "--filename=-", input=text)
    try:
        yield [f"{name}.default.svc.cluster.local" for name in names]
    finally:
        cluster.kubectl("--namespace=default", "delete", "--filename=-", input=text)


def _service(name: str, server: MediaServer) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """A Service without a selector, and its only endpoint."""
    ports = [{"name": "http", "port": server.port}]
    service = {"clusterIP": "None", "ports": ports, "ipFamilyPolicy": "SingleStack"}
    return (
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": service},
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": name, "labels": {"kubernetes.io/service-name": name}},
            "addressType": f"IPv{ip_address(server.address).version}",
            "ports": ports,
            "endpoints": [{"addresses": [server.address]}],
        },
    )


class _Handler(BaseHTTPRequestHandler):
    """Answers with the image, or with a redirect."""

    def __init__(self, image: bytes, asked: list[str], *given: Any) -> None:  # noqa: ANN401 - the server's
        self._image = image
        self._asked = asked
        super().__init__(*given)

    def do_GET(self) -> None:
        """Note the request, then answer."""
        self._asked.append(f"{self.headers['Host'].rpartition(':')[0]}{self.path}")
        url = urlsplit(self.path)
        if url.path == REDIRECT:
            self.send_response(HTTPStatus.FOUND)
            self.send_header("Location", parse_qs(url.query)["to"][0])
            body = b""
        else:
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", "image/png")
            body = self._image
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002, ANN401 - the signature of the base
        """Say nothing."""
