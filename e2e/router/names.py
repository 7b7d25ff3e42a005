"""A DNS server with addresses that a test sets."""

import asyncio
import struct
from contextlib import suppress
from ipaddress import ip_address
from typing import cast

TYPE_A, TYPE_AAAA = 1, 28
TTL_SECONDS = 5
"""CoreDNS' default for Services."""
_HEADER_BYTES = 12
_AUTHORITATIVE_ANSWER = 0x8580
_NAME_ERROR = 3
"""NXDOMAIN, CoreDNS' answer for a headless Service without ready endpoints (1.12, plugin/kubernetes)."""


class Names(asyncio.DatagramProtocol):
    """Answers questions with `addresses`, over UDP and TCP; sends no answer while `silent` is set.

    A name in `others` has addresses of its own.

    With `cached_seconds` it answers as a cache does, with the addresses of up to so long ago. With `delay_seconds` each
    answer takes that long.
    """

    def __init__(self) -> None:
        self.addresses: list[str] = []
        self.others: dict[str, list[str]] = {}
        self.silent = False
        self.cached_seconds = 0.0
        self.delay_seconds = 0.0
        self._cached: tuple[float, list[str]] = (0.0, [])
        self._transport: asyncio.DatagramTransport | None = None
        self._closed = asyncio.Event()
        self.over_tcp = 0
        """Questions that came over TCP."""
        self._server: asyncio.Server | None = None

    async def listen(self, address: str, port: int) -> None:
        """Serve this address over UDP and TCP."""
        loop = asyncio.get_running_loop()
        await loop.create_datagram_endpoint(lambda: self, local_addr=(address, port))
        self._server = await asyncio.start_server(self._serve, address, port)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the questions of one connection (RFC 1035, 4.2.2: each has its length before it)."""
        with suppress(asyncio.IncompleteReadError, OSError):
            while True:
                (length,) = struct.unpack(">H", await reader.readexactly(2))
                question = await reader.readexactly(length)
                self.over_tcp += 1
                if not self.silent:
                    found = answer(question, self._known(question, asyncio.get_running_loop().time()))
                    writer.write(struct.pack(">H", len(found)) + found)
        writer.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport for answers."""
        # In Python 3.11 it is no instance of DatagramTransport, although the documentation says so.
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str | int, int]) -> None:
        """Answer a question."""
        loop = asyncio.get_running_loop()
        if not self.silent:
            loop.call_later(self.delay_seconds, self._send, answer(data, self._known(data, loop.time())), addr)

    def _known(self, question: bytes, now: float) -> list[str]:
        if (others := self.others.get(name(question))) is not None:
            return others
        read_at, addresses = self._cached
        if now >= read_at + self.cached_seconds:
            addresses = list(self.addresses)
            self._cached = (now, addresses)
        return addresses

    def _send(self, data: bytes, addr: tuple[str | int, int]) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.sendto(data, addr)

    def connection_lost(self, _exc: Exception | None) -> None:
        """Signal `close` that the address is free."""
        self._closed.set()

    async def close(self) -> None:
        """End the server."""
        if self._server is not None:
            self._server.close()
        if self._transport is not None:
            self._transport.close()
            await self._closed.wait()


def name(question: bytes) -> str:
    """The name that a question is about (RFC 1035, section 4.1.2), without the dot at its end."""
    labels, place = [], _HEADER_BYTES
    while length := question[place]:
        labels.append(question[place + 1 : place + 1 + length].decode("ascii", "replace"))
        place += length + 1
    return ".".join(labels)


def answer(question: bytes, addresses: list[str]) -> bytes:
    """The datagram that answers a question with these addresses (RFC 1035, section 4)."""
    end = _HEADER_BYTES
    while question[end]:
        end += question[end] + 1
    (kind,) = struct.unpack_from(">H", question, end + 1)
    flags = _AUTHORITATIVE_ANSWER if addresses else _AUTHORITATIVE_ANSWER | _NAME_ERROR
    asked = {TYPE_A: 4, TYPE_AAAA: 6}.get(kind)
    given = [ip.packed for ip in map(ip_address, addresses) if ip.version == asked]
    pointer = struct.pack(">H", 0xC000 | _HEADER_BYTES)
    records = b"".join(pointer + struct.pack(">HHIH", kind, 1, TTL_SECONDS, len(ip)) + ip for ip in given)
    counts = struct.pack(">HHHHH", flags, 1, len(given), 0, 0)
    return question[:2] + counts + question[_HEADER_BYTES : end + 5] + records
