"""CPU that a router spends so that tokens are counted: for a stream of 200 chunks, and for a JSON answer of 2 KiB.

    python -m bench.usage [--streams N] [--rounds N] [--output text|json]

Needs root, two cores and `wrk` (Debian package of this name). HAProxy of the router's image runs on the first core with
the configuration that the operator renders; an engine's stand-in and the clients on the second. The configurations take
turns, and the median of all rounds counts. It is CPU time and no rate, so other work on the machine matters little.
Chunks that a client reads together count as one, since a busy machine joins them. All requests have an API key:

- *not counted*: without the header by which engines know the user.
- *counted by engines*: with it, as always with `router.keys`.
- *read by routers*: `router.usage: Enabled`, and streams end with their usage.
"""

import asyncio
import multiprocessing
import os
import re
import select
import shutil
import socket
import sys
import tempfile
import time
from asyncio.subprocess import PIPE, Process, create_subprocess_exec
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Self

import aiohttp

from bench.figures import Figure, at_least, parser_of, shown
from e2e.router.loopback import NAME_SERVER, Loopback, unpacked
from e2e.router.names import Names
from e2e.router.test_keys import line
from inference_operator.api.router import KeysSecretRef, RouterKeysSpec, RouterSpec, RouterUsage
from inference_operator.engines.engine_key_program import USER_HEADER

STREAMS, CHUNKS, GAP_SECONDS = 100, 200, 0.02
"""Streams at a time, and the chunks of each: 50 tokens a second."""
ROUNDS, WRK_SECONDS, CONNECTIONS = 3, 3, 32
ENGINE, PATH = "127.0.54.1", "/v1/chat/completions"
PROXY_CORE, OTHER_CORE = 0, 1
AIMS = {"stream of 200 chunks": at_least(0.85), "JSON answer of 2 KiB": at_least(0.7)}
"""Requests for the CPU of one that is not counted."""
USER_KEY = "sk-of-the-bench"
AUTHORIZATION = f"Authorization: Bearer {USER_KEY}\r\n".encode()

_CHUNK = b'data: {"id":"chatcmpl-%s","object":"chat.completion.chunk","created":1790000000,"model":"chat",' % (
    b"0" * 32
)
TOKEN = _CHUNK + b'"choices":[{"index":0,"delta":{"content":" token"},"logprobs":null,"finish_reason":null}]}\n\n'
USAGE = b'"usage":{"prompt_tokens":7,"total_tokens":207,"completion_tokens":200}'
LAST = _CHUNK + b'"choices":[],' + USAGE + b"}\n\n"
DONE = b"data: [DONE]\n\n"
HEADERS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
HEALTHY = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
ANSWER = (
    (
        b'{"id":"chatcmpl-%s","object":"chat.completion","created":1790000000,"model":"chat","choices":[{"text":"%s"}],'
        % (
            b"0" * 32,
            b"x" * 1800,
        )
    )
    + USAGE
    + b"}"
)
_COUNT = re.compile(r"([0-9]+) requests in")
_FAILED = re.compile(r"(Non-2xx|Socket errors).*")

ORIGIN = f"""
global
    nbthread 1
    maxconn 4000
defaults
    mode http
    timeout client 60s
frontend engine
    bind {ENGINE}:PORT
    http-request wait-for-body time 10s if METH_POST
    http-request return status 200 content-type application/json string '{ANSWER.decode()}'
"""


@dataclass(frozen=True, slots=True)
class Case:
    """A configuration, and whether streams ask for their usage."""

    name: str
    usage: RouterUsage = RouterUsage.DISABLED
    asked: bool = False
    names_user: bool = True

    @property
    def spec(self) -> RouterSpec:
        """The router section."""
        return RouterSpec(usage=self.usage, keys=RouterKeysSpec(secretRef=KeysSecretRef(name="keys")))

    def change(self, text: str) -> str:
        """The configuration of this case."""
        named = USER_HEADER.decode()
        return text if self.names_user else "\n".join(line for line in text.split("\n") if named not in line)


