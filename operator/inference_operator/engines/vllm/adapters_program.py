"""Loads the listed adapters into the engine of its pod; it runs in a container beside the engine.

Arguments: ENGINE_PORT PORT METRIC [key=FILE] [GROUP_PORT] LIST: the engine's port, its own one, the engine's metric
whose labels name the adapters in use, the file with the key that the engine asks for, in a group the HTTP port of its
member, and the file with the paths of the listed adapters by name.

1. It compares the list with the adapters that the engine names in /v1/models, at each change of the file, after each
   failure and every `look` seconds. So it needs no memory of its own: a restart of either process changes nothing.
2. What is listed with another path, or is not there, is loaded. One that fails is tried again, later each time.
3. What is there and not listed is unloaded `linger` seconds later, once no request uses it: routers learn of it first.
4. GET /ready answers like the engine's /health, but not before each listed adapter is loaded or has failed, once after
   each start of the engine. Adapters that come later do not make the engine unready.
5. In a group the leader's engine loads them for all members. GET /ready answers like the member's; on a leader, not
   before the adapters are loaded. On a worker it does nothing else.
6. GET /adapters tells the operator the state, as JSON.
7. A connection has one request, which must come within `reader` seconds. A source may have a quarter of the threads
   that are left free. So strangers keep no probe out.
"""

import hashlib
import json
import os
import re
import signal
import sys
import threading
import time
from contextlib import suppress
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import AF_INET, AF_INET6, SHUT_RDWR, has_dualstack_ipv6, socket
from socketserver import TCPServer
from typing import NamedTuple, TypeAlias

ANSWER_SECONDS, LOAD_SECONDS = 60.0, 300.0
FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 5.0, 300.0
MOST_READERS, SHARE = 64, 4
ADDRESS = "127.0.0.1"
HASH_DIGITS = 16


class LoaderWaits(NamedTuple):
    """Seconds of its own waits. Whoever calls `main` may shorten them; no argument or variable does."""

    tick: float = 0.2
    look: float = 5.0
    linger: float = 10.0
    reader: float = 5.0


WAITS = LoaderWaits()


def say(text: str) -> None:
    """Write a line to the container's log."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


class EngineApi:
    """The engine's API."""

    def __init__(self, port: int, metric: str, member: int = 0, key_file: str = "") -> None:
        self.port, self.metric, self.member, self.key_file = port, metric, member, key_file

    def headers(self) -> dict[str, str]:
        """Headers of a request, with the key if there is one. It may be renewed, so it is read each time."""
        key = Path(self.key_file).read_text(encoding="utf-8").strip() if self.key_file else ""
        return {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}

    def health(self) -> tuple[int, str]:
        """Status and text about its health: from its member, if it is one of a group."""
        return self.ask("GET", "/ready", port=self.member) if self.member else self.ask("GET", "/health")

    def works(self) -> bool:
        """Whether this pod only works for a leader; False also if its member does not say yet."""
        try:
            return bool(self.member and json.loads(self.ask("GET", "/state", port=self.member)[1])["rank"])
        except (OSError, HTTPException, ValueError, KeyError):
            return False

    def ask(
        self, method: str, path: str, body: object = None, seconds: float = ANSWER_SECONDS, port: int = 0
    ) -> tuple[int, str]:
        """Status and text of an answer."""
        connection = HTTPConnection(ADDRESS, port or self.port, timeout=seconds)
        try:
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, self.headers())
            answer = connection.getresponse()
            return answer.status, answer.read().decode(errors="replace")
        finally:
            connection.close()

    def served(self) -> dict[str, str]:
        """Paths of the loaded adapters by name."""
        status, text = self.ask("GET", "/v1/models")
        if status != HTTPStatus.OK:
            raise OSError(f"/v1/models: {status}")
        return {one["id"]: one["root"] for one in json.loads(text)["data"] if one.get("parent")}

    def in_use(self, name: str) -> bool:
        """Whether a request uses an adapter, or the engine does not say."""
        status, text = self.ask("GET", "/metrics")
        lines = [line for line in text.splitlines() if line.startswith(self.metric)]
        named = re.compile(rf'[",]{re.escape(name)}[",]')
        return status != HTTPStatus.OK or any(named.search(line) for line in lines)


