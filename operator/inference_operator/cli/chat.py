"""`infd chat`: talks with the model of a resource, through the API server and a router."""

import argparse
import asyncio
import sys
from typing import TYPE_CHECKING

from inference_operator.api.reasons import ConditionType
from inference_operator.api.refusal import Refusal
from inference_operator.api.resource import Resource, resource
from inference_operator.cli.connection import add_connection, add_timeout
from inference_operator.cli.explain import read_resource
from inference_operator.cli.output import harmless
from inference_operator.cli.parser import EXIT_INTERRUPTED, EXIT_REFUSED, UsageError, examples
from inference_operator.cli.service_key import add_key, service_key
from inference_operator.engines.registry import EngineRegistry
from inference_operator.manifest import Manifest

if TYPE_CHECKING:
    from inference_operator.kube.client import Api
    from inference_operator.kube.cluster import KubeCluster

WAIT_SECONDS = 3600
"""Default of --timeout: an engine that starts from zero may download its model first."""
EXAMPLES = examples(
    'infd chat qwen "Why is the sky blue?"',
    'git diff | infd chat qwen --system "Review this change."',
    "infd chat qwen --key-from my-key/key --model my-adapter",
)


def add_arguments(chat: argparse.ArgumentParser) -> None:
    """Add the description and the arguments of `infd chat`."""
    chat.description = (
        "Ask the model of an InferenceDeployment, and print its answer as it comes. Without PROMPT, the question is"
        " standard input; on a terminal, questions follow one another until Ctrl-D, and Ctrl-C stops an answer. The"
        " request goes through the API server to a router, as with `kubectl port-forward`. It needs the rights to get"
        " the resource, to list pods, and to get and create `pods/portforward`. At zero engines it waits for the one"
        " that the question starts. Exit status 1: the service refuses or breaks off the answer."
    )
    chat.epilog = EXAMPLES
    chat.add_argument("name", help="name of the InferenceDeployment")
    chat.add_argument("prompt", nargs="?", metavar="PROMPT", help="the question; default: standard input")
    add_connection(chat)
    chat.add_argument("--system", default="", metavar="TEXT", help="instruction for the whole conversation")
    chat.add_argument("--model", default="", metavar="NAME", help="an adapter; default: the model itself")
    chat.add_argument("--max-tokens", type=int, metavar="N", help="longest answer; default: the engine's")
    chat.add_argument("--temperature", type=float, metavar="T", help="randomness of answers; default: the engine's")
    add_key(chat)
    add_timeout(chat, WAIT_SECONDS, "give up waiting for an engine")
    chat.set_defaults(run=_run, waits=None)


def _run(options: argparse.Namespace, _: EngineRegistry) -> int:
    """Answer one question, or one after the other."""
    is_dialogue = options.prompt is None and sys.stdin.isatty()
    question = "" if is_dialogue else (_piped() if options.prompt is None else options.prompt).strip()
    if not question and not is_dialogue:
        raise UsageError('There is no question. Write it after the name: infd chat NAME "Hello"')

    async def work(api: "Api", cluster: "KubeCluster", live: Manifest) -> int:
        return await _talk(api, cluster, resource(live), options, question)

    try:
        return asyncio.run(read_resource(options, options.name, work))
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def _piped() -> str:
    """The text of standard input."""
    try:
        text = sys.stdin.read()
        text.encode()  # the locale C decodes every byte
    except UnicodeError as error:
        raise UsageError("standard input: is not UTF-8 text.") from error
    return text


async def _talk(api: "Api", cluster: "KubeCluster", found: Resource, options: argparse.Namespace, question: str) -> int:
    """Answer; with an empty question those that are typed."""
    from inference_operator.cli.chat_session import (  # noqa: PLC0415 - aiohttp takes half a second
        ChatSession,
        ChatWaits,
        talk,
    )
    from inference_operator.cli.conversation import Conversation, Sampling  # noqa: PLC0415 - as above
    from inference_operator.cli.service_client import ServiceClient, served_model  # noqa: PLC0415 - as above

    if problem := cannot_answer(found):
        print(harmless(problem), file=sys.stderr)
        return EXIT_REFUSED
    key = await service_key(cluster, found, options.key_from)
    sampling = Sampling(options.max_tokens, options.temperature)
    conversation = Conversation(options.model or served_model(found), options.system, sampling)
    async with ServiceClient(api, cluster, found, key) as client:
        session = ChatSession(client, cluster, found, conversation, options.timeout, waits=options.waits or ChatWaits())
        return await session.ask(question) if question else await talk(session)


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
