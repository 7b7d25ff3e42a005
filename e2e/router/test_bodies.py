"""Bodies through a router: every byte of requests and answers is the same on both sides."""

import asyncio
import gzip
import hashlib
import io
from collections.abc import AsyncIterator

import aiohttp
import pytest

from e2e.router.loopback import Loopback
from e2e.router.test_hostile import SHORT_SECONDS, shortened
from inference_operator.api.router import RouterSpec
from inference_operator.router.long_bodies import SEARCHED_BYTES
from inference_operator.router.resources import MOST_BUFFER_BYTES

BUFFER_BYTES = 16 * 1024
"""HAProxy's default buffer (`tune.bufsize`), which `PrefixAffinity` changes to MOST_BUFFER_BYTES."""
_EDGES = [size + more for size in (BUFFER_BYTES, MOST_BUFFER_BYTES) for more in (-1024, -1, 0, 1)]
SIZES = (0, 1, *_EDGES, 5 * 2**20)
PART_BYTES = 10_007
"""Parts of a chunked body; a prime number, so that their ends meet those of buffers nowhere."""


async def _parts(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), PART_BYTES):
        yield body[start : start + PART_BYTES]


@pytest.mark.parametrize("strategy", ["LeastOutstanding", "PrefixAffinity"])
async def test_bodies_of_any_size_framing_and_encoding_pass_byte_for_byte(loopback: Loopback, strategy: str) -> None:
    loopback.spec = RouterSpec.model_validate({"strategy": strategy})
    await loopback.start_router()
    await loopback.start_engine()
    await loopback.until_served(1)
    url = f"{loopback.url}/v1/embeddings"
    async with aiohttp.ClientSession(auto_decompress=False) as session:
        for size in SIZES:
            plain = hashlib.shake_128(b"any bytes").digest(size)
            for body, headers in ((plain, {}), (gzip.compress(plain), {"Content-Encoding": "gzip"})):
                for chunked in (False, True):
                    data = _parts(body) if chunked else io.BytesIO(body)
                    async with session.post(url, data=data, headers=headers) as answer:
                        told = (size, headers, chunked)
                        assert (answer.status, await answer.read() == body) == (200, True), told
                        assert answer.headers.get("Content-Encoding") == headers.get("Content-Encoding"), told
                        assert ("Transfer-Encoding" in answer.headers) == chunked, told


@pytest.mark.parametrize("strategy", ["LeastOutstanding", "PrefixAffinity"])
@pytest.mark.parametrize("adapters", [(), ("sql",)])
async def test_a_long_body_of_a_slow_client_is_answered(
    loopback: Loopback, strategy: str, adapters: tuple[str, ...]
) -> None:
    """Its start is here in time, and it never pauses for long."""
    loopback.spec, loopback.change = RouterSpec.model_validate({"strategy": strategy}), shortened
    loopback.has_adapters = bool(adapters)
    loopback.write_adapters("\n".join(adapters))
    await loopback.start_router()
    await loopback.start_engine()
    await loopback.until_served(1)
    start, rest = b'{"model": "chat", "input": "%s' % (b"x" * (SEARCHED_BYTES + 1024)), [b"x", b"x", b'"}']
    length = {"Content-Length": str(len(start) + sum(map(len, rest)))}

    async def slowly() -> AsyncIterator[bytes]:
        yield start
        for part in rest:
            await asyncio.sleep(0.7 * SHORT_SECONDS)
            yield part

    async with loopback.session.post(f"{loopback.url}/v1/embeddings", data=slowly(), headers=length) as answer:
        assert (answer.status, await answer.read()) == (200, start + b"".join(rest))
