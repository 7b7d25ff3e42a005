"""What a load balancer adds to the time of a request, at a rate far below its limit."""

import socket
import ssl
import time
from collections.abc import Sequence
from urllib.parse import urlsplit

RATE = 200
"""Requests per second to each address; one at a time, on kept connections."""


def latencies_ms(urls: Sequence[str], body: bytes, seconds: float, *, key: str = "") -> list[list[float]]:
    """Times of the answers of each URL in ascending order; the URLs take turns, so that all see the same machine.

    Args:
        urls: where to send the request.
        body: its body.
        seconds: how long to measure.
        key: API key that the requests carry; empty for none.
    """
    connections = [_Connection(url, body, key) for url in urls]
    found: list[list[float]] = [[] for _ in urls]
    begin, number = time.perf_counter(), 0
    while time.perf_counter() - begin < seconds:
        for connection, times in zip(connections, found, strict=True):
            times.append(connection.ask() * 1000)
        number += 1
        time.sleep(max(0.0, begin + number / RATE - time.perf_counter()))
    for connection in connections:
        connection.close()
    return [sorted(times) for times in found]


class _Connection:
    """A kept connection on which the same request is sent again and again."""

    def __init__(self, url: str, body: bytes, key: str) -> None:
        self._url = urlsplit(url)
        self._socket = self._connected()
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: bench\r\nContent-Length: {len(body)}\r\n"
        head += f"Authorization: Bearer {key}\r\n" if key else ""
        self._request = f"{head}Content-Type: application/json\r\n\r\n".encode() + body

    def ask(self) -> float:
        """Seconds from the request to the end of its answer."""
        before = time.perf_counter()
        self._socket.sendall(self._request)
        received = b""
        while b"\r\n\r\n" not in received:
            received += self._more()
        head, _, rest = received.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        while len(rest) < length:
            rest += self._more()
        seconds = time.perf_counter() - before
        if b"\r\nconnection: close" in head.lower():  # as routers say of which more than half of all places are taken
            self.close()
            self._socket = self._connected()
        return seconds

    def close(self) -> None:
        """End it."""
        self._socket.close()

    def _connected(self) -> socket.socket:
        assert self._url.hostname is not None  # noqa: S101 - the bench's own URL
        plain = socket.create_connection((self._url.hostname, self._url.port))
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return unchecked().wrap_socket(plain) if self._url.scheme == "https" else plain

    def _more(self) -> bytes:
        if chunk := self._socket.recv(65536):
            return chunk
        raise ConnectionError("the connection was closed")


def unchecked() -> ssl.SSLContext:
    """TLS to this machine, whose certificate nobody needs to check: wrk does not either."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
