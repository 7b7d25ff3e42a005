"""A registry and a hub on this machine that delay large files until a test releases them.

The registry follows the OCI distribution specification 1.1, the hub the requests of huggingface_hub 2.4. Both have only
what a node and an engine request.
"""

import hashlib
import io
import json
import shutil
import tarfile
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import MappingProxyType
from uuid import uuid4

from e2e.localkube.oci import write_oci_archive

COMMIT = "0123456789abcdef0123456789abcdef01234567"
MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
LARGE_BYTES = 2**18
"""Content of this size and more is delayed: only the image's layer and the model's weights are so large."""
DRIP_BYTES, DRIP_SECONDS = 512, 0.5
"""Bytes sent meanwhile, and how often, so that no client takes the connection for dead."""


class Sources:
    """The HTTP server of both, and the events that release the delayed content.

    Args:
        address: IP address to listen on; the node connects to it.
        repository: the model's repository on the hub.
        folder: the model's files, on the hub and in the registry's only image.
    """

    def __init__(self, address: str, repository: str, folder: Path) -> None:
        self.held = {"registry": threading.Event(), "hub": threading.Event()}
        """Release events of `registry` and `hub`; set to send the delayed content."""
        self.repository = repository
        self.files = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
        self.blobs, self.manifest = _image(folder)
        self.sent_bytes: Counter[str] = Counter()
        """Bytes of files and layers sent so far, by the address of the client."""
        self._server = ThreadingHTTPServer((address, 0), type("Handler", (_Request,), {"sources": self}))
        self.authority = f"{address}:{self._server.server_address[1]}"
        """`address:port`, of both."""

    @contextmanager
    def serving(self) -> Iterator["Sources"]:
        """Serve during the block."""
        thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield self
        finally:
            self.let_go()
            self._server.shutdown()
            thread.join()
            self._server.server_close()

    def let_go(self) -> None:
        """Release all delayed content."""
        for event in self.held.values():
            event.set()

    def listing(self) -> bytes:
        """The hub's answer about the repository."""
        names = [{"rfilename": name, "size": len(content)} for name, content in self.files.items()]
        return json.dumps({"id": self.repository, "sha": COMMIT, "siblings": names}).encode()

    def tree(self) -> bytes:
        """The hub's list of files."""
        files = self.files.items()
        return json.dumps(
            [{"type": "file", "oid": _digest(c)[-40:], "size": len(c), "path": name} for name, c in files]
        ).encode()


class _Request(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"
    sources: Sources

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        *_, kind, reference = path.rsplit("/", 2)
        sources, of_hub = self.sources, f"/api/models/{self.sources.repository}"
        if path == "/v2/":
            self._give(b"{}")
        elif path.startswith("/v2/") and kind == "manifests":
            digest = _digest(sources.manifest)
            self._give(sources.manifest, {"Content-Type": MANIFEST_TYPE, "Docker-Content-Digest": digest})
        elif path.startswith("/v2/") and reference in sources.blobs:
            self._give(sources.blobs[reference], held="registry")
        elif path.startswith(f"{of_hub}/tree/"):
            self._give(sources.tree(), {"Content-Type": "application/json"})
        elif path == of_hub or path.startswith(f"{of_hub}/revision/"):
            self._give(sources.listing(), {"Content-Type": "application/json"})
        elif path.startswith(f"/{sources.repository}/resolve/") and reference in sources.files:
            content = sources.files[reference]
            self._give(content, {"X-Repo-Commit": COMMIT, "ETag": f'"{_digest(content)[-40:]}"'}, held="hub")
        else:
            self._give(b"", {"X-Error-Code": "EntryNotFound"}, status=HTTPStatus.NOT_FOUND)

    def _give(
        self,
        content: bytes,
        headers: Mapping[str, str] = MappingProxyType({}),
        *,
        status: HTTPStatus = HTTPStatus.OK,
        held: str = "",
    ) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        sent = 0
        while held and len(content) >= LARGE_BYTES and not self.sources.held[held].wait(DRIP_SECONDS):
            self.wfile.write(content[sent : sent + DRIP_BYTES])
            sent += DRIP_BYTES
        self.wfile.write(content[sent:])
        if held:
            self.sources.sent_bytes[self.client_address[0]] += len(content)


def _image(folder: Path) -> tuple[Mapping[str, bytes], bytes]:
    """The blobs of an image by digest, and its manifest; a random file makes the layer new to every node."""
    archive = io.BytesIO()
    with tempfile.TemporaryDirectory() as new:
        shutil.copytree(folder, new, dirs_exist_ok=True)
        (Path(new) / "made").write_text(str(uuid4()))
        write_oci_archive(archive, name="registry/model:1", root=Path(new))
    archive.seek(0)
    with tarfile.open(fileobj=archive) as tar:
        files = {member.name: tar.extractfile(member) for member in tar if member.isfile()}
        contents = {name: file.read() for name, file in files.items() if file}
    blobs = {name.removeprefix("blobs/").replace("/", ":"): content for name, content in contents.items()}
    (manifest,) = json.loads(contents["index.json"])["manifests"]
    return blobs, blobs[manifest["digest"]]


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
