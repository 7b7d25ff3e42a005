"""Generates the reference page of `infd` from its parser."""

import argparse
from collections.abc import Iterator

from inference_operator.cli.main import parser
from inference_operator.cli.parser import STATUSES

INTRODUCTION = f"""\
# `infd`, the command line
`infd` creates resources (`infd run`), shows what runs (`infd list`, `infd status`, `infd logs`), [asks and measures
it](../how-to/ask-and-measure.md) (`infd chat`, `infd bench`), [proves](../how-to/drill.md) that no request is lost
(`infd drill`), and plans without a cluster. Commands with `--context` use a cluster as kubectl does: the kubeconfig's
current context and its namespace, unless options name others. Reading needs the rights to get and list what a command
shows, and `pods/proxy` for metrics; requests to a model need `pods/portforward`; `infd doctor` says which you have.
These commands write: `infd run` a new resource; `infd cache prefetch` and `infd cache prune` a Job, and a ConfigMap
that records its result; `infd restart` and `infd renew` an annotation in the specification of resources; `infd pause`
and `infd resume` the field `spec.paused`; `infd drill` the same as `infd restart` and an annotation that it removes;
`infd doctor --cluster` a pod that it deletes. In a clone of the repository, `uv run infd` runs it, and `uv tool
install .` puts `infd` and `kubectl infd` on the PATH, with the program by which kubectl completes it. It requires
Python 3.11 or newer. `make archives` builds archives for machines [without this
repository](../contributing/release.md#infd-without-this-repository), which krew installs too.

Options stand in any order; `-n`, `--context` and `--kubeconfig` also before the command. After `--` there are names
only. `infd help COMMAND` shows the help of a command.

{STATUSES} `infd fit` exits with 1 if the model fits on none of the GPUs, or if none of them carry the rate.

With `-o json` or `-o yaml`, a command about one thing prints an object, and one about several prints
`{{"items": [...]}}`, however many there are. Keys are in camelCase, except in the output of `infd inspect`, which other
commands read. An error is one object on standard error:
`{{"error": {{"reason": "NotFound", "exitStatus": 3, "message": "…"}}}}`.
Files are as in kubectl: YAML or JSON, several documents, lists, directories, `-`. Other objects in them are ignored.
The operator's settings have their defaults, unless its environment variables (`INFERENCE_OPERATOR_…`) are set.

This page is generated from `operator/inference_operator/cli`.
"""


def page() -> str:
    """The page about the command line."""
    return INTRODUCTION + "".join(line for name, one in _commands() for line in _command(name, one))


def _commands() -> Iterator[tuple[str, argparse.ArgumentParser]]:
    yield from _within(parser(), "")


def _within(one: argparse.ArgumentParser, name: str) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """The commands of a command, each followed by its own."""
    for action in one._actions:  # noqa: SLF001 - argparse shows its arguments in no other way
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - as above
            for short, command in action.choices.items():
                yield f"{name}{short}", command
                yield from _within(command, f"{name}{short} ")


def _command(name: str, one: argparse.ArgumentParser) -> Iterator[str]:
    arguments = [
        action
        for action in one._actions  # noqa: SLF001 - as above
        if action.dest != "help" and not isinstance(action, argparse._SubParsersAction)  # noqa: SLF001 - as above
    ]
    yield f"\n## `infd {name}`\n{one.description}\n"
    if arguments:
        yield "\n| argument | meaning |\n|---|---|\n"
        yield from (f"| {_called(action)} | {action.help} |\n" for action in arguments)
    if one.epilog:
        yield f"\n```sh\n{_examples(one.epilog)}```\n"


def _examples(epilog: str) -> str:
    return "".join(f"{line.strip()}\n" for line in epilog.splitlines()[1:])


def _called(action: argparse.Action) -> str:
    if not action.option_strings:
        return f"`{action.dest.upper()}`"
    value = "" if action.nargs == 0 else f" {_value(action)}"
    return ", ".join(f"`{name}{value}`" for name in action.option_strings)


def _value(action: argparse.Action) -> str:
    if action.choices:
        return "{" + ",".join(action.choices) + "}"
    return str(action.metavar or action.dest.upper())
