"""The HTTP API of vLLM: completions, chat completions, streams, models, health and metrics."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from typing import Any

from aiohttp import web

from e2e.simulator.answers import END, Answers, models
from e2e.simulator.engine import Engine, QueueFullError, prompt_tokens

VERSION = "0.32.0"
DEFAULT_MAX_TOKENS = 16
"""Of a completion; a chat completion may fill the context (vLLM 0.32.0, `entrypoints/openai`)."""
MOST_BODY_BYTES = 2**26
ENGINE = web.AppKey("engine", Engine)
_STARTED = int(time.time())


class ApiError(Exception):
    """An error that the client gets."""

    def __init__(self, status: int, kind: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status, self.kind, self.param = status, kind, param


@dataclass(frozen=True, slots=True)
class Question:
    """What a client asks for, of either kind."""

    text: str
    most: int
    stream: bool
    with_usage: bool
    exactly: bool
    echo: str
    """What the answer begins with."""
    answers: Answers


def application(engine: Engine) -> web.Application:
    """The server; its engine runs as long as it does."""
    app = web.Application(client_max_size=MOST_BODY_BYTES, middlewares=[_errors])
    app[ENGINE] = engine
    app.cleanup_ctx.append(_running)
    app.router.add_get("/health", _health)
    app.router.add_get("/version", _version)
    app.router.add_get("/metrics", _metrics)
    app.router.add_get("/v1/models", _models)
    app.router.add_post("/v1/completions", _completion)
    app.router.add_post("/v1/chat/completions", _chat_completion)
    return app


async def _running(app: web.Application) -> AsyncIterator[None]:
    task = asyncio.create_task(app[ENGINE].run())
    yield
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


@web.middleware
async def _errors(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    try:
        return await handler(request)
    except QueueFullError:
        error = ApiError(503, "ServiceUnavailableError", "As many requests wait as --max-num-queued-reqs allows.")
    except ApiError as raised:
        error = raised
    body = {"message": str(error), "type": error.kind, "param": error.param, "code": error.status}
    return _json({"error": body}, error.status)


async def _health(_request: web.Request) -> web.Response:
    return web.Response()


async def _version(_request: web.Request) -> web.Response:
    return _json({"version": VERSION})


async def _metrics(request: web.Request) -> web.Response:
    text = request.app[ENGINE].metrics.text()
    return web.Response(body=text, headers={"Content-Type": "text/plain; version=1.0.0; charset=utf-8"})


async def _models(request: web.Request) -> web.Response:
    options = request.app[ENGINE].options
    return _json(models(options.names, options.max_model_len, _STARTED))


async def _completion(request: web.Request) -> web.StreamResponse:
    body = await _body(request)
    prompt = body.get("prompt")
    if not prompt:
        raise ApiError(400, "BadRequestError", "There is no prompt.", "prompt")
    text = prompt if isinstance(prompt, str) else json.dumps(prompt)
    return await _answer(request, _question(request, body, text, chat=False))


async def _chat_completion(request: web.Request) -> web.StreamResponse:
    body = await _body(request)
    messages = body.get("messages")
    if not isinstance(messages, list):
        raise ApiError(400, "Bad Request", "There are no messages.", "body.messages")
    text = "\n".join(_text(message) for message in messages)
    return await _answer(request, _question(request, body, text, chat=True))


def _text(message: dict[str, Any]) -> str:
    """The text of a message; a part that is no text counts as its kind."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "".join(part["text"] if part.get("type") == "text" else f"<{part.get('type')}>" for part in content)


async def _body(request: web.Request) -> dict[str, Any]:
    try:
        body = json.loads(await request.read())
    except ValueError as error:
        raise ApiError(400, "Bad Request", f"The body is no JSON: {error}") from error
    if not isinstance(body, dict):
        raise ApiError(400, "Bad Request", "The body is no JSON object.")
    return body


def _question(request: web.Request, body: dict[str, Any], text: str, *, chat: bool) -> Question:
    options, prompt = request.app[ENGINE].options, prompt_tokens(text)
    model = body.get("model", options.names[0])
    if model not in options.names:
        raise ApiError(404, "NotFoundError", f"The model `{model}` does not exist.", "model")
    room = options.max_model_len - prompt
    given = body.get("max_completion_tokens") or body.get("max_tokens")
    most = given or (room if chat else DEFAULT_MAX_TOKENS)
    if not 1 <= most <= room:
        message = f"max_tokens={most} does not fit: prompt and answer have {options.max_model_len} tokens at most."
        raise ApiError(400, "BadRequestError", message, "max_tokens")
    return Question(
        text=text,
        most=most,
        stream=bool(body.get("stream")),
        with_usage=bool((body.get("stream_options") or {}).get("include_usage")),
        exactly=bool(body.get("ignore_eos")),
        echo=text if body.get("echo") and not chat else "",
        answers=Answers(model, chat, prompt, _tool(body) if chat else None),
    )


def _tool(body: dict[str, Any]) -> str | None:
    """The function that an answer must call: the one that is named, or the first."""
    choice, tools = body.get("tool_choice"), body.get("tools")
    if isinstance(choice, dict):
        return str(choice["function"]["name"])
    return str(tools[0]["function"]["name"]) if tools and choice == "required" else None


async def _answer(request: web.Request, question: Question) -> web.StreamResponse:
    tokens = request.app[ENGINE].answer(question.text, question.most, exactly=question.exactly)
    async with aclosing(tokens):
        if not question.stream:
            return _json(question.answers.whole([token async for token in tokens], question.echo))
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        count = 0
        async for token in tokens:
            if not count:
                await response.prepare(request)
                await response.write(question.answers.opening())
            count += 1
            text = token.text if count > 1 else question.echo + token.text
            await response.write(question.answers.chunk(replace(token, text=text)))
        if question.with_usage:
            await response.write(question.answers.usage(count))
        await response.write(END)
        return response


def _json(value: dict[str, Any], status: int = 200) -> web.Response:
    body = json.dumps(value, separators=(",", ":")).encode()
    return web.Response(body=body, status=status, content_type="application/json")
