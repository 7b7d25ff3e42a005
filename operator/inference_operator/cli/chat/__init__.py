"""The options of `infd chat` and `infd ui`."""

import argparse

from inference_operator.cli.options import add_connection, add_key, add_timeout
from inference_operator.cli.parser import examples

WAIT_SECONDS = 3600
"""Default of --timeout: an engine that starts from zero may download its model first."""


def add_arguments(chat: argparse.ArgumentParser) -> None:
    chat.description = (
        "Ask the model of an InferenceDeployment, and print its answer as it comes. Without PROMPT, the question is"
        " standard input; on a terminal, questions follow one another until Ctrl-D, and Ctrl-C stops an answer. The"
        " request goes through the API server to a router, as with `kubectl port-forward`. It needs the rights to get"
        " the resource, to list pods, and to get and create `pods/portforward`. At zero engines it waits for the one"
        " that the question starts. Exit status 1: the service refuses or breaks off the answer."
    )
    chat.epilog = examples(
        'infd chat qwen "Why is the sky blue?"',
        'git diff | infd chat qwen --system "Review this change."',
        "infd chat qwen --key-from my-key/key --model my-adapter",
    )
    chat.add_argument("name", help="name of the InferenceDeployment")
    add_conversation(chat)
    chat.add_argument("--model", default="", metavar="NAME", help="an adapter; default: the model itself")
    chat.set_defaults(run="chat.command:run")


def add_ui(page: argparse.ArgumentParser) -> None:
    page.description = (
        "Ask the model of an InferenceDeployment on a page in your browser, until Ctrl-C. The page comes from this"
        " command and loads nothing from elsewhere; what a model says is shown as text. Only this machine reaches it"
        " (127.0.0.1), and only who knows its whole address. Requests go as with `infd chat`, and need the same rights."
    )
    page.epilog = examples("infd ui qwen", "infd ui qwen --port 8000 --key-from my-key/key")
    page.add_argument("name", help="name of the InferenceDeployment")
    page.add_argument("--port", type=int, default=0, metavar="N", help="port on 127.0.0.1; default: a free one")
    _add_question(page)
    page.add_argument("--model", default="", metavar="NAME", help="an adapter; default: the model itself")
    page.set_defaults(run="chat.page:run")


def add_conversation(chat: argparse.ArgumentParser) -> None:
    chat.add_argument("prompt", nargs="?", metavar="PROMPT", help="the question; default: standard input")
    _add_question(chat)


def _add_question(chat: argparse.ArgumentParser) -> None:
    add_connection(chat)
    chat.add_argument("--system", default="", metavar="TEXT", help="instruction for the whole conversation")
    chat.add_argument("--max-tokens", type=int, metavar="N", help="longest answer; default: the engine's")
    chat.add_argument("--temperature", type=float, metavar="T", help="randomness of answers; default: the engine's")
    add_key(chat)
    add_timeout(chat, WAIT_SECONDS, "give up waiting for an engine")
    chat.set_defaults(waits=None)
