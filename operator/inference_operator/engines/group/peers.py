"""Connections between members. A part of the program of each member; standard library only."""

import asyncio
import json
import socket
import time
from collections import Counter
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address

from inference_operator.engines.group.options import Words

LINE_BYTES = 4096
"""Most bytes of a line, and of the head of an HTTP request."""
MOST_VISITORS, MOST_OF_SOURCE = 64, 4
"""Connections that have said nothing yet: of all strangers, and of one address. The kubelet has two at a time."""
FIRST_LINE_SECONDS = 5.0
PATIENCE_SECONDS = 1.0
"""How long a connection may say nothing where there are no more places. Who is honest speaks first."""
PROBE_SECONDS, PROBES = 3, 3
"""TCP keepalive."""
_DNS = ThreadPoolExecutor(2, "dns")
"""Threads of their own, so that no stranger keeps the program from looking at its engine."""
Address = IPv4Address | IPv6Address | None
TIMED_OUT = (TimeoutError, asyncio.TimeoutError)  # two classes in Python 3.10


class Peer:
    """A connection to another member, or to one who says so."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer, self.heard = reader, writer, time.monotonic()
        self.closed = asyncio.Event()

    async def read(self) -> Words:
        """The next line; empty once there is none, or if it is none of a member."""
        with suppress(OSError, ValueError, RecursionError):
            words = json.loads(await self.reader.readline())
            self.heard = time.monotonic()
            return words if isinstance(words, dict) else {}
        return {}

    def trust(self, silence: int) -> None:
        """Make it a member: the kernel breaks the connection if the other end takes nothing any more."""
        connection: socket.socket = self.writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in (
            (socket.TCP_KEEPIDLE, PROBE_SECONDS),
            (socket.TCP_KEEPINTVL, PROBE_SECONDS),
            (socket.TCP_KEEPCNT, PROBES),
            (socket.TCP_USER_TIMEOUT, 1000 * silence),
        ):
            connection.setsockopt(socket.IPPROTO_TCP, option, value)

    def send(self, words: Words) -> None:
        if not self.writer.is_closing():
            self.writer.write(json.dumps(words).encode() + b"\n")

    def finish(self) -> None:
        """Send nothing more. What was sent arrives, other than with `close`."""
        with suppress(OSError):
            if not self.writer.is_closing():
                self.writer.write_eof()

    def close(self) -> None:
        self.closed.set()
        self.writer.transport.abort()


async def addresses(host: str) -> Collection[IPv4Address | IPv6Address]:
    """The addresses that DNS gives for a name; none if it does not answer in time."""
    asking = asyncio.get_running_loop().run_in_executor(_DNS, socket.getaddrinfo, host, None)
    with suppress(OSError, ValueError, *TIMED_OUT):
        return {_plain(str(one[4][0])) for one in await asyncio.wait_for(asking, FIRST_LINE_SECONDS)}
    return ()


def source(writer: asyncio.StreamWriter) -> Address:
    """The address from which a connection comes; None once it is gone."""
    with suppress(ValueError):
        return _plain((writer.get_extra_info("peername") or ("",))[0])
    return None


def _plain(address: str) -> IPv4Address | IPv6Address:
    """An address without its interface; an IPv4 address that a socket of both families shows is one of IPv4."""
    found = ip_address(address.partition("%")[0])
    return getattr(found, "ipv4_mapped", None) or found


def surplus(silent: Sequence[tuple[Address, float]], members: Collection[Address]) -> int | None:
    """Which of the connections that have said nothing is closed when the last of them has come; None for none.

    1. Addresses of members have places of their own, of which one more than there are takes the oldest's.
    2. Of an address with too many, the oldest goes if it has been silent for long, and else the new one.
    3. Of all addresses together, the same for the address with the most; the new one stays if it has another address.

    Args:
        silent: the source of each, and for how many seconds it has been silent; the oldest first.
    """
    new, _ = silent[-1]
    if new in members:
        own = [index for index, (address, _) in enumerate(silent) if address in members]
        return own[0] if len(own) > MOST_VISITORS else None
    counts = Counter(address for address, _ in silent if address not in members)
    if counts[new] > MOST_OF_SOURCE:
        crowded = new
    elif counts.total() > MOST_VISITORS:
        crowded = max(counts, key=lambda address: counts[address])
    else:
        return None
    oldest = next(index for index, (address, _) in enumerate(silent) if address == crowded)
    return len(silent) - 1 if crowded == new and silent[oldest][1] <= PATIENCE_SECONDS else oldest


class Visitors:
    """The connections to one port that have said nothing yet."""

    def __init__(self) -> None:
        self.writers: dict[asyncio.StreamWriter, tuple[Address, float]] = {}
        self.members: Collection[Address] = ()

    async def first_line(self, peer: Peer) -> Words:
        """The first line of a connection; empty if it is none of a member, or late."""
        self.admit(peer.writer)
        with suppress(*TIMED_OUT):
            return await asyncio.wait_for(peer.read(), FIRST_LINE_SECONDS)
        return {}

    async def request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[str, str]:
        """Method and path of an HTTP request; empty if it is none, or late."""
        self.admit(writer)
        with suppress(OSError, EOFError, asyncio.LimitOverrunError, *TIMED_OUT):
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), FIRST_LINE_SECONDS)
            method, path, *_ = [*head.decode("latin-1").split(maxsplit=2), "", ""]
            return method, path
        return "", ""

    def admit(self, writer: asyncio.StreamWriter) -> None:
        """Remember a connection until `leave`, and close one if there are too many."""
        now = time.monotonic()
        self.writers[writer] = source(writer), now
        silent = [(address, now - since) for address, since in self.writers.values()]
        if (index := surplus(silent, self.members)) is not None:
            closed = list(self.writers)[index]
            self.leave(closed)
            closed.transport.abort()

    def leave(self, writer: asyncio.StreamWriter) -> None:
        self.writers.pop(writer, None)


def listener(port: int) -> socket.socket:
    """A socket that listens on all addresses of the pod, IPv6 and IPv4."""
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", port))
