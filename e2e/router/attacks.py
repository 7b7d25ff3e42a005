"""Attacks on a router of loopback from an address of their own. A connection that ends is followed by another one."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from struct import pack

from e2e.router.loopback import Loopback
from inference_operator.api.router import RouterSpec
from inference_operator.router.observe import ROUTER_METRICS_PATH
from inference_operator.router.process import HEALTH_PATH

ATTACKER = "127.0.0.66"
"""The address from which all attacks come; honest clients have 127.0.0.1."""

BEGIN = b"POST /v1/completions HTTP/1.1\r\nHost: router\r\n"
NO_BODY = BEGIN + b"Content-Length: 100000\r\n\r\n"
DEEP_BYTES = 200_000
DEEP = b'{"messages": ' + b"[" * DEEP_BYTES
DEEP_JSON = BEGIN + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(DEEP) + DEEP
SLOTS, QUEUED = 16, 64
SMALL = {"resources": {"limits": {"memory": "16Mi"}}, "queue": {"maxSize": QUEUED}}
"""A router whose processes have 128 connections each, and 32 requests in the queue."""
ATTACKERS = 300
"""More than the connections of a process, and than those of all its frontends."""
DEEP_ATTACKERS = 16
"""Their requests are whole: more of them would be demand, and fill the queue."""
BEGIN_SECONDS = 1.0
"""An attack has this long until honest clients come."""
AGAIN_SECONDS = 0.2
"""An attacker comes back after this time, so that an attack is bounded."""
DRIP_SECONDS = 0.5

Attack = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
"""What one connection does; it ends with the connection."""


def sent(*parts: bytes) -> Attack:
    """Send these bytes, and then one byte after the other without an end if there is a second part."""

    async def attack(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first, *drip = parts
        writer.write(first)
        ended = asyncio.create_task(reader.read())
        try:
            while drip and not (await asyncio.wait([ended], timeout=DRIP_SECONDS))[0]:
                writer.write(drip[0])
            await ended
        finally:
            ended.cancel()

    return attack


def _frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """A frame of HTTP/2 (RFC 9113, 4.1)."""
    return pack(">I", len(payload))[1:] + pack(">BBI", kind, flags, stream) + payload


def _text(value: bytes) -> bytes:
    return bytes([len(value)]) + value


def streams(number: int) -> bytes:
    """The beginning of an HTTP/2 connection with this many requests that announce a body and send none."""
    # Static table of HPACK (RFC 7541, A): 3 is :method POST, 6 :scheme http, 4 :path, 1 :authority, 28 content-length.
    headers = b"\x83\x86\x04" + _text(b"/v1/completions") + b"\x01" + _text(b"router") + b"\x0f\x0d" + _text(b"100000")
    opened = b"".join(_frame(1, 4, 2 * n + 1, headers) for n in range(number))
    return b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _frame(4, 0, 0) + opened


@asynccontextmanager
async def attacked(port: int, attack: Attack, attackers: int = ATTACKERS) -> AsyncIterator[None]:
    """An attack on a port by so many connections, which has begun."""

    async def one() -> None:
        while True:
            with suppress(OSError):
                reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(ATTACKER, 0))
                try:
                    await attack(reader, writer)
                finally:
                    writer.transport.abort()
            await asyncio.sleep(AGAIN_SECONDS)

    tasks = [asyncio.create_task(one()) for _ in range(attackers)]
    try:
        await asyncio.sleep(BEGIN_SECONDS)
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


HELD = f"GET {ROUTER_METRICS_PATH}?held=86400 HTTP/1.1\r\nHost: router\r\n\r\n".encode()
PAGE = b"GET /metrics HTTP/1.1\r\nHost: router\r\n\r\n"
HEALTH = f"GET {HEALTH_PATH} HTTP/1.1\r\nHost: router\r\n\r\n".encode()

ON_THE_API: dict[str, Attack] = {
    "idle sockets": sent(b""),
    "idle sockets after an answer": sent(HEALTH),
    "slow headers": sent(BEGIN, b"X"),
    "headers without a body": sent(NO_BODY),
    "slow bodies": sent(NO_BODY, b" "),
    "HTTP/2 streams without a body": sent(streams(100)),
}
ON_METRICS: dict[str, Attack] = {
    "idle sockets": sent(b""),
    "pages that wait": sent(HELD),
    "polls": sent(20 * PAGE),
}


async def start_small(router: Loopback, **spec: object) -> None:
    """Start a small router and an engine."""
    router.spec = RouterSpec.model_validate({**SMALL, **spec})
    router.engine_max_concurrency = SLOTS
    await router.start_router()
    await router.start_engine()
    await router.until_served(1)
