"""Sends one completion over HTTP, plain or streamed, and checks its answer without knowing of any fault.

An answer is whole, in the order of its stream, and that to its own request, as far as the engine can show it.
"""

import errno
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import aiohttp

from inference_operator.cli.drill.promises import CheckedAnswer, Loss
from inference_operator.views.raw import mapping, objects

TOKENS = 16
"""Tokens of an answer: enough that a fault hits streams in the middle, few enough for many requests."""
DATA = b"data:"
DONE = b"[DONE]"
OK_CLASS, TOO_MANY_REQUESTS = 2, 429
BAD_REQUEST, UNPROCESSABLE = 400, 422
REQUEST_ID = "X-Request-Id"
"""Routers keep that of a client, and send it with the answer."""
_DETAIL_CHARACTERS = 300
"""Enough for an error in the OpenAI API's format."""


@dataclass(frozen=True, slots=True)
class EngineTraits:
    echoes: bool = False
    """Whether it repeats the prompt before its answer (`echo` of the OpenAI API), and so the request's number."""
    counts: bool = False
    """Whether it writes exactly as many tokens as it is asked for (`ignore_eos` of vLLM), and counts them."""


@dataclass(frozen=True, slots=True)
class Question:
    url: str
    model: str
    prompt: str
    streamed: bool
    tokens: int = TOKENS
    traits: EngineTraits = EngineTraits()
    number: int = 0
    request_id: str = ""

    @property
    def body(self) -> Mapping[str, object]:
        body: dict[str, object] = {
            "model": self.model,
            "prompt": self.prompt,
            "max_tokens": self.tokens,
            "temperature": 0,
            "stream": self.streamed,
        }
        if self.traits.echoes:
            body["echo"] = True
        if self.traits.counts:
            body |= {"ignore_eos": True} | ({"stream_options": {"include_usage": True}} if self.streamed else {})
        return body


class _BrokenError(aiohttp.ClientPayloadError):
    """The answer is incomplete or no completion."""


async def ask(session: aiohttp.ClientSession, question: Question, expected: str | None, *, kept: bool) -> CheckedAnswer:
    """Send a request; returns its outcome, also for errors. `expected` is None where the model is not known."""
    started = time.monotonic()
    answer = CheckedAnswer(started, started, question.streamed, kept, number=question.number)
    answer = await _tried(session, question, expected, answer)
    return replace(answer, ended=time.monotonic(), detail=answer.detail[:_DETAIL_CHARACTERS])


async def _tried(
    session: aiohttp.ClientSession, question: Question, expected: str | None, answer: CheckedAnswer
) -> CheckedAnswer:
    status = None
    try:
        async with _post(session, question) as response:
            status = response.status
            said_id = response.headers.get(REQUEST_ID, "")
            answer = replace(answer, status=status, request_id=said_id)
            if question.request_id and said_id not in ("", question.request_id):
                return replace(answer, loss=Loss.MIXED_UP, detail=f"{REQUEST_ID}: {said_id}")
            if status // 100 != OK_CLASS:
                loss = None if status == TOO_MANY_REQUESTS else Loss.STATUS
                return replace(answer, loss=loss, detail=await response.text(errors="replace"))
            text = (await _read(response, question)).text
    except TimeoutError as error:
        return replace(answer, loss=Loss.LATE, detail=repr(error))
    except aiohttp.ClientConnectorError as error:
        # A slow client can find a new connection already closed. It was established, so it was not refused.
        loss = Loss.RESET if error.errno == errno.ECONNRESET else Loss.REFUSED
        return replace(answer, loss=loss, detail=repr(error))
    except (aiohttp.ClientError, aiohttp.http.HttpProcessingError, OSError) as error:
        return replace(answer, loss=Loss.RESET if status is None else Loss.BROKEN, detail=repr(error))
    return _compared(answer, question, text, expected)


def _compared(answer: CheckedAnswer, question: Question, text: str, expected: str | None) -> CheckedAnswer:
    if question.traits.echoes:
        if not text.startswith(question.prompt):
            return replace(answer, loss=Loss.MIXED_UP, detail=f"{text!r} does not begin with {question.prompt!r}")
        text = text.removeprefix(question.prompt)
    if expected is not None and text != expected:
        return replace(answer, loss=Loss.DIFFERENT, detail=f"{text!r} instead of {expected!r}")
    return answer


