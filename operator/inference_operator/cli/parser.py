"""The argument parser of `infd`, its exit statuses, and the error for wrong usage."""

import argparse
from typing import NoReturn

EXIT_REFUSED = 1
"""Exit status when the input was understood and is rejected."""
EXIT_USAGE = 2
"""Exit status when the command line or a file is invalid, as in argparse."""
EXIT_INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells have it: 128 and the number of SIGINT."""
STATUSES = "Exit status: 0 success; 1 a resource was rejected; 2 the command line or a file is invalid."


class UsageError(Exception):
    """The command line or a file is invalid; the message is for the user."""


class Parser(argparse.ArgumentParser):
    """An argument parser that prints an error and a hint instead of the whole usage."""

    def error(self, message: str) -> NoReturn:
        """Print the error and exit."""
        self.exit(EXIT_USAGE, f"{self.prog}: {message}\nSee `{self.prog} --help`.\n")
