"""Watches the routers of resources without engines: each answers one long request as soon as it holds a request.

To read the routers of 1,000 resources every second instead would be 4,000 requests a second. A log line by UDP would
need a port, a Service and a network policy of its own, and may be lost. A router that answers at once
without a held request is asked again every `POLL_SECONDS`.

Of 1,000 resources at zero there are 4,000 such connections. With aiohttp each of their requests costs several times as
much (`bench/scrape.py --at-zero`), and each needs a task. So they are an asyncio protocol that parses little.
"""

import asyncio
import random
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from time import monotonic

from inference_operator.manifest import Key
from inference_operator.objects.names import ROUTER
from inference_operator.router.observe import HELD_PATH, HELD_SECONDS
from inference_operator.scrape.pod_client import CONNECT_SECONDS, Address
from inference_operator.views.pod import PodView

MAX_ANSWER_BYTES = 1 << 16
"""The page of a router has some hundred bytes, and more with many API keys."""
_HELD = re.compile(rb"^inference_operator_router_held_requests ([0-9]+)\r?$", re.MULTILINE)
_LENGTH = re.compile(rb"^content-length: *([0-9]+) *\r$", re.MULTILINE | re.IGNORECASE)
_LAST_CHUNK = b"\r\n0\r\n\r\n"


class HeldRequest(asyncio.Protocol):
    """Asks for the page of held requests, and tells each answer.

    Args:
        path: path of the page, with how long it may wait.
        on_answer: called with the number of held requests, or None without a readable answer. Its result is the time in
            seconds until the next request.
    """

    def __init__(
        self, address: Address, path: str, *, seconds: float, on_answer: Callable[[int | None], float]
    ) -> None:
        self._address = address
        self._request = (
            f"GET {path} HTTP/1.1\r\nHost: {address.host}\r\nUser-Agent: inference-operator\r\n\r\n".encode()
        )
        self._seconds = seconds
        self._on_answer = on_answer
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._timer: asyncio.TimerHandle | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._closed = False

    def ask(self) -> None:
        if self._closed:
            return
        if self._transport is None:
            self._connecting = asyncio.create_task(self._connect())
            return
        self._received.clear()
        self._transport.write(self._request)
        self._timer = asyncio.get_running_loop().call_later(self._seconds, self._end, None)

    def close(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._connecting is not None:
            self._connecting.cancel()
        self._drop()

    def data_received(self, data: bytes) -> None:
        self._received += data
        if len(self._received) > MAX_ANSWER_BYTES:
            self._end(None)
        elif (body := answer_body(self._received)) is not None:
            match = _HELD.search(body)
            self._end(int(match[1]) if match else None)

    def connection_lost(self, _error: Exception | None) -> None:
        """Ask again on a new connection, if an answer was due."""
        self._transport = None
        if not self._closed and self._timer is not None:
            self._end(None)

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        with suppress(OSError):  # `TimeoutError` is one
            async with asyncio.timeout(CONNECT_SECONDS):
                self._transport, _ = await loop.create_connection(lambda: self, self._address.ip, self._address.port)
        self._connecting = None
        if self._transport is None:
            self._end(None)
        else:
            self.ask()

    def _end(self, held: int | None) -> None:
        """Tell the answer, and plan the next request. Without a readable one, the connection is of no use."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        if held is None:
            self._drop()
        if not self._closed:
            asyncio.get_running_loop().call_later(self._on_answer(held), self.ask)

    def _drop(self) -> None:
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()


def answer_body(received: bytes | bytearray) -> bytes | None:
    """The body of a whole answer; None while parts are missing, empty for another status than 200."""
    head, ended, body = bytes(received).partition(b"\r\n\r\n")
    if not ended:
        return None
    length = _LENGTH.search(head + b"\r")
    whole = len(body) >= int(length[1]) if length else (b"\r\n" + body).endswith(_LAST_CHUNK)
    if not whole:
        return None
    return body if head.startswith(b"HTTP/1.1 200") else b""


POLL_SECONDS = 5.0
"""Least time between two requests to the same router that holds no request."""
SLACK_SECONDS = 10.0
"""How much longer than `HELD_SECONDS` an answer may take."""
STARTS_PER_SECOND = 400
"""Connections that are opened per second: after a start of the operator, thousands at once would time out."""
HELD_AGAIN_SECONDS = 1.0
"""Time until a router that holds a request is asked again: it answers at once."""


class HeldWatch:
    """One waiting request to each process of each ready router of the keys at zero."""

    def __init__(
        self,
        pods: Callable[[Key], Sequence[PodView]],
        on_held: Callable[[Key], None],
        metrics_ports: Callable[[PodView], Sequence[int]],
    ) -> None:
        self._pods = pods
        self._on_held = on_held
        self._metrics_ports = metrics_ports
        self._requests: dict[tuple[Key, Address], HeldRequest] = {}

    def follow(self, keys: Iterable[Key]) -> None:
        desired = {(key, address) for key in keys for address in self._addresses(key)}
        for place in self._requests.keys() - desired:
            self._requests.pop(place).close()
        loop = asyncio.get_running_loop()
        for number, (key, address) in enumerate(desired - self._requests.keys()):
            request = HeldRequest(
                address, HELD_PATH, seconds=HELD_SECONDS + SLACK_SECONDS, on_answer=self._on_answer(key)
            )
            self._requests[key, address] = request
            loop.call_later(number / STARTS_PER_SECOND, request.ask)

    def close(self) -> None:
        for request in self._requests.values():
            request.close()
        self._requests.clear()

    def _addresses(self, key: Key) -> list[Address]:
        routers = (pod for pod in self._pods(key) if pod.component == ROUTER and pod.is_serving)
        return [Address(pod.address, port) for pod in routers if pod.address for port in self._metrics_ports(pod)]

    def _on_answer(self, key: Key) -> Callable[[int | None], float]:
        """The callback for each answer of a router process of this key; it returns the wait until the next request."""
        sent_at = monotonic()

        def answered(held: int | None) -> float:
            nonlocal sent_at
            if held:
                self._on_held(key)
            wait = HELD_AGAIN_SECONDS if held else max(0.0, POLL_SECONDS - (monotonic() - sent_at))
            if held is None:
                wait += random.uniform(0.0, POLL_SECONDS)  # noqa: S311 - spreads load, guards nothing
            sent_at = monotonic() + wait
            return wait

        return answered
