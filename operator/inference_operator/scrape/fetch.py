"""Bounded requests to pods, which may be anybody's code."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus

from aiohttp import ClientError, ClientSession, ClientTimeout, TCPConnector

from inference_operator.manifest import Manifest

CONNECT_SECONDS, ANSWER_SECONDS = 1.0, 3.0
"""A pod of the same cluster answers within milliseconds; a busy one has the time of a slow probe."""

MOST_BYTES = 1 << 20
"""Of an answer: vLLM's metrics take 60 kB."""


class Fetch:
    """GET and POST, without redirects, proxies or compression. What cannot be had is None."""

    def __init__(self, session: ClientSession) -> None:
        self._session = session

    async def text(self, url: str) -> str | None:
        """The body of an answer 200 to GET."""
        try:
            async with self._session.get(url, allow_redirects=False) as answer:
                if answer.status != HTTPStatus.OK:
                    return None
                body = bytearray()
                async for chunk in answer.content.iter_any():
                    body += chunk
                    if len(body) > MOST_BYTES:
                        return None
        except (ClientError, OSError, TimeoutError):
            return None
        return body.decode(errors="replace")

    async def status(self, url: str, body: Manifest, *, seconds: float) -> int | None:
        """The status of an answer to POST; raises `TimeoutError` where there is none in time, None if refused."""
        limits = ClientTimeout(total=seconds, sock_connect=CONNECT_SECONDS)
        try:
            async with self._session.post(url, json=body, timeout=limits, allow_redirects=False) as answer:
                return answer.status
        except TimeoutError:
            raise
        except (ClientError, OSError):
            return None


@asynccontextmanager
async def fetching() -> AsyncIterator[Fetch]:
    """A client for as long as the context is open; connections are not kept, since there would be one for each pod."""
    connector = TCPConnector(limit=0, force_close=True)
    limits = ClientTimeout(total=ANSWER_SECONDS, sock_connect=CONNECT_SECONDS)
    headers = {"Accept-Encoding": "identity", "User-Agent": "inference-operator"}
    async with ClientSession(
        connector=connector, timeout=limits, headers=headers, auto_decompress=False, trust_env=False
    ) as session:
        yield Fetch(session)
