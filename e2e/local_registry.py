"""A real registry of images and charts on this machine, for tests that push to one."""

import json
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from e2e.cluster.binaries import ensure_registry
from e2e.waiting import eventually

_CONFIGURATION = """\
version: 0.1
log: {{level: error}}
storage: {{filesystem: {{rootdirectory: {folder}}}}}
http: {{addr: ":{port}"}}
"""
_MANIFESTS = (
    "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json,"
    " application/vnd.docker.distribution.manifest.v2+json"
)


@contextmanager
def local_registry(folder: Path) -> Iterator[str]:
    """Run a registry that keeps its content in a folder; yields `localhost:PORT`."""
    with closing(socket.create_server(("localhost", 0))) as probe:
        port: int = probe.getsockname()[1]
    configuration = folder / "registry.yaml"
    configuration.write_text(_CONFIGURATION.format(folder=folder / "content", port=port))
    with subprocess.Popen([ensure_registry(), "serve", configuration]) as process:
        try:
            eventually(lambda: _answers(port), seconds=30, what="the registry answers")
            yield f"localhost:{port}"
        finally:
            process.terminate()


def manifest(registry: str, repository: str, reference: str) -> dict[str, Any]:
    """A manifest or an index by its tag or digest."""
    found: dict[str, Any] = json.loads(_get(f"http://{registry}/v2/{repository}/manifests/{reference}"))
    return found


def configuration(registry: str, repository: str, reference: str) -> dict[str, Any]:
    """The configuration of an image."""
    digest = manifest(registry, repository, reference)["config"]["digest"]
    found: dict[str, Any] = json.loads(_get(f"http://{registry}/v2/{repository}/blobs/{digest}"))
    return found


def put_manifest(registry: str, repository: str, tag: str, content: dict[str, Any]) -> str:
    """Store a manifest or an index; returns its digest."""
    request = urllib.request.Request(
        f"http://{registry}/v2/{repository}/manifests/{tag}",
        data=json.dumps(content).encode(),
        headers={"Content-Type": content["mediaType"]},
        method="PUT",
    )
    with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - a registry of this test
        digest: str = answer.headers["Docker-Content-Digest"]
        return digest


def _get(url: str) -> bytes:
    request = urllib.request.Request(url, headers={"Accept": _MANIFESTS})  # noqa: S310 - a registry of this test
    with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - as above
        content: bytes = answer.read()
        return content


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("localhost", port), timeout=1).close()
    except OSError:
        return False
    return True