CASES = (
    Case("not counted", names_user=False),
    Case("counted by engines"),
    Case("read by routers", RouterUsage.ENABLED, asked=True, names_user=False),
)


def main(arguments: Sequence[str]) -> int:
    """Measure and print the figures."""
    parser = parser_of("python -m bench.usage", "CPU that a router spends so that tokens are counted.")
    parser.add_argument("--streams", type=int, default=STREAMS, help="streams at a time")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="measurements of each configuration")
    args = parser.parse_args(arguments)
    if not shutil.which("wrk"):
        sys.exit("error: wrk is missing; on Debian: apt-get install wrk")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "root"
        figures = asyncio.run(_measured(root, unpacked(root), args.streams, args.rounds))
    print(shown(figures, args.output))
    return 0


async def _measured(root: Path, command: list[str], streams: int, rounds: int) -> list[Figure]:
    measured: dict[str, dict[str, list[float]]] = {what: defaultdict(list) for what in AIMS}
    streamed, whole = measured.values()
    for _ in range(rounds):
        for case in CASES:
            streamed[case.name].append(await _of_streams(root, command, case, streams))
            whole[case.name].append(await _of_answers(root, command, case))
    return [figure for what, values in measured.items() for figure in _figures(what, values)]


def _figures(what: str, measured: dict[str, list[float]]) -> Iterator[Figure]:
    middle = {name: median(values) for name, values in measured.items()}
    for name, value in middle.items():
        yield Figure(f"{what}, {name}: CPU of the proxy", value, "us")
    for name in list(middle)[1:]:
        aim = AIMS[what] if name == CASES[1].name else None
        yield Figure(f"{what}, {name}: requests for the CPU of one", middle[CASES[0].name] / middle[name], "", aim)


async def _of_streams(root: Path, command: list[str], case: Case, streams: int) -> float:
    """Microseconds of the proxy's CPU for a stream of CHUNKS chunks."""
    context = multiprocessing.get_context("spawn")
    async with _Routed(root, command, case) as routed:
        ours, theirs = context.Pipe()
        port = routed.loopback.engine_port
        origin = context.Process(target=_origin, args=(port, case.asked, theirs), daemon=True)
        origin.start()
        try:
            await asyncio.to_thread(ours.recv)
            await routed.serving()
            before = routed.cpu_seconds()
            client = context.Process(target=_client, args=(routed.loopback.port, streams, case.asked, theirs))
            client.start()
            chunks: int = await asyncio.to_thread(ours.recv)
            used = routed.cpu_seconds() - before
            client.join()
        finally:
            origin.terminate()
            origin.join()
    return used / chunks * CHUNKS * 1e6


async def _of_answers(root: Path, command: list[str], case: Case) -> float:
    """Microseconds of the proxy's CPU for each request and its answer."""
    async with _Routed(root, command, case) as routed:
        loopback = routed.loopback
        (loopback.root / "etc/haproxy/origin.cfg").write_text(ORIGIN.replace("PORT", str(loopback.engine_port)))
        pinned = ["taskset", "--cpu-list", str(OTHER_CORE), "haproxy", "-db", "-f", "/etc/haproxy/origin.cfg"]
        origin = await create_subprocess_exec(*loopback.chrooted(*pinned))
        try:
            await routed.serving()
            before = routed.cpu_seconds()
            requests = await _asked_by_wrk(f"{loopback.url}{PATH}")
            used = routed.cpu_seconds() - before
        finally:
            origin.terminate()
            await origin.wait()
    return used / requests * 1e6


async def _asked_by_wrk(url: str) -> int:
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as file:
        file.write('wrk.method = "POST"; wrk.body = string.rep("x", 2048);')
        file.write(f' wrk.headers["Authorization"] = "Bearer {USER_KEY}"')
        file.flush()
        options = ["-t1", f"-c{CONNECTIONS}", f"-d{WRK_SECONDS}", "--script", file.name, url]
        wrk = await create_subprocess_exec("taskset", "--cpu-list", str(OTHER_CORE), "wrk", *options, stdout=PIPE)
        printed = (await wrk.communicate())[0].decode()
    count = _COUNT.search(printed)
    if not count or _FAILED.search(printed):
        sys.exit(f"error: {printed}")
    return int(count[1])


