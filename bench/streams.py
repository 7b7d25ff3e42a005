"""Streams through a load balancer: how late chunks arrive, and what each costs its CPU.

    python -m bench.streams PORT ADDRESS...

is the engine of these measurements. It answers every POST with `CHUNKS` events `GAP_SECONDS` apart. An event carries
the time at which it was sent.
"""

import asyncio
import ssl
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

CHUNKS, GAP_SECONDS = 100, 0.02
"""As an engine that answers with 50 tokens a second."""
STREAMS = 40
READ_SECONDS = 120
"""Limit for streams that take 2 s."""
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
_DATA = b"data: "
_END = b"data: [DONE]"
_FIELD = b'"sent":'
_BODY = b'{"model":"chat","messages":[{"role":"user","content":"x"}],"stream":true,"max_tokens":100}'


@dataclass(frozen=True, slots=True)
class Streamed:
    """Lags of all chunks in milliseconds, in ascending order."""

    lags_ms: Sequence[float]
    broken: int


async def streamed(address: str, port: int, *, key: str = "", tls: ssl.SSLContext | None = None) -> Streamed:
    """Read `STREAMS` streams at the same time, with an API key if one is given."""
    async with asyncio.timeout(READ_SECONDS):
        results = await asyncio.gather(*(_read(address, port, key, tls) for _ in range(STREAMS)))
    lags = sorted(lag for result in results for lag in result)
    return Streamed(lags, sum(len(result) < CHUNKS for result in results))


async def _read(address: str, port: int, key: str, tls: ssl.SSLContext | None) -> list[float]:
    reader, writer = await asyncio.open_connection(address, port, ssl=tls)
    head = (
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nConnection: close\r\n"
    )
    head += f"Authorization: Bearer {key}\r\n".encode() if key else b""
    writer.write(head + b"Content-Length: %d\r\n\r\n" % len(_BODY) + _BODY)
    lags = []
    async for line in reader:
        if line.startswith(_DATA) and _FIELD in line:
            sent = line.partition(_FIELD)[2].partition(b",")[0]
            lags.append((time.time() - float(sent)) * 1000)
        elif line.startswith(_END):
            break  # the connection may be kept
    writer.close()
    return lags


async def _serve(port: int, addresses: Sequence[str]) -> None:
    servers = [await asyncio.start_server(_answer, address, port, backlog=1024) for address in addresses]
    await asyncio.gather(*(server.serve_forever() for server in servers))


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while head := await _head(reader):
            await reader.readexactly(_length(head))
            if not head.startswith(b"POST"):
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
                continue
            writer.write(_HEAD)
            for _ in range(CHUNKS):
                event = b'data: {"sent":%.6f,"choices":[{"index":0,"delta":{"content":"word"}}]}\n\n' % time.time()
                writer.write(b"%x\r\n%b\r\n" % (len(event), event))
                await writer.drain()  # raises once the other side has left
                await asyncio.sleep(GAP_SECONDS)
            writer.write(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")
    except (ConnectionError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()


async def _head(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return b""


def _length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.partition(b":")[2])
    return 0


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), sys.argv[2:]))
