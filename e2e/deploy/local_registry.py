"""A real registry of images and charts on this machine, for tests that push to one."""

import hashlib
import json
import socket
import subprocess
import tarfile
import tempfile
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from e2e.go_modules import ensure_registry
from e2e.localkube.oci import write_oci_archive
from e2e.localkube.waiting import eventually

_CONFIGURATION = """\
version: 0.1
log: {{level: error}}
storage: {{filesystem: {{rootdirectory: {folder}}}}}
http: {{addr: ":{port}"}}
{more}"""
_MANIFESTS = (
    "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json,"
    " application/vnd.docker.distribution.manifest.v2+json"
)


@contextmanager
def local_registry(folder: Path, *, more: str = "") -> Iterator[str]:
    """Run a registry that keeps its content in a folder; yields `localhost:PORT`. `more` ends its configuration."""
    with closing(socket.create_server(("localhost", 0))) as probe:
        port: int = probe.getsockname()[1]
    configuration = folder / "registry.yaml"
    configuration.write_text(_CONFIGURATION.format(folder=folder / "content", port=port, more=more))
    with subprocess.Popen([ensure_registry(), "serve", configuration], stdout=subprocess.DEVNULL) as process:
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


def put_image(registry: str, repository: str, tag: str, root: Path, command: Sequence[str] = ()) -> str:
    """Store the files below `root` as an image, with an entry point if there is a command; returns its digest."""
    with tempfile.TemporaryFile() as archive:
        write_oci_archive(archive, name=f"{registry}/{repository}:{tag}", root=root, command=command)
        archive.seek(0)
        with tarfile.open(fileobj=archive) as tar:
            names = [member.name for member in tar if member.name.startswith("blobs/")]
            digest = json.loads(_content(tar, "index.json"))["manifests"][0]["digest"]
            described = json.loads(_content(tar, f"blobs/{digest.replace(':', '/')}"))
            for name in names:
                _put_blob(registry, repository, _content(tar, name))
            return put_manifest(registry, repository, tag, described)


def _content(tar: tarfile.TarFile, name: str) -> bytes:
    file = tar.extractfile(name)
    return file.read() if file else b""


def _put_blob(registry: str, repository: str, content: bytes) -> None:
    """Store a blob (OCI distribution specification 1.1, "Pushing a blob in two requests")."""
    begin = urllib.request.Request(f"http://{registry}/v2/{repository}/blobs/uploads/", data=b"", method="POST")
    with urllib.request.urlopen(begin, timeout=10) as answer:  # noqa: S310 - a registry of this test
        place = answer.headers["Location"]
    digest = f"digest=sha256:{hashlib.sha256(content).hexdigest()}"
    url = f"{place}{'&' if '?' in place else '?'}{digest}"
    headers = {"Content-Type": "application/octet-stream"}
    end = urllib.request.Request(url, data=content, headers=headers, method="PUT")  # noqa: S310 - as above
    urllib.request.urlopen(end, timeout=60).close()  # noqa: S310 - as above


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
