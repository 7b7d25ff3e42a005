"""Entry point of `infd`, the command line that plans without a cluster, and shows and changes what runs in one."""

import argparse
import os
import sys
from collections.abc import Sequence

from inference_operator.cli.commands import named, parser, run_command
from inference_operator.cli.parser import UsageError


def main(arguments: Sequence[str] | None = None, engines: object = None, **options: object) -> None:
    """Run `infd` and exit.

    Args:
        arguments: the command line without the program name; None reads `sys.argv`.
        engines: the registry of the engines that models can be sized for; None: all engines.
        options: values in place of those that the command line gives, and of waits that it cannot change.
    """
    if "_ARGCOMPLETE" in os.environ:
        named("completer:complete")()
    words = _named_as_now(sys.argv[1:] if arguments is None else arguments)
    run_command(
        lambda: _run(argparse.Namespace(**{**vars(parser(words).parse_args(words)), **options}), engines), words
    )


FORMER_NAMES = {"top": ("list", "--traffic"), "explain": ("status", "--why")}
"""Former names of commands, with what does the same. They work for one release."""


def _named_as_now(words: Sequence[str]) -> Sequence[str]:
    """The words of a former command in those of now, which a line tells; `explain autoscaling` is `explain`."""
    name, *rest = words or [""]
    if name == "help" and rest[:1] and rest[0] in FORMER_NAMES:
        return [name, FORMER_NAMES[rest[0]][0]]
    if name not in FORMER_NAMES:
        return words
    now = FORMER_NAMES[name]
    print(f"`infd {name}` is now `infd {' '.join(now)}`, and goes with the next release.", file=sys.stderr)
    around = zip(["", *rest], rest, [*rest[1:], ""], strict=False)
    return [*now, *(word for before, word, after in around if not _is_topic(before, word, after))]


def _is_topic(before: str, word: str, after: str) -> bool:
    """Whether the word is that of `explain autoscaling NAME`, and neither an option's value nor the only name."""
    return word == "autoscaling" and bool(after) and not (before.startswith("-") and "=" not in before)


def _run(options: argparse.Namespace, engines: object) -> int:
    work = named(options.run)
    from pydantic import ValidationError  # noqa: PLC0415 - imported by all commands, and not for `--help`

    from inference_operator.engines.registry import ENGINES  # noqa: PLC0415 - as above
    from inference_operator.settings import setting_errors  # noqa: PLC0415 - as above

    try:
        if "kubeconfig" in options and "namespace" in options and options.namespace is None:
            options.namespace = named("cluster_command:namespace_of_context")(options)
        return int(work(options, engines or ENGINES))
    except ValidationError as error:
        raise UsageError("\n".join(setting_errors(error))) from error