def _post(session: aiohttp.ClientSession, question: Question) -> aiohttp.client._RequestContextManager:
    headers = {REQUEST_ID: question.request_id} if question.request_id else {}
    return session.post(question.url, json=question.body, headers=headers)


async def engine_traits(session: aiohttp.ClientSession, question: Question) -> EngineTraits:
    """What the engine of a question shows: of what it is asked for at once, and alone where it refuses that.

    Raises:
        aiohttp.ClientError: the service does not answer, or refuses a plain question.
    """
    for asked in (EngineTraits(echoes=True, counts=True), EngineTraits(counts=True), EngineTraits(echoes=True)):
        tried = replace(question, traits=asked)
        async with _post(session, tried) as response:
            if response.status in {BAD_REQUEST, UNPROCESSABLE}:
                continue
            response.raise_for_status()
            read = await _read(response, replace(tried, traits=EngineTraits()))
        counts = asked.counts and read.counted == question.tokens
        return EngineTraits(asked.echoes and read.text.startswith(question.prompt), counts)
    await answer_text(session, question)
    return EngineTraits()


async def answer_text(session: aiohttp.ClientSession, question: Question) -> str:
    async with _post(session, question) as response:
        response.raise_for_status()
        return (await _read(response, question)).text


@dataclass(slots=True)
class _Reading:
    parts: list[str] = field(default_factory=list)
    ids: set[object] = field(default_factory=set)
    """Of its chunks: all have that of the completion."""
    ends: list[object] = field(default_factory=list)
    """The `finish_reason` of each part of the text, where the engine has one."""
    counted: int | None = None

    @property
    def text(self) -> str:
        return "".join(self.parts)

    def add(self, data: bytes) -> None:
        try:
            found = json.loads(data)
            choices = list(objects(found, "choices"))
            usage = mapping(found, "usage").get("completion_tokens")
            parts = [choice["text"] for choice in choices]
            self.ids.add(found.get("id"))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise _BrokenError(f"no completion: {data.decode(errors='replace')}") from error
        if not all(isinstance(part, str) for part in parts) or not (parts or usage is not None):
            raise _BrokenError(f"no text: {data.decode(errors='replace')}")
        if any(self.ends) and parts:
            raise _BrokenError(f"it goes on after its end: {data.decode(errors='replace')}")
        self.parts += parts
        self.ends += [choice["finish_reason"] for choice in choices if "finish_reason" in choice]
        self.counted = usage if isinstance(usage, int) else self.counted

    def check(self, question: Question) -> None:
        """Raise if the parts are not those of one whole answer."""
        if len(self.ids) > 1:
            raise _BrokenError(f"parts of several answers: {sorted(map(str, self.ids))}")
        if self.ends and not self.ends[-1]:
            raise _BrokenError("it ended without a finish_reason")
        if question.traits.counts and self.counted != question.tokens:
            raise _BrokenError(f"{self.counted} tokens instead of {question.tokens}")
        own = [part for part in self.parts if part and part != question.prompt]
        if self.counted is not None and len(own) > max(self.counted, 1):
            raise _BrokenError(f"{len(own)} parts with {self.counted} tokens: some came twice")


async def _read(response: aiohttp.ClientResponse, question: Question) -> _Reading:
    reading = _Reading()
    try:
        if question.streamed:
            await _streamed(response, reading.add)
        else:
            reading.add(await response.read())
    except ValueError as error:  # aiohttp's, of a line without an end
        raise _BrokenError(str(error)) from error
    reading.check(question)
    return reading


async def _streamed(response: aiohttp.ClientResponse, add: Callable[[bytes], None]) -> None:
    count = 0
    async for line in response.content:
        if not line.startswith(DATA):
            continue
        data = line.removeprefix(DATA).strip()
        if data == DONE:
            # Only a body that is read to its end frees the connection for the next request.
            if (await response.read()).strip():
                raise _BrokenError("the stream goes on after its end marker")
            return
        add(data)
        count += 1
    raise _BrokenError(f"the stream ended without its end marker after {count} chunks")