class _Routed:
    """A router that runs on its own core, and the name of its engine."""

    def __init__(self, root: Path, command: list[str], case: Case) -> None:
        self._root, self._command, self._case = root, command, case

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        _, names = await loop.create_datagram_endpoint(Names, local_addr=(NAME_SERVER, 53))
        self._session = aiohttp.ClientSession()
        pinned = ["taskset", "--cpu-list", str(PROXY_CORE), *self._command]
        self.loopback = Loopback(self._root, pinned, names=names, session=self._session, spec=self._case.spec)
        self.loopback.engine_key, self.loopback.change = "e" * 64, self._case.change
        self.loopback.write_keys(line("user", USER_KEY))
        await self.loopback.start_router()
        return self

    async def serving(self) -> None:
        """Wait until the router has found the engine."""
        self.loopback.names.addresses.append(ENGINE)
        await self.loopback.until_served(1)

    def cpu_seconds(self) -> float:
        """CPU that the router's processes have used."""
        router: Process | None = self.loopback.router
        used = 0
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # it has ended
                group = int((process / "stat").read_text().rpartition(")")[2].split()[2])
                if router and group == router.pid:
                    tasks = (process / "task").glob("*/schedstat")
                    used += sum(int(task.read_text().split()[0]) for task in tasks)
        return used / 1e9

    async def __aexit__(self, *_: object) -> None:
        await self.loopback.close()
        await self._session.close()


def _framed(*events: bytes) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(event), event) for event in events)


def _origin(port: int, asked: bool, ready: Connection) -> None:  # noqa: FBT001 - positional for multiprocessing
    """Answer each request with a stream whose chunks are GAP_SECONDS apart."""
    os.sched_setaffinity(0, {OTHER_CORE})
    listener = socket.create_server((ENGINE, port), backlog=1024)
    poll, streams, fresh = select.epoll(), dict[socket.socket, int](), dict[int, socket.socket]()
    poll.register(listener, select.EPOLLIN)
    token, end = _framed(TOKEN), _framed(*([LAST] if asked else []), DONE) + b"0\r\n\r\n"
    ready.send(None)
    due = time.monotonic()
    while True:
        for number, _ in poll.poll(max(0.0, due - time.monotonic())):
            if number == listener.fileno():
                connection, _ = listener.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                fresh[connection.fileno()] = connection
                poll.register(connection, select.EPOLLIN)
                continue
            poll.unregister(number)
            connection = fresh.pop(number)
            if connection.recv(65536).startswith(b"POST"):
                connection.sendall(HEADERS)
                streams[connection] = CHUNKS
            else:
                connection.sendall(HEALTHY)
                connection.close()
        if time.monotonic() >= due:
            due += GAP_SECONDS
            for connection in list(streams):
                streams[connection] -= 1
                connection.sendall(token if streams[connection] else end)
                if not streams[connection]:
                    del streams[connection]
                    connection.close()


def _client(port: int, streams: int, asked: bool, result: Connection) -> None:  # noqa: FBT001 - as above
    """Read all streams, and send the number of reads with chunks."""
    os.sched_setaffinity(0, {OTHER_CORE})
    options = b',"stream_options":{"include_usage":true}' if asked else b""
    body = b'{"model":"chat","messages":[{"role":"user","content":"Hi"}],"stream":true%s}' % options
    head = b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s\r\n"
    poll, open_streams, chunks = select.epoll(), dict[int, socket.socket](), 0
    for _ in range(streams):
        connection = socket.create_connection(("127.0.0.1", port))
        connection.sendall(head % (PATH.encode(), len(body), AUTHORIZATION) + body)
        open_streams[connection.fileno()] = connection
        poll.register(connection, select.EPOLLIN)
    while open_streams:
        for number, _ in poll.poll():
            data = open_streams[number].recv(65536)
            chunks += data.count(b"data: ") > 0
            if not data or data.endswith(b"\r\n0\r\n\r\n"):
                poll.unregister(number)
                open_streams.pop(number).close()
    result.send(chunks)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
