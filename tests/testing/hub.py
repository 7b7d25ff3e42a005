"""A simulated Hugging Face Hub that responds as the real one does, without Xet."""

import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMMIT = "0123456789abcdef0123456789abcdef01234567"
REPOSITORY = "org/model"
BRANCH = "experiment"
CHUNK = 2**16
STORAGE = "/storage/"
PREFIX = "/repository/hf"
"""Of a repository manager, below which the hub answers too."""

Answer = Callable[["Request"], None]


@dataclass
class Hub:
    """One repository, and what went over the wire."""

    repository: str = REPOSITORY
    files: dict[str, bytes] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    """Of files that are only listed, as weights are, or listed wrongly."""
    large: dict[str, bytes] = field(default_factory=dict)
    """Files that are served by redirect, as weights are."""
    damaged: dict[str, bytes] = field(default_factory=dict)
    """What is served instead of a large file, which is listed as it should be."""
    changed: dict[str, bytes] = field(default_factory=dict)
    """What is served instead of a large file from its second download on."""
    linked_etag: str = ""
    """The ETag of large files, where a mirror gives none of the hub's; empty for the hub's, which is their SHA-256."""
    linked_size: bool = True
    """Whether answers tell the size of a large file beside the address of its content."""
    storage_error: int = 0
    """The status with which the storage refuses large files, as for an address that has expired; 0 for none."""
    cut_after: int = 0
    """Bytes of the next large file after which the connection ends; 0 for all."""
    silent_after: int = 0
    """Bytes after which nothing more of a large file comes, if it has more, while the connection stays; 0 for all."""
    offsets: list[int] = field(default_factory=list)
    """Where the requests of large files started."""
    odd: dict[str, Answer] = field(default_factory=dict)
    """Answers other than usual, by the last part of the path; `model` is the list of files."""
    token: str = ""
    """What a request must carry."""
    asked: list[str] = field(default_factory=list)
    sent_bytes: int = 0
    endpoint: str = ""
    storage: str = ""
    """The server of large files, which is another one than the hub's, as in reality: clients send it no token."""

    def add(self, name: str, document: object) -> "Hub":
        """Give it a file of JSON."""
        self.files[name] = json.dumps(document).encode()
        return self

    def listing(self) -> bytes:
        """As the API answers with `blobs=True`."""
        sizes = {name: len(content) for name, content in (self.files | self.large).items()} | self.sizes
        siblings = [{"rfilename": name, "size": size} for name, size in sizes.items()]
        return json.dumps({"id": self.repository, "sha": COMMIT, "siblings": siblings}).encode()

    def tree(self) -> bytes:
        """The files with their hashes, as a download lists them."""
        entries: list[dict[str, object]] = []
        for name, content in (self.files | self.large).items():
            entry: dict[str, object] = {"type": "file", "path": name, "size": len(content), "oid": git_sha1(content)}
            if name in self.large:
                entry["lfs"] = {"oid": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 134}
            entries.append(entry)
        return json.dumps(entries).encode()


