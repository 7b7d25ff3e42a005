"""Entry point of the program of Jobs: the commands of `infd` that need neither engines nor settings.

Jobs run it where the operator's image is the official one of Python (jobs/program.py).
"""

import sys
from collections.abc import Sequence

from inference_operator.cli.commands import command_parser, run_command

COMMANDS = {
    "inspect": "read a model's config and file sizes, without its weights",
    "download": "download a model to a folder, as the operator's Jobs do",
    "prune": "delete models and compiled kernels in a folder, as the Jobs of `infd cache prune` do",
}
"""The commands with their help."""


def main() -> None:
    """Run one of the commands and exit."""
    words = sys.argv[1:]
    run_command(lambda: _run(words), words)


def _run(words: Sequence[str]) -> int:
    options = command_parser("Run what Jobs of inference-operator run.", COMMANDS, words).parse_args(words)
    return int(options.run(options, None))
