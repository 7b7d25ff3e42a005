"""`infd ui`: a page in the browser of this machine that asks the model of a resource, through `infd chat`'s own way.

- It listens on 127.0.0.1 only. Every user and every page of this machine reach that port, so the address has a token.
- The page loads nothing from elsewhere, and its policy turns no text into a tag or a script.
- A browser that leaves ends its question, and one that reads slowly slows the engine's answer down: nothing piles up.
"""

import argparse
import asyncio
import json
import secrets
from importlib.resources import files

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from inference_operator.api.resource import Resource, resource
from inference_operator.cli.chat.answers import AnswerDelta, Conversation
from inference_operator.cli.chat.client import ServiceClient, served_model, service_client
from inference_operator.cli.chat.command import ChatSession, ChatWaits, cannot_answer
from inference_operator.cli.cluster_command import ClusterCommand
from inference_operator.cli.parser import RefusedError, UsageError, harmless
from inference_operator.controller.cluster import ClusterError
from inference_operator.kube.cluster import KubeCluster
from inference_operator.manifest import Manifest

HOST = "127.0.0.1"
BODY_BYTES = 2**20
"""Largest question with what was said before."""
STOP_SECONDS = 1.0
"""Until answers under way end after Ctrl-C."""
BODY_SECONDS = 10.0
"""Limit for the browser to send it."""
ANSWERS_AT_ONCE = 8
"""Of all tabs: each holds a connection of the API server and a place at an engine."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none';"
    " form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
PAGE = {"": ("page.html", "text/html"), "page.js": ("page.js", "text/javascript"), "page.css": ("page.css", "text/css")}


class ChatRequest(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    question: str = Field(min_length=1)
    turns: list[tuple[str, str]] = Field(default=[], strict=False)


def run(options: argparse.Namespace) -> int:
    async def work(cluster: KubeCluster, live: Manifest) -> int:
        found = resource(live)
        if problem := cannot_answer(found):
            raise RefusedError(problem)
        async with service_client(cluster, found, options.key_from) as client:
            return await _serve(Page(client, cluster, found, options), options.port)

    return ClusterCommand(options).run_for(options.name, work)


async def _serve(page: "Page", port: int) -> int:
    runner = web.AppRunner(page.app, access_log=None, handler_cancellation=True, shutdown_timeout=STOP_SECONDS)
    await runner.setup()
    try:
        site = web.TCPSite(runner, HOST, port)
        await site.start()
        print(harmless(f"{site.name}/{page.token}/\nOpen this address. Ctrl-C ends it."), flush=True)
        await asyncio.Event().wait()
    except (OSError, OverflowError) as error:
        raise UsageError(f"--port: {port} cannot be used. Without --port, it takes a free one.") from error
    finally:
        await runner.cleanup()
    return 0


class Page:
    def __init__(
        self, client: ServiceClient, cluster: KubeCluster, found: Resource, options: argparse.Namespace
    ) -> None:
        self.token = secrets.token_urlsafe(16)
        self._client, self._cluster, self._found, self._options = client, cluster, found, options
        self._model = options.model or served_model(found)
        self._has_template = True
        self._places = asyncio.Semaphore(ANSWERS_AT_ONCE)
        self.app = web.Application(client_max_size=BODY_BYTES)
        self.app.on_response_prepare.append(_on_prepare)
        self.app.router.add_get(f"/{self.token}/state", self._on_state)
        self.app.router.add_post(f"/{self.token}/answers", self._on_question)
        for path in PAGE:
            self.app.router.add_get(f"/{self.token}/{path}", _on_page)

    async def _on_state(self, _: web.Request) -> web.Response:
        key, engines, message = self._found.key, 0, "It was deleted."
        try:
            if live := await self._cluster.get(key.ref):
                status = resource(live).status
                engines, message = status.ready_replicas, status.message or ""
        except ClusterError as error:
            message = f"{error.cause}."
        name = f"{key.namespace}/{key.name}"
        return web.json_response({"name": name, "model": self._model, "engines": engines, "message": harmless(message)})

    async def _on_question(self, request: web.Request) -> web.StreamResponse:
        try:
            asked = ChatRequest.model_validate_json(await asyncio.wait_for(request.read(), BODY_SECONDS))
        except (ValidationError, TimeoutError):
            return web.Response(status=400, text="This is no question of the page.")
        if self._places.locked():
            return web.Response(status=429, text=f"{ANSWERS_AT_ONCE} answers are under way. Stop one.")
        async with self._places:
            return await self._answered(request, asked)

    async def _answered(self, request: web.Request, asked: ChatRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
        await response.prepare(request)
        conversation = Conversation(
            self._model, self._options.system, self._options.max_tokens, self._options.temperature
        )
        conversation.turns, conversation.has_template = list(asked.turns), self._has_template
        waits, screen = self._options.waits or ChatWaits(), BrowserScreen(response)
        session = ChatSession(
            self._client, self._cluster, self._found, conversation, self._options.timeout, waits, screen
        )
        try:
            status = await session.ask(asked.question)
        except UsageError as error:
            await screen.say(str(error))
            status = error.status
        self._has_template = conversation.has_template
        await screen.send(end=status)
        await response.write_eof()
        return response


class BrowserScreen:
    stop = "Stop gives up"

    def __init__(self, response: web.StreamResponse) -> None:
        self._response = response

    async def show(self, delta: AnswerDelta) -> None:
        if delta.text or delta.reasoning:
            await self.send(text=delta.text, reasoning=delta.reasoning)

    async def say(self, text: str) -> None:
        await self.send(say=harmless(text))

    async def send(self, **event: object) -> None:
        await self._response.write(f"{json.dumps(event)}\n".encode())


async def _on_page(request: web.Request) -> web.Response:
    name, kind = PAGE[request.path.rpartition("/")[2]]
    text = files("inference_operator.cli.chat").joinpath(name).read_text(encoding="utf-8")
    return web.Response(text=text, content_type=kind)


async def _on_prepare(_: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(HEADERS)
