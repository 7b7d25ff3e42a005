"""Bounded requests to pods, which may be anybody's code.

On a bare socket, since nearly all of what an idle operator computes are these requests: a client for everything takes
twice as long for each. Connections are not kept, as there would be one for each pod.
"""

import asyncio
import json
import socket
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse
from io import BytesIO

from inference_operator.manifest import Manifest

CONNECT_SECONDS, ANSWER_SECONDS = 1.0, 3.0
"""A pod of the same cluster answers within milliseconds; a busy one has the time of a slow probe."""

MOST_BYTES = 1 << 20
"""Of an answer: vLLM's metrics take 60 kB."""

_CHUNK_BYTES = 1 << 16

_NO_ANSWER = (OSError, HTTPException, ValueError, OverflowError)
"""Nobody listens, or what came is no answer or a broken one; that none came in time is an `OSError` too."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a pod listens.

    Examples:
        >>> Address("10.0.0.1", 8000).host, Address("fd00::1", 8000).host
        ('10.0.0.1:8000', '[fd00::1]:8000')
    """

    ip: str
    port: int

    @property
    def host(self) -> str:
        """As requests name it."""
        return f"[{self.ip}]:{self.port}" if ":" in self.ip else f"{self.ip}:{self.port}"


async def get(address: Address, path: str) -> str | None:
    """The body of an answer 200 to GET; redirects are not followed. What cannot be had is None."""
    try:
        status, body = await _exchange(address, "GET", path, b"", seconds=ANSWER_SECONDS)
    except _NO_ANSWER:
        return None
    return body.decode(errors="replace") if status == HTTPStatus.OK else None


async def post(address: Address, path: str, body: Manifest, *, seconds: float) -> int | None:
    """The status of an answer to POST; raises `TimeoutError` where there is none in time, None if refused."""
    try:
        status, _ = await _exchange(address, "POST", path, json.dumps(body).encode(), seconds=seconds)
    except TimeoutError:
        raise
    except _NO_ANSWER:
        return None
    return status


async def _exchange(address: Address, method: str, path: str, body: bytes, *, seconds: float) -> tuple[int, bytes]:
    """The status and body of the answer, which ends with the connection."""
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: {address.host}\r\nConnection: close\r\nUser-Agent: inference-operator\r\n"
        f"Accept-Encoding: identity\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    loop = asyncio.get_running_loop()
    family = socket.AF_INET6 if ":" in address.ip else socket.AF_INET
    received = bytearray()
    with socket.socket(family) as connection:
        connection.setblocking(False)  # noqa: FBT003 - its only argument
        async with asyncio.timeout(seconds):
            async with asyncio.timeout(CONNECT_SECONDS):
                await loop.sock_connect(connection, (address.ip, address.port))
            await loop.sock_sendall(connection, head.encode() + body)
            while chunk := await loop.sock_recv(connection, _CHUNK_BYTES):
                received += chunk
                if len(received) > MOST_BYTES:
                    raise ValueError("the answer has no end")
    answer = HTTPResponse(_Received(received))  # type: ignore[arg-type]  # of a socket it takes `makefile` only
    answer.begin()
    return answer.status, answer.read()


class _Received(BytesIO):
    """An answer that is there already, for who reads from sockets."""

    def makefile(self, _mode: str) -> BytesIO:
        return self
