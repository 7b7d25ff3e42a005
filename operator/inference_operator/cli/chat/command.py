"""`infd chat`: talks with the model of a resource, out of reach at times: it waits for engines and connects again."""

import argparse
import asyncio
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from prompt_toolkit import PromptSession

from inference_operator.api.model_gateway import MODEL_GATEWAY_API
from inference_operator.api.reasons import ConditionType
from inference_operator.api.refusal import Refusal
from inference_operator.api.resource import INFERENCE_DEPLOYMENT_API, AnyResource, Resource, ResourceApi
from inference_operator.cli.chat.answers import (
    AnswerBrokenError,
    AnswerDelta,
    AnswerRefusedError,
    AnswerTimes,
    Conversation,
)
from inference_operator.cli.chat.client import ServiceClient, refusal_words, served_model, service_client
from inference_operator.cli.cluster_command import ClusterCommand
from inference_operator.cli.options import STDIN, file_text
from inference_operator.cli.parser import EXIT_INTERRUPTED, EXIT_REFUSED, RefusedError, UsageError, harmless
from inference_operator.controller.cluster import ClusterError
from inference_operator.kube.cluster import KubeCluster
from inference_operator.manifest import MODEL_GATEWAY, Manifest


def run(options: argparse.Namespace) -> int:
    return _run(options, INFERENCE_DEPLOYMENT_API, cannot_answer)


def run_at_gateway(options: argparse.Namespace) -> int:
    return _run(options, MODEL_GATEWAY_API, no_pod_answers)


def _run(options: argparse.Namespace, asked: "ResourceApi[Any, Any]", problem: Callable[[Any], str]) -> int:
    question = _question(options)

    async def work(cluster: KubeCluster, live: Manifest) -> int:
        found = asked.parse(live)
        if why := problem(found):
            raise RefusedError(why)
        model = options.model or served_model(found)
        conversation = Conversation(model, options.system, options.max_tokens, options.temperature)
        async with service_client(cluster, found, options.key_from) as client:
            session = ChatSession(client, cluster, found, conversation, options.timeout, options.waits or ChatWaits())
            return await session.ask(question) if question else await talk(session)

    return ClusterCommand(options).run_for(options.name, work, asked.kind)


def no_pod_answers(found: AnyResource) -> str:
    name, status = found.key.name, found.status
    return "" if status.ready_replicas else f"No pod of {name} is ready: {status.message}"


def _question(options: argparse.Namespace) -> str:
    """What to ask; empty where questions are typed."""
    is_dialogue = options.prompt is None and sys.stdin.isatty()
    question = "" if is_dialogue else (file_text(STDIN) if options.prompt is None else options.prompt).strip()
    if not question and not is_dialogue:
        raise UsageError('There is no question. Write it after the name: infd chat NAME "Hello"')
    return question


def cannot_answer(found: Resource) -> str:
    """Why a resource will answer no request, with what helps; empty if it may."""
    name = found.key.name
    stalled = found.status.condition(ConditionType.STALLED)
    if isinstance(found.spec, Refusal):
        return f"{name} is invalid: {found.spec.message}"
    if found.status.ready_replicas:
        return ""
    if stalled and stalled.status == "True":
        return f"{name} has no engine: {stalled.message}"
    if found.spec.autoscaling is None and found.spec.replicas == 0:
        return f"{name} has `replicas: 0`, so no engine will start. Start one: kubectl scale infd {name} --replicas=1"
    return ""


def no_ready_engine(name: str) -> str:
    return f"{name} has no ready engine. `infd status {name}` shows the cause."


MAX_CONNECTIONS = 5
"""Attempts to connect for one question before its first token."""
DIM, PLAIN = "\x1b[2m", "\x1b[0m"


@dataclass(frozen=True, slots=True)
class ChatWaits:
    """Seconds that a conversation waits."""

    first_look: float = 1.0
    """For a token, until it looks at the status."""
    look: float = 2.0
    """Between two looks at the status while no token has come."""
    retry: float = 5.0
    """Before the next attempt, where the service names no time."""
    connect: float = 1.0
    """Before it connects again."""


class Screen(Protocol):
    """Where the pieces of an answer go, and what is said about it."""

    stop: str

    async def show(self, delta: AnswerDelta) -> None: ...

    async def say(self, text: str) -> None: ...


class Terminal:
    """Standard output has the answer, standard error what is said about it."""

    stop = "Ctrl-C gives up"

    def __init__(self) -> None:
        self._has_text = self._thinks = False

    async def show(self, delta: AnswerDelta) -> None:
        """Print a piece. What a model thinks is no answer: it goes to a terminal only, in another colour."""
        coloured = sys.stdout.isatty()
        if delta.reasoning and coloured:
            print(f"{DIM}{harmless(delta.reasoning)}{PLAIN}", end="", flush=True)
            self._thinks = True
        if delta.text:
            print("\n\n" * self._thinks + harmless(delta.text), end="", flush=True)
            self._has_text, self._thinks = True, False

    async def say(self, text: str) -> None:
        if self._has_text or self._thinks:
            print(flush=True)
        self._has_text = self._thinks = False
        _say(text)