class LoadFailure(NamedTuple):
    """An adapter that the engine could not load."""

    path: str
    since: int
    wait: float
    again: float
    status: int


class Loader:
    """The state, and one step towards the list."""

    def __init__(self, engine: EngineApi, path: Path, waits: LoaderWaits) -> None:
        self.engine, self.path, self.waits = engine, path, waits
        self.text = "{}"
        self.wanted: dict[str, str] = {}
        self.served: dict[str, str] = {}
        self.failed: dict[str, LoadFailure] = {}
        self.unlisted: dict[str, float] = {}
        self.up = self.settled = self.ready = self.works = False
        self.looked = 0.0

    def step(self) -> None:
        """Read the list, and look at the engine if it is time."""
        if self.works:
            return
        changed = self.read()
        now = time.monotonic()
        due = any(one.again <= now for one in self.failed.values())
        linger = any(since + self.waits.linger <= now for since in self.unlisted.values())
        if not (changed or due or linger or not self.up or now - self.looked >= self.waits.look):
            return
        self.looked = now
        try:
            self.served = self.engine.served()
        except ConnectionRefusedError:
            self.forget()
            self.works = self.engine.works()
            return
        except (OSError, HTTPException, ValueError, KeyError):
            return  # it is busy, or hangs: the kubelet's probes find out
        self.up = True
        self.act(now)

    def forget(self) -> None:
        """Begin anew: the engine has ended."""
        self.up = self.settled = self.ready = False
        self.served, self.failed = {}, {}

    def read(self) -> bool:
        """Take a new list; whether there is one. A file that cannot be read keeps the former one."""
        try:
            text = self.path.read_text(encoding="utf-8")
            wanted = {str(name): str(path) for name, path in json.loads(text).items()}
        except (OSError, ValueError, AttributeError):
            return False
        if text == self.text:
            return False
        self.text, self.wanted, self.settled = text, wanted, False
        return True

    def act(self, now: float) -> None:
        """Load and unload what differs."""
        self.failed = {name: one for name, one in self.failed.items() if self.wanted.get(name) == one.path}
        for name, path in sorted(self.wanted.items()):
            if self.served.get(name) == path:
                self.failed.pop(name, None)
            elif name not in self.failed or self.failed[name].again <= now:
                self.load(name, path)
        gone = [name for name in self.served if name not in self.wanted]
        self.unlisted = {name: self.unlisted.get(name, now) for name in gone}
        for name, since in list(self.unlisted.items()):
            if now - since >= self.waits.linger and not self.engine.in_use(name):
                self.unload(name)
        self.settled = self.ready = True

    def load(self, name: str, path: str) -> None:
        """Load one adapter, in place of a former version of it."""
        body = {"lora_name": name, "lora_path": path, "load_inplace": name in self.served}
        try:
            status, text = self.engine.ask("POST", "/v1/load_lora_adapter", body, LOAD_SECONDS)
        except (OSError, HTTPException) as error:
            status, text = 0, str(error)
        if status == HTTPStatus.OK:
            self.served[name] = path
            self.failed.pop(name, None)
            say(f"loaded {name}: {path}")
            return
        former = self.failed.get(name)
        wait = min(2 * former.wait, LONGEST_WAIT_SECONDS) if former else FIRST_WAIT_SECONDS
        since = former.since if former else int(time.time())
        self.failed[name] = LoadFailure(path, since, wait, time.monotonic() + wait, status)
        say(f"cannot load {name} from {path}: {status}: {text[:2000]}")

    def unload(self, name: str) -> None:
        """Unload one adapter. Requests that run go on: only the name is gone."""
        status, text = self.engine.ask("POST", "/v1/unload_lora_adapter", {"lora_name": name})
        if status in (HTTPStatus.OK, HTTPStatus.NOT_FOUND):
            self.served.pop(name, None)
            self.unlisted.pop(name, None)
            say(f"unloaded {name}")
        else:
            say(f"cannot unload {name}: {status}: {text[:2000]}")

    def report(self) -> dict[str, object]:
        """The state for the operator."""
        failed = {name: {"since": one.since, "status": one.status} for name, one in self.failed.copy().items()}
        digest = hashlib.sha256(self.text.encode()).hexdigest()[:HASH_DIGITS]
        return {"list": digest if self.settled else "", "loaded": self.served.copy(), "failed": failed}


