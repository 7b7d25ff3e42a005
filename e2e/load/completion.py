"""Sends one completion over HTTP, plain or streamed, and classifies its outcome."""

import asyncio
import errno
import json
import time
from dataclasses import dataclass

import aiohttp

from e2e.load.answer import Answer, Loss

TOKENS = 16
"""Tokens of an answer: enough that a fault hits streams in the middle, few enough for many requests."""
DATA = b"data:"
DONE = b"[DONE]"
OK_CLASS, TOO_MANY_REQUESTS = 2, 429
_DETAIL_CHARACTERS = 300
"""Enough for an error in the OpenAI API's format, which `Answer.clean_error` parses."""


@dataclass(frozen=True, slots=True)
class Question:
    """A request for a completion."""

    url: str
    model: str
    prompt: str
    streamed: bool
    tokens: int = TOKENS

    @property
    def body(self) -> dict[str, str | int | bool]:
        """The request's body."""
        return {
            "model": self.model,
            "prompt": self.prompt,
            "max_tokens": self.tokens,
            "temperature": 0,
            "stream": self.streamed,
        }


class _BrokenError(Exception):
    """The answer is incomplete or no completion."""


async def ask(session: aiohttp.ClientSession, question: Question, expected: str, *, kept: bool) -> Answer:
    """Send a request; returns its outcome, also for errors."""
    started = time.monotonic()
    loss, status, detail = await _try(session, question, expected)
    return Answer(started, time.monotonic(), question.streamed, kept, loss, status, detail[:_DETAIL_CHARACTERS])


async def _try(
    session: aiohttp.ClientSession, question: Question, expected: str
) -> tuple[Loss | None, int | None, str]:
    status = None
    try:
        async with session.post(question.url, json=question.body) as response:
            status = response.status
            if status == TOO_MANY_REQUESTS:
                return None, status, await response.text()
            if status // 100 != OK_CLASS:
                return Loss.STATUS, status, await response.text()
            text = await (_streamed(response) if question.streamed else _plain(response))
    except TimeoutError as error:
        return Loss.LATE, status, repr(error)
    except aiohttp.ClientConnectorError as error:
        # A slow client can find a new connection already closed. It was established, so it was not refused.
        return Loss.RESET if error.errno == errno.ECONNRESET else Loss.REFUSED, status, repr(error)
    except (aiohttp.ClientError, OSError, _BrokenError) as error:
        return Loss.RESET if status is None else Loss.BROKEN, status, repr(error)
    if text != expected:
        return Loss.DIFFERENT, status, f"{text!r} instead of {expected!r}"
    return None, status, ""


async def answer_text(session: aiohttp.ClientSession, question: Question) -> str:
    """The text of one answer; errors are raised."""
    async with session.post(question.url, json=question.body, raise_for_status=True) as response:
        return await (_streamed(response) if question.streamed else _plain(response))


async def chunk_times(session: aiohttp.ClientSession, question: Question) -> list[float]:
    """Arrival of each chunk of a stream in seconds after the request, without the end marker."""
    started = asyncio.get_running_loop().time()
    times: list[float] = []
    async with session.post(question.url, json=question.body, raise_for_status=True) as response:
        async for line in response.content:
            data = line.removeprefix(DATA).strip()
            if line.startswith(DATA) and data != DONE:
                times.append(asyncio.get_running_loop().time() - started)
    return times


async def _plain(response: aiohttp.ClientResponse) -> str:
    return _text(await response.read())


async def _streamed(response: aiohttp.ClientResponse) -> str:
    parts: list[str] = []
    async for line in response.content:
        if not line.startswith(DATA):
            continue
        data = line.removeprefix(DATA).strip()
        if data == DONE:
            # Only a body that is read to its end frees the connection for the next request.
            await response.read()
            return "".join(parts)
        parts.append(_text(data))
    raise _BrokenError(f"the stream ended without its end marker after {len(parts)} chunks")


def _text(data: bytes) -> str:
    """The text in a completion or a chunk of one."""
    try:
        text = json.loads(data)["choices"][0]["text"]
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise _BrokenError(f"no completion: {data.decode(errors='replace')}") from error
    if not isinstance(text, str):
        raise _BrokenError(f"no text: {data.decode(errors='replace')}")
    return text