@dataclass(slots=True)
class ChatSession:
    client: ServiceClient
    cluster: KubeCluster
    found: AnyResource
    conversation: Conversation
    timeout_seconds: float
    waits: ChatWaits
    screen: Screen = field(default_factory=Terminal)
    _answer: str = ""
    _had_engine: bool = False
    """Whether an engine was ready when the question was last refused."""

    async def ask(self, question: str) -> int:
        end, connections = time.monotonic() + self.timeout_seconds, 0
        self._answer, self._had_engine = "", False
        while True:
            connections += 1
            try:
                times = await self._answered(question)
            except AnswerRefusedError as error:
                if error.lacks_template and self.conversation.has_template:
                    self.conversation.has_template = False
                    await self.screen.say(
                        "The model has no chat template, so it continues the text instead of answering."
                    )
                    continue
                if await self._waits(error, end):
                    connections = 0
                    continue
                await self.screen.say(refusal_words(error, self.found, self.conversation.model))
                return EXIT_REFUSED
            except AnswerBrokenError as error:
                if self._answer or connections >= MAX_CONNECTIONS:
                    await self.screen.say(self._broken(error))
                    return EXIT_REFUSED
                await asyncio.sleep(self.waits.connect)
                continue
            await self.screen.say(times.words)
            self.conversation.turns.append((question, self._answer))
            return 0

    async def stopped(self, question: str) -> None:
        """Keep a question whose answer was stopped, as far as it came."""
        await self.screen.say("Stopped.")
        if self._answer:
            self.conversation.turns.append((question, self._answer))

    def _broken(self, error: AnswerBrokenError) -> str:
        if self._answer:
            return "The connection broke before the answer ended. Ask again to go on."
        name = self.found.key.name
        return f"No answer: the connection to {name} breaks ({error}). `infd status {name}` shows its routers."

    async def _answered(self, question: str) -> AnswerTimes:
        path, body = self.conversation.request(question)
        times = AnswerTimes(time.monotonic())
        progress = asyncio.ensure_future(self._report_progress())
        try:
            async for delta in self.client.stream(path, body):
                times.add(delta, time.monotonic())
                if times.pieces:
                    progress.cancel()
                self._answer += delta.text
                await self.screen.show(delta)
        finally:
            progress.cancel()
            await asyncio.gather(progress, return_exceptions=True)
        return times

    async def _waits(self, error: AnswerRefusedError, end: float) -> bool:
        """Whether to ask again, after a while: the router held the question for an engine as long as it may."""
        left = end - time.monotonic()
        if self._answer or error.retry_after is None or error.status < 500 or left <= 0:  # noqa: PLR2004 - HTTP
            return False
        found = await self._look()
        has_engine = found is not None and found.status.ready_replicas > 0
        if has_engine and self._had_engine:  # with one refusal, it may have become ready after it
            return False
        self._had_engine = has_engine
        await asyncio.sleep(min(error.retry_after or self.waits.retry, left))
        return True

    async def _report_progress(self) -> None:
        """Tell, while no token has come, that an engine starts, and each new message of the status."""
        said = ""
        while True:
            await asyncio.sleep(self.waits.look if said else self.waits.first_look)
            found = await self._look()
            if found is None or found.status.ready_replicas:
                continue
            if not said:
                await self.screen.say(
                    f"No engine of {found.key.name} is ready. The question waits for one; {self.screen.stop}."
                )
            if said != (said := found.status.message or "-"):
                await self.screen.say(said)

    async def _look(self) -> AnyResource | None:
        key = self.found.key
        api = MODEL_GATEWAY_API if key.kind == MODEL_GATEWAY else INFERENCE_DEPLOYMENT_API
        with suppress(ClusterError):
            live = await self.cluster.get(key.ref)
            return api.parse(live) if live else None
        return None


async def talk(session: ChatSession) -> int:
    lines: PromptSession[str] = PromptSession()
    _say("Ctrl-C stops an answer, Ctrl-D ends.")
    while True:
        try:
            question = (await lines.prompt_async("> ")).strip()
        except KeyboardInterrupt:
            continue
        except EOFError:
            return 0
        if question:
            await _ask_until_stopped(session, question)


async def _ask_until_stopped(session: ChatSession, question: str) -> int:
    asked = asyncio.ensure_future(session.ask(question))
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, asked.cancel)
    try:
        return await asked
    except asyncio.CancelledError:
        await session.stopped(question)
        return EXIT_INTERRUPTED
    except UsageError as error:
        _say(str(error))
        return EXIT_REFUSED
    finally:
        loop.remove_signal_handler(signal.SIGINT)


def _say(text: str) -> None:
    text = harmless(text)
    print(f"{DIM}{text}{PLAIN}" if sys.stderr.isatty() else text, file=sys.stderr, flush=True)
