"""Entry point of `infd`: the table of commands, their parser, and the end of a process that ran one.

Of a command, the module with its options is imported only if its name is among the words, and the module with its work
only if it is chosen: the specification's models, the pipeline and the client take most of a second. `infd --help` needs
names and one line for each.
"""

import argparse
import gc
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any, NoReturn

from inference_operator import __version__
from inference_operator.cli.parser import EXIT_INTERRUPTED, STATUSES, Parser, UsageError, error_text, harmless

COMMANDS: Mapping[str, tuple[str, str]] = {
    "run": ("run:add_arguments", "create an InferenceDeployment for a model, and wait until it serves"),
    "list": ("status:add_list", "list InferenceDeployments and what is wrong with them, or their traffic in numbers"),
    "status": ("status:add_status", "show an InferenceDeployment on one screen, once or live, or explain it"),
    "chat": ("chat:add_arguments", "ask the model of an InferenceDeployment, and print its answer as it comes"),
    "ui": ("chat:add_ui", "ask the model of an InferenceDeployment on a page in your browser"),
    "gateway": ("gateway:add_arguments", "show ModelGateways, and ask models through them"),
    "bench": ("bench:add_arguments", "load one service step by step until its latency objective is broken"),
    "drill": ("drill:add_arguments", "cause faults under load, and prove that no request is lost"),
    "logs": ("logs:add_arguments", "print the logs of engines or routers, the cause of a failure first"),
    "render": ("plan:add_render", "print the objects that the operator would create"),
    "plan": ("plan:add_arguments", "show the sizes that InferenceDeployments would get"),
    "fit": ("fit:add_arguments", "check whether a model fits on GPUs"),
    "arguments": ("manifests:add_rules", "say who may set arguments and variables of engines"),
    "inspect": ("job:add_inspect", "read a model's config and file sizes, without its weights"),
    "download": ("job:add_download", "download a model to a folder, as the operator's Jobs do"),
    "cache": ("cache:add_arguments", "list, fill and prune the claims of `spec.cache`"),
    "prune": ("job:add_prune", "delete models and compiled kernels in a folder, as the Jobs of `infd cache prune` do"),
    "pause": ("edit:add_pause", "stop the operator from changing an InferenceDeployment"),
    "resume": ("edit:add_resume", "let the operator change a paused InferenceDeployment again"),
    "restart": ("edit:add_restart", "replace engines or routers one by one"),
    "doctor": ("doctor:add_arguments", "check whether a cluster is as the operator needs it, and say what helps"),
    "support-bundle": (
        "support_bundle:add_arguments",
        "collect what others need to help you, without secrets, in one archive",
    ),
    "import": (
        "import_:add_arguments",
        "turn a KubeAI Model, a vLLM Deployment or a KServe LLMInferenceService into an InferenceDeployment",
    ),
    "completion": ("manifests:add_completion", "print the script that completes commands and names in a shell"),
    "renew": ("edit:add_renew", "replace routers and engines that keep something of an earlier release"),
    "key": ("manifests:add_key", "make API keys for users, and name the users behind metrics"),
    "crd": ("manifests:add_crd", "print the CustomResourceDefinition"),
    "policy": ("manifests:add_policy", "print the admission policies"),
}
"""What adds the options of each command, by its name (`named`), and its line of the help."""
APART = frozenset({"download", "prune", "crd", "policy"})
"""Commands for pods and installers, which the help lists apart."""


def named(name: str) -> Callable[..., Any]:
    """A function of this package by its name, whose module is imported only now."""
    module, _, function = name.partition(":")
    gc.disable()  # imports make many objects and no garbage: looking for it would take a seventh of their time
    try:
        result: Callable[..., Any] = getattr(import_module(f"inference_operator.cli.{module}"), function)
    finally:
        gc.enable()
    return result


class CommandParser(Parser):
    groups: Mapping[str, Sequence[str]]

    def format_help(self) -> str:
        head, options, tail = super().format_help().partition("\noptions:\n")
        return "".join([head, *map(_listed, self.groups, self.groups.values()), options, tail])


def _listed(title: str, names: Sequence[str]) -> str:
    width = max(map(len, names), default=0) + 2
    columns = shutil.get_terminal_size().columns - 2
    wrap = partial(textwrap.fill, width=columns, subsequent_indent=" " * (width + 2))
    lines = (wrap(COMMANDS[name][1], initial_indent=f"  {name.ljust(width)}") for name in names)
    return "\n".join([f"\n{title}:", *lines, ""]) if names else ""


def parser(
    words: Collection[str] = COMMANDS,
    commands: Collection[str] = COMMANDS,
    description: str = "Plan models without a cluster, and run, list and explain them in one.",
    apart: Collection[str] = APART,
) -> argparse.ArgumentParser:
    """The parser of some commands, with the options of those that are among the words."""
    result = CommandParser(
        prog="infd", usage="infd [-h] [--version] COMMAND ...", description=description, epilog=STATUSES
    )
    result.groups = {
        "commands": [name for name in commands if name not in apart],
        "commands for pods and installers": [name for name in commands if name in apart],
    }
    result.add_argument("--version", action="version", version=__version__, help="show the version and exit")
    parsers = result.add_subparsers(
        required=True, prog="infd", metavar="COMMAND", help=argparse.SUPPRESS, parser_class=Parser
    )
    for name in commands:
        command = parsers.add_parser(name)
        if name in words:
            named(COMMANDS[name][0])(command)
    return result


def run_command(run: Callable[[], int], words: Sequence[str]) -> NoReturn:
    try:
        sys.exit(run())
    except UsageError as error:
        print(harmless(error_text(error, words)), file=sys.stderr)
        sys.exit(error.status)
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
    except BrokenPipeError:  # the reader, such as `head`, has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)


def main(arguments: Sequence[str] | None = None, engines: object = None, **options: object) -> None:
    """Run `infd` and exit.

    Args:
        arguments: the command line without the program name; None reads `sys.argv`.
        engines: the registry of the engines that models can be sized for; None: all engines.
        options: values in place of those that the command line gives, and of waits that it cannot change.
    """
    if "_ARGCOMPLETE" in os.environ:
        named("completer:complete")()
    words = sys.argv[1:] if arguments is None else arguments

    def run() -> int:
        given = argparse.Namespace(**{**vars(parser(words).parse_args(words)), "engines": engines, **options})
        try:
            if "kubeconfig" in given and "namespace" in given and given.namespace is None:
                given.namespace = named("cluster_command:namespace_of_context")(given)
            return int(named(given.run)(given))
        except ValueError as error:
            if lines := named("operator_settings:errors_of")(error):
                raise UsageError("\n".join(lines)) from error
            raise

    run_command(run, words)
