"""The parser of the command line, with mistakes in two lines."""

import argparse
from typing import NoReturn

from inference_operator.cli.mistake import MISTAKE

STATUSES = "Exit status: 0 done; 1 something is refused, and why is said; 2 the command line or a file cannot be used."


class Parser(argparse.ArgumentParser):
    """Says what is wrong, and where help is, without all of the usage between both."""

    def error(self, message: str) -> NoReturn:
        """Say it, and end."""
        self.exit(MISTAKE, f"{self.prog}: {message}\nSee `{self.prog} --help`.\n")
