"""The options of `infd gateway list`, `status` and `chat`."""

import argparse

from inference_operator.cli.chat import add_conversation
from inference_operator.cli.options import add_connection, add_output
from inference_operator.cli.parser import examples


def add_arguments(gateway: argparse.ArgumentParser) -> None:
    gateway.description = "Show ModelGateways, and ask models through them."
    made = gateway.add_subparsers(required=True, metavar="COMMAND")
    listed = made.add_parser(
        "list",
        help="list gateways and what is wrong with them",
        description="List ModelGateways: whether each is ready, its models that can answer, its pods, and below"
        " the list what is wrong and what helps. It needs the right to list them.",
    )
    add_connection(listed, all_namespaces="the gateways of all namespaces")
    add_output(listed)
    listed.epilog = examples("infd gateway list -A")
    listed.set_defaults(run="gateway.command:list_gateways")
    status = made.add_parser(
        "status",
        help="show a gateway and its names",
        description="Show one ModelGateway: what is wrong and what helps, its URL, and each name that requests may use,"
        " with the InferenceDeployments that answer. It needs the rights to get the gateway and its ConfigMap. Exit"
        " status 1: it is not ready.",
    )
    status.epilog = examples("infd gateway status models")
    status.add_argument("name", help="name of the ModelGateway")
    add_connection(status)
    add_output(status)
    status.set_defaults(run="gateway.command:show")
    chat = made.add_parser("chat", help="ask a model through a gateway")
    chat.description = "Ask a model through a ModelGateway, as `infd chat` asks one at its own routers."
    chat.epilog = examples('infd gateway chat models qwen "Why is the sky blue?"')
    chat.add_argument("name", help="name of the ModelGateway")
    chat.add_argument("model", metavar="MODEL", help="name of the model, adapter or alias")
    add_conversation(chat)
    chat.set_defaults(run="chat.command:run_at_gateway")
