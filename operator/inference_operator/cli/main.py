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
    words = sys.argv[1:] if arguments is None else arguments
    run_command(
        lambda: _run(argparse.Namespace(**{**vars(parser(words).parse_args(words)), **options}), engines), words
    )


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
