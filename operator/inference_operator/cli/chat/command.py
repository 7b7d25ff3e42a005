"""`infd chat`: talks with the model of a resource, through the API server and a router."""

import argparse
import sys

from inference_operator.api.reasons import ConditionType
from inference_operator.api.refusal import Refusal
from inference_operator.api.resource import Resource, resource
from inference_operator.cli.chat_session import ChatSession, ChatWaits, talk
from inference_operator.cli.cluster_command import ClusterCommand
from inference_operator.cli.conversation import Conversation, Sampling
from inference_operator.cli.parser import EXIT_REFUSED, UsageError, harmless
from inference_operator.cli.service_client import ServiceClient, served_model
from inference_operator.cli.service_key import service_key
from inference_operator.engines.registry import EngineRegistry
from inference_operator.kube.client import Api
from inference_operator.kube.cluster import KubeCluster
from inference_operator.manifest import Manifest


def run(options: argparse.Namespace, _: EngineRegistry) -> int:
    """Answer one question, or one after the other."""
    is_dialogue = options.prompt is None and sys.stdin.isatty()
    question = "" if is_dialogue else (_piped() if options.prompt is None else options.prompt).strip()
    if not question and not is_dialogue:
        raise UsageError('There is no question. Write it after the name: infd chat NAME "Hello"')

    async def work(api: Api, cluster: KubeCluster, live: Manifest) -> int:
        return await _talk(api, cluster, resource(live), options, question)

    return ClusterCommand(options).run_for(options.name, work)


def _piped() -> str:
    """The text of standard input."""
    try:
        text = sys.stdin.read()
        text.encode()  # the locale C decodes every byte
    except UnicodeError as error:
        raise UsageError("standard input: is not UTF-8 text.") from error
    return text


async def _talk(api: Api, cluster: KubeCluster, found: Resource, options: argparse.Namespace, question: str) -> int:
    """Answer; with an empty question those that are typed."""
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