Socket: TypeAlias = socket | tuple[bytes, socket]


def handler_of(loader: Loader) -> type[BaseHTTPRequestHandler]:
    """The answers about this state."""

    class Handler(BaseHTTPRequestHandler):
        timeout = loader.waits.reader  # of each read and write
        server: "Server"

        def do_GET(self) -> None:
            self.server.has_request(self.connection)
            if self.path == "/adapters":
                self.answer(200, json.dumps(loader.report()))
            elif self.path == "/ready":
                self.answer(*self.health())
            else:
                self.answer(404, "not found")

        def health(self) -> tuple[int, str]:
            if not (loader.ready or loader.works):
                return 503, "adapters are loaded first"
            try:
                status, _ = loader.engine.health()
            except ConnectionRefusedError:
                loader.forget()  # the next one that listens there has no adapters
                return 503, "the engine does not listen"
            except (OSError, HTTPException) as error:
                return 503, type(error).__name__
            return status, ""

        def answer(self, status: int, text: str) -> None:
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing: probes would fill the log."""

    return Handler


class Server(ThreadingHTTPServer):
    """Listens on all addresses of the pod, and bounds the connections of each source and the time of their requests."""

    address_family = AF_INET6 if has_dualstack_ipv6() else AF_INET
    reader_seconds = WAITS.reader
    request_queue_size = 128  # with 5 as by default, a burst of strangers makes probes wait for a second try of TCP

    def server_bind(self) -> None:
        """Bind without asking DNS for the name of the pod, as http.server does."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = "", self.server_address[1]
        self.sources: dict[Socket, str] = {}
        self.awaited: dict[Socket, float] = {}

    def verify_request(self, _: object, client_address: tuple[str, int]) -> bool:
        """Whether there is room for a connection of this source."""
        sources = [*self.sources.copy().values(), client_address[0]]
        return len(sources) + SHARE * sources.count(client_address[0]) <= MOST_READERS

    def process_request(self, request: Socket, client_address: tuple[str, int]) -> None:
        """Answer a connection in a thread of its own."""
        self.sources[request], self.awaited[request] = client_address[0], time.monotonic() + self.reader_seconds
        super().process_request(request, client_address)

    def has_request(self, request: Socket) -> None:
        """The request of a connection is here."""
        self.awaited.pop(request, None)

    def service_actions(self) -> None:
        """End the connections whose request did not come in time, also those that send one byte after the other."""
        now = time.monotonic()
        for request, until in self.awaited.copy().items():
            if now > until and isinstance(request, socket):
                self.awaited.pop(request, None)
                with suppress(OSError):
                    request.shutdown(SHUT_RDWR)

    def shutdown_request(self, request: Socket) -> None:
        """Forget a connection that is done, or that no thread could be started for."""
        self.awaited.pop(request, None)
        self.sources.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, *_: object) -> None:
        """Nothing: readers that leave would fill the log."""


def main(waits: LoaderWaits = WAITS) -> None:
    """Serve and follow the list until the container ends."""
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))  # as process 1 it would not hear it
    port, own = map(int, sys.argv[1:3])
    *given, path = sys.argv[4:]
    keys = [word.removeprefix("key=") for word in given if word.startswith("key=")]
    members = [int(word) for word in given if word.isdigit()]
    loader = Loader(EngineApi(port, sys.argv[3], *members[:1] or (0,), *keys), Path(path), waits)
    server = Server(("::" if Server.address_family == AF_INET6 else "", own), handler_of(loader))
    server.reader_seconds = waits.reader
    threading.Thread(target=server.serve_forever, daemon=True).start()
    while True:
        try:
            loader.step()
        except (OSError, HTTPException, ValueError, KeyError) as error:
            say(f"the engine's answer: {type(error).__name__}")
        time.sleep(waits.tick)


if __name__ == "__main__":
    main()
