"""Readers of a router's pages that go away: at each moment, each from an address of its own."""

import asyncio
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import count
from struct import pack

from e2e.router.loopback import Loopback
from e2e.router.test_keys import ALICE, bearer
from inference_operator.router.observe import HELD_PATH, ROUTER_METRICS_PATH
from inference_operator.router.process import CONFIG_FILE, CONFIG_FOLDER, HEALTH_PATH
from inference_operator.router.stats import STATS_PATH
from inference_operator.router.waiting import HELD_PATH as HOOK_PATH
from inference_operator.router.waiting import HOOK_ADDRESS, MODELS_PATH

SHORT = f"{ROUTER_METRICS_PATH}?held=1"
"""A page that waits for requests, and is answered after a second without one."""
PIPELINED = 20
SMALL_BUFFER_BYTES = 2_304
"""The least receive buffer of Linux (socket(7), `SO_RCVBUF`): the router's answers wait for a slow reader."""
SECONDS = 10.0
"""A reader goes away after this time if its moment does not come."""

_sources: Iterator[int] = count()


@dataclass(frozen=True, slots=True)
class Page:
    """What readers ask a port of a router for."""

    request: bytes
    port: int
    host: str = "127.0.0.1"
    over_tls: bool = False
    most: int = 16
    """The most readers at a time: with those of all other pages, less than a port takes."""
    may_wait: bool = False
    """Whether its answer waits while no request is held."""


Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Moment = Callable[[Connection, bytes], Awaitable[object]]
"""What a reader does before it goes away."""


def _get(path: str, *, headers: str = "") -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: router\r\n{headers}\r\n".encode()


def pages(router: Loopback) -> dict[str, Page]:
    """Every page of every port of a router with two processes, of which both have metrics ports."""
    text = (router.root / CONFIG_FOLDER.lstrip("/") / CONFIG_FILE).read_text()
    limits = re.findall(r"path (/limits/\S+)", text)
    key = "".join(f"{name}: {value}\r\n" for name, value in bearer(ALICE).items())
    metrics = ["/metrics", ROUTER_METRICS_PATH, HEALTH_PATH, STATS_PATH, *limits, "/nothing"]
    asked = {f"{HEALTH_PATH} of clients": _get(HEALTH_PATH), MODELS_PATH: _get(MODELS_PATH, headers=key)}
    completion = b"POST /v1/completions HTTP/1.1\r\nHost: router\r\nContent-Length: 2\r\n" + key.encode() + b"\r\n{}"
    found = {name: Page(request, router.port) for name, request in asked.items()}
    found |= {f"{name}, TLS": Page(request, router.tls_port, over_tls=True) for name, request in asked.items()}
    found["a completion"] = Page(completion, router.port, may_wait=True)
    for process, port in (("first", router.metrics_port), ("second", router.twin_metrics_port)):
        found |= {f"{path} of the {process}": Page(_get(path), port) for path in metrics}
        found[f"{HELD_PATH} of the {process}"] = Page(_get(HELD_PATH), port, may_wait=True)
        found[f"{SHORT} of the {process}"] = Page(_get(SHORT), port)
        with_body = _get(HELD_PATH, headers="Content-Length: 10\r\n") + b"half"
        found[f"{HELD_PATH} with a body of the {process}"] = Page(with_body, port)
        for path in (STATS_PATH, HOOK_PATH):
            found[f"{path} of the {process}'s hook"] = Page(_get(path), port, HOOK_ADDRESS, most=8)
    return found


async def _at_once(connection: Connection, request: bytes) -> None:
    connection[1].write(request)


async def _before_the_end_of_the_request(connection: Connection, request: bytes) -> None:
    connection[1].write(request[:-1])


async def _in_mid_answer(connection: Connection, request: bytes) -> None:
    connection[1].write(request)
    await connection[0].read(1)


async def _slowly(connection: Connection, request: bytes) -> None:
    connection[1].write(PIPELINED * request)
    await connection[0].read(1)


async def _after_its_own_end(connection: Connection, request: bytes) -> None:
    connection[1].write(request)
    if connection[1].can_write_eof():  # not of TLS
        connection[1].write_eof()
        await connection[0].read(1)


MOMENTS: dict[str, Moment] = {
    "at once": _at_once,
    "before the end of its request": _before_the_end_of_the_request,
    "in mid-answer": _in_mid_answer,
    "slowly": _slowly,
    "after it has closed its own side": _after_its_own_end,
}
FIRST_BYTES = {_in_mid_answer, _slowly}
"""Those moments that need the first byte of an answer."""


async def abort(page: Page, moment: Moment) -> None:
    """One reader, of an address that no other one has; half of all reset their connection."""
    number = next(_sources)
    with socket.socket() as connected:
        connected.setblocking(False)  # noqa: FBT003 - the socket's own
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER_BYTES)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, pack("ii", number % 2, 0))
        connected.bind((f"127.100.{number // 250 % 250}.{1 + number % 250}", 0))
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(SECONDS):
                await asyncio.get_running_loop().sock_connect(connected, (page.host, page.port))
                connection = await asyncio.open_connection(
                    sock=connected,
                    limit=1,
                    ssl=_unverified() if page.over_tls else None,
                    server_hostname="localhost" if page.over_tls else None,
                )
                try:
                    await moment(connection, page.request)
                finally:
                    connection[1].transport.abort()


@cache
def _unverified() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


async def abort_many(asked: Iterable[Page], moment: Moment, readers: int) -> None:
    """So many readers of each page, some at a time."""

    async def read(page: Page) -> None:
        room = asyncio.Semaphore(page.most)

        async def one() -> None:
            async with room:
                await abort(page, moment)

        await asyncio.gather(*(one() for _ in range(readers)))

    await asyncio.gather(*map(read, asked))


async def abort_while_they_wait(router: Loopback, page: Page, readers: int) -> None:
    """So many readers, which go away at the same time, once all of them wait for their answer."""
    ended = asyncio.Event()

    async def waits(connection: Connection, request: bytes) -> None:
        connection[1].write(request)
        await ended.wait()

    tasks = [asyncio.create_task(abort(page, waits)) for _ in range(readers)]
    await router.until_connected("api" if page.port == router.port else "metrics", readers)
    ended.set()
    await asyncio.gather(*tasks)