def git_sha1(content: bytes) -> str:
    """The id that git gives to a file."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


class Request(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"
    server: "_Server"

    def log_message(self, *_: object) -> None:
        """Say nothing: what was asked is counted."""

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    @property
    def hub(self) -> Hub:
        """The repository that the path names; of a wrong path, the first one."""
        named = (hub for hub in self.server.hubs if f"/{hub.repository}/" in f"{self.path.partition('?')[0]}/")
        return next(named, self.server.hubs[0])

    def _answer(self) -> None:
        hub, path = self.hub, self.path.partition("?")[0].removeprefix(PREFIX)
        hub.asked.append(f"{self.command} {path}")
        name = path.rpartition("/")[2]
        of_model, wanted = f"/api/models/{hub.repository}", f"/{hub.repository}/resolve/{COMMIT}/"
        stored = f"{STORAGE}{hub.repository}/"
        if path.startswith(stored) and (content := hub.large.get(path.removeprefix(stored))) is not None:
            name = path.removeprefix(stored)  # its address is a secret itself, so it needs no token
            self._give_range((hub.changed if hub.offsets else hub.damaged).get(name, content))
        elif hub.token and self.headers.get("Authorization") != f"Bearer {hub.token}":
            self.refuse(403, "GatedRepo")
        elif path in (of_model, *(f"{of_model}/revision/{revision}" for revision in (BRANCH, COMMIT))):
            hub.odd.get("model", listing)(self)
        elif path == f"{of_model}/tree/{COMMIT}":
            self.give(hub.tree())
        elif path.startswith(f"{of_model}/revision/"):
            self.refuse(404, "RevisionNotFound")
        elif name in hub.odd:
            hub.odd[name](self)
        elif path.startswith(wanted) and (content := hub.large.get(path.removeprefix(wanted))) is not None:
            self._redirect(path.removeprefix(wanted), content)
        elif path.startswith(wanted) and (content := hub.files.get(path.removeprefix(wanted))) is not None:
            self.give(content)
        elif path.startswith(wanted):
            self.refuse(404, "EntryNotFound")
        else:
            self.refuse(401, "RepoNotFound")

    def _redirect(self, name: str, content: bytes) -> None:
        """A large file: its size and hash are those of the linked file, which is on a storage of its own."""
        digest = f'"{self.hub.linked_etag or hashlib.sha256(content).hexdigest()}"'
        size = {"X-Linked-Size": str(len(content))} if self.hub.linked_size else {}
        linked = {**size, "X-Linked-ETag": digest, "X-Repo-Commit": COMMIT}
        self.refuse(302, Location=f"{self.hub.storage}{STORAGE}{self.hub.repository}/{name}", **linked)

    def _give_range(self, content: bytes) -> None:
        """The bytes of the header `Range`; of a range without an end at most `cut_after`, once.

        A range with an end is a look at the header of a file, as vLLM takes one; it is no download.
        """
        hub = self.hub
        if hub.storage_error:
            self.refuse(hub.storage_error)
            return
        first, _, last = self.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")
        start, end = int(first), min(int(last or len(content)) + 1, len(content))
        if not last:
            hub.offsets.append(start)
        self.send_response(206 if start or last else 200)
        self.send_header("Content-Length", str(end - start))
        self.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(content)}")
        self.end_headers()
        if 0 < hub.silent_after < end - start and not last and self.command == "GET":
            self.send(content[start : start + hub.silent_after])
            self.server.over.wait()
            return
        cut = 0
        if not last and self.command == "GET":
            cut, hub.cut_after = hub.cut_after, 0
        if self.command == "GET":
            self.send(content[start : start + cut] if cut else content[start:end])
        self.close_connection = bool(cut)

    def refuse(self, status: int, code: str = "", **headers: str) -> None:
        """An error as the hub tells it."""
        self.send_response(status)
        named = {"X-Error-Code": code} if code else {}
        for name, value in {**named, **headers, "Content-Length": "0"}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def give(self, content: bytes, *, length: int | None = None, **headers: str) -> None:
        """A body; its length can be said wrong."""
        self.send_response(200)
        usual = {"X-Repo-Commit": COMMIT, "ETag": f'"{hash(content):x}"', "Content-Length": str(length or len(content))}
        for name, value in {**usual, **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command == "GET":
            self.send(content)
        if length is not None:
            self.close_connection = True

    def send(self, content: bytes) -> None:
        """Some of a body, counted."""
        self.wfile.write(content)
        self.hub.sent_bytes += len(content)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, hubs: Sequence[Hub], address: str, port: int) -> None:
        super().__init__((address, port), Request)
        self.hubs = hubs
        self.over = threading.Event()

    def handle_error(self, *_: object) -> None:
        """A client that goes away is what some tests are about."""


@contextmanager
def serving(hub: Hub, *others: Hub, address: str = "127.0.0.1", ports: tuple[int, int] = (0, 0)) -> Iterator[Hub]:
    """The hub with one or several repositories, as long as it is needed; on any free ports, if none are given."""
    hubs = (hub, *others)
    servers = [_Server(hubs, address, port) for port in ports]
    threads = [threading.Thread(target=server.serve_forever, args=(0.01,)) for server in servers]
    for one in hubs:
        one.endpoint, one.storage = (f"http://{address}:{server.server_address[1]}" for server in servers)
    for thread in threads:
        thread.start()
    try:
        yield hub
    finally:
        for server in servers:
            server.over.set()
            server.shutdown()
        for thread in threads:
            thread.join()
        for server in servers:
            server.server_close()


def listing(request: Request) -> None:
    """The files, as usual."""
    request.give(request.hub.listing())


def endless(request: Request) -> None:
    """A body that hardly ever ends."""
    request.send_response(200)
    request.send_header("Content-Length", str(2**30))
    request.send_header("X-Repo-Commit", COMMIT)
    request.send_header("ETag", '"endless"')
    request.end_headers()
    while request.command == "GET" and not request.server.over.is_set():
        request.send(b" " * CHUNK)


def silent(request: Request) -> None:
    """A byte now and then: no silence is long enough for a timeout between two of them."""
    request.send_response(200)
    request.send_header("Content-Length", "1000")
    request.end_headers()
    while not request.server.over.wait(0.05):
        request.send(b" ")


def in_circles(request: Request) -> None:
    """Always another address."""
    step = int(request.path.partition("step=")[2] or 0)
    path = request.path.partition("?")[0]
    request.refuse(302, Location=f"{path}?step={step + 1}")
