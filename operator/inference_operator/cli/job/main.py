"""Entry point of the program of Jobs: the commands of `infd` that need neither engines nor settings.

Jobs run it where the operator's image is the official one of Python (jobs/program.py).
"""

import sys
from collections.abc import Sequence

from inference_operator.cli.main import named, parser, run_command

COMMANDS = ("inspect", "download", "prune")
DESCRIPTION = "Run what Jobs of inference-operator run."


def main() -> None:
    words = sys.argv[1:]
    run_command(lambda: _run(words), words)


def _run(words: Sequence[str]) -> int:
    options = parser(words, COMMANDS, DESCRIPTION, apart=()).parse_args(words)
    return int(named(options.run)(options))
