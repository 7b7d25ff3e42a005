"""Entry point of `infd`, the command line that plans without a cluster, and shows and changes what runs in one.

The module of a command is imported only if it is chosen: the specification's models and the pipeline take most of a
second. `infd --help` needs names and one line for each.
"""

import argparse
import gc
import os
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from inference_operator.cli.commands import command_parser, run_command
from inference_operator.cli.job import COMMANDS as JOB_COMMANDS
from inference_operator.cli.parser import UsageError

if TYPE_CHECKING:
    from inference_operator.engines.registry import EngineRegistry

COMMANDS: Mapping[str, str] = {
    "run": "create an InferenceDeployment for a model, and wait until it serves",
    "list": "list InferenceDeployments, and what is wrong with them",
    "status": "show an InferenceDeployment on one screen, once or live",
    "chat": "ask the model of an InferenceDeployment, and print its answer as it comes",
    "top": "show the traffic of InferenceDeployments in numbers, once or live",
    "bench": "load one service step by step until its latency objective is broken",
    "logs": "print the logs of engines or routers, the cause of a failure first",
    "render": "print the objects that the operator would create",
    "plan": "show the sizes that InferenceDeployments would get",
    "fit": "check whether a model fits on GPUs",
    "inspect": JOB_COMMANDS["inspect"],
    "download": JOB_COMMANDS["download"],
    "cache": "list, fill and prune the claims of `spec.cache`",
    "prune": JOB_COMMANDS["prune"],
    "explain": "explain what an InferenceDeployment waits for, and why it is slow",
    "pause": "stop the operator from changing an InferenceDeployment",
    "resume": "let the operator change a paused InferenceDeployment again",
    "restart": "replace engines or routers one by one",
    "doctor": "check whether a cluster is as the operator needs it, and say what helps",
    "support-bundle": "collect what others need to help you, without secrets, in one archive",
    "import": "turn a KubeAI Model, a vLLM Deployment or a KServe LLMInferenceService into an InferenceDeployment",
    "completion": "print the script that completes commands and names in a shell",
    "renew": "replace routers and engines that keep something of an earlier release",
    "key": "make API keys for users",
    "crd": "print the CustomResourceDefinition",
    "policy": "print the admission policies",
}
"""The commands with their help. Each has a module here (`commands.module_of`), with `add_arguments`."""
APART = frozenset({"download", "prune", "crd", "policy"})
"""Commands for pods and installers, which the help lists apart."""


def main(arguments: Sequence[str] | None = None, engines: "EngineRegistry | None" = None, **options: object) -> None:
    """Run `infd` and exit.

    Args:
        arguments: the command line without the program name; None reads `sys.argv`.
        engines: the engines that models can be sized for; None: all engines.
        options: values in place of those that the command line gives, and of waits that it cannot change.
    """
    if "_ARGCOMPLETE" in os.environ:
        from inference_operator.cli.completer import complete  # noqa: PLC0415 - only where a shell asks

        complete()
    words = sys.argv[1:] if arguments is None else arguments
    run_command(lambda: _run(argparse.Namespace(**{**vars(_parsed(words)), **options}), engines), words)


def _parsed(words: Sequence[str]) -> argparse.Namespace:
    gc.disable()  # imports make many objects and no garbage: looking for it would take a seventh of their time
    try:
        return parser(words).parse_args(words)
    finally:
        gc.enable()


def parser(words: Collection[str] = COMMANDS) -> argparse.ArgumentParser:
    """The parser of all commands, with the arguments of those that are among the words."""
    return command_parser(
        "Plan models without a cluster, and run, list and explain them in one.", COMMANDS, words, APART
    )


def _run(options: argparse.Namespace, engines: "EngineRegistry | None") -> int:
    """Run the chosen command; returns the exit status."""
    from pydantic import ValidationError  # noqa: PLC0415 - imported by all commands, and not for `--help`

    from inference_operator.cli.connection import resolve_namespace  # noqa: PLC0415 - as above
    from inference_operator.engines.registry import ENGINES  # noqa: PLC0415 - as above
    from inference_operator.settings import setting_errors  # noqa: PLC0415 - as above

    try:
        resolve_namespace(options)
        status: int = options.run(options, engines or ENGINES)
    except ValidationError as error:
        raise UsageError("\n".join(setting_errors(error))) from error
    return status
