"""HTTP client for pods, with bounds on time, size and connections. A bad answer is a value, never an exception.

Pods run code of users, so any answer is possible. The client follows no redirect, keeps no cookie, asks for no
compression, and reads no proxy from the environment.
"""

import json
from dataclasses import dataclass
from http import HTTPStatus
from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit
from time import monotonic

from aiohttp import ClientError, ClientResponse, ClientSession, ClientTimeout, DummyCookieJar, TCPConnector
from aiohttp.http_exceptions import HttpProcessingError
from yarl import URL

from inference_operator.manifest import Manifest

CONNECT_SECONDS, ANSWER_SECONDS = 1.0, 3.0
"""A pod of the same cluster answers within milliseconds. A busy one gets as long as a slow probe."""
MAX_BODY_BYTES = 1 << 20
"""vLLM's metrics take 60 kB."""
KEEP_ALIVE_SECONDS = 20.0
"""How long an idle connection is kept. Longer than `scrapeSeconds` by default (15), so that pods read at that interval
or more often keep theirs. Shorter than the servers keep it: routers 30 s (`READERS_KEEP_ALIVE_SECONDS`), and engines as
long as their `MetricsPage` says."""
MAX_KEPT = 4096
"""Idle connections, and never more than half of the files that the process may open. Enough for all routers of 1,000
resources: two pods with two ports each."""
_NO_ANSWER = (ClientError, HttpProcessingError, OSError, ValueError)
"""Nobody listens, or the answer is late, broken or too long. `TimeoutError` is an `OSError`."""
_READ_BYTES = 1 << 17
"""One read takes all of vLLM's metrics."""
_HEADERS = {"User-Agent": "inference-operator", "Accept": "*/*", "Accept-Encoding": "identity"}
_JSON = {"Content-Type": "application/json"}


@dataclass(frozen=True, slots=True)
class Address:
    ip: str
    port: int

    @property
    def host(self) -> str:
        return f"[{self.ip}]:{self.port}" if ":" in self.ip else f"{self.ip}:{self.port}"


class PodClient:
    """Sends requests to pods; `aclose` ends all connections. The first request opens the sessions, in its event loop.

    Args:
        max_kept: idle connections at most; None: `MAX_KEPT`, or less where the process may open few files.
    """

    def __init__(self, *, max_kept: int | None = None) -> None:
        self._max_kept = _max_kept() if max_kept is None else max_kept
        self._sessions: tuple[ClientSession, ClientSession] | None = None
        self._kept: dict[Address, float] = {}

    async def aclose(self) -> None:
        """End all connections. The client can be used again afterwards."""
        sessions, self._sessions = self._sessions, None
        self._kept.clear()
        for session in sessions or ():
            await session.close()

    async def get(self, address: Address, path: str, *, keep: bool = False) -> str | None:
        """The body of a 200 response to GET; None where there is no such response.

        If the server has just closed a kept connection, aiohttp sends the request again on a new one, once (3.14.5,
        `client.py`, `retry_persistent_connection`).

        Args:
            keep: whether to keep the connection, because the next request to this pod follows within
                `KEEP_ALIVE_SECONDS`. It is closed nevertheless where the most are kept already.
        """
        keeping, closing = self._opened()
        session = keeping if self._keeps(address, keep=keep) else closing
        try:
            async with session.get(_url(address, path), allow_redirects=False) as response:
                body = await _body(response)
        except _NO_ANSWER:
            return None
        return body.decode(errors="replace") if response.status == HTTPStatus.OK else None

    async def post(self, address: Address, path: str, body: Manifest, *, seconds: float) -> int | None:
        """The status of the response to POST, on a connection of its own; None if there is no response.

        Raises:
            TimeoutError: no response in time.
        """
        _, closing = self._opened()
        timeout = ClientTimeout(total=seconds, sock_connect=CONNECT_SECONDS)
        data = json.dumps(body).encode()
        try:
            async with closing.post(
                _url(address, path), data=data, headers=_JSON, allow_redirects=False, timeout=timeout
            ) as response:
                await _body(response)
        except TimeoutError:
            raise
        except _NO_ANSWER:
            return None
        return response.status

    def _opened(self) -> tuple[ClientSession, ClientSession]:
        """The session whose connections are kept, and the one whose connections are closed after each response.

        Neither limits the connections in use: a probe request that waited for one would look like an engine that does
        not answer. The scraper bounds them, by its workers and one probe request for each engine that seems to stall.
        """
        if self._sessions is None:
            keeping = TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE_SECONDS)
            self._sessions = _session(keeping), _session(TCPConnector(limit=0, force_close=True))
        return self._sessions

    def _keeps(self, address: Address, *, keep: bool) -> bool:
        """Whether to keep the connection of the next request; there is at most one kept connection for each address."""
        now = monotonic()
        self._kept.pop(address, None)
        while self._kept and now - next(iter(self._kept.values())) > KEEP_ALIVE_SECONDS:
            self._kept.pop(next(iter(self._kept)))  # the oldest is the first
        kept = keep and len(self._kept) < self._max_kept
        if kept:
            self._kept[address] = now
        return kept


def _max_kept() -> int:
    soft, _ = getrlimit(RLIMIT_NOFILE)
    return MAX_KEPT if soft == RLIM_INFINITY else min(MAX_KEPT, soft // 2)


def _session(connector: TCPConnector) -> ClientSession:
    return ClientSession(
        connector=connector,
        cookie_jar=DummyCookieJar(),
        headers=_HEADERS,
        timeout=ClientTimeout(total=ANSWER_SECONDS, sock_connect=CONNECT_SECONDS),
        auto_decompress=False,
        read_bufsize=_READ_BYTES,
    )


def _url(address: Address, path: str) -> URL:
    """The URL. To check its encoding, as for text, takes four times as long."""
    return URL(f"http://{address.host}{path}", encoded=True)


async def _body(response: ClientResponse) -> bytes:
    """The whole body; raises ValueError if it is longer than `MAX_BODY_BYTES`."""
    received = bytearray()
    while chunk := await response.content.readany():
        received += chunk
        if len(received) > MAX_BODY_BYTES:
            raise ValueError("the body is too long")
    return bytes(received)
