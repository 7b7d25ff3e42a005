"""The argument parser of `infd`, its exit statuses, and the errors that end a command."""

import argparse
import json
from collections.abc import Sequence
from itertools import pairwise
from typing import NoReturn

EXIT_REFUSED = 1
"""Exit status when the input was understood and is rejected."""
EXIT_USAGE = 2
"""Exit status when the command line or a file is invalid, as in argparse."""
EXIT_INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells have it: 128 and the number of SIGINT."""
STATUSES = "Exit status: 0 success; 1 a resource was rejected; 2 the command line or a file is invalid."
_OUTPUT = ("-o", "--output")
_FOR_PROGRAMS = ("json", "yaml")


class UsageError(Exception):
    """The command line or a file is invalid; the message is for the user."""

    status = EXIT_USAGE


class RefusedError(UsageError):
    """The command line is valid, and what it asks for was rejected or failed; the message is for the user."""

    status = EXIT_REFUSED


class Parser(argparse.ArgumentParser):
    """An argument parser that gives an error and a hint instead of the whole usage."""

    def error(self, message: str) -> NoReturn:
        """Raise UsageError."""
        raise UsageError(f"{self.prog}: {message}\nSee `{self.prog} --help`.")


def told(error: UsageError, words: Sequence[str]) -> str:
    """The text of an error: one object, which is JSON and YAML, if the command line asks for a form for programs.

    Args:
        error: the end of a command.
        words: the command line without the program's name.

    Examples:
        >>> told(UsageError("There is no such file."), ["plan", "-f", "x.yaml"])
        'There is no such file.'
        >>> told(UsageError("There is no such file."), ["plan", "-f", "x.yaml", "-o", "json"])
        '{"error": {"exitStatus": 2, "message": "There is no such file."}}'
    """
    if not _is_for_programs(words):
        return str(error)
    return json.dumps({"error": {"exitStatus": error.status, "message": str(error)}}, ensure_ascii=False)


def _is_for_programs(words: Sequence[str]) -> bool:
    apart = any(option in _OUTPUT and form in _FOR_PROGRAMS for option, form in pairwise(words))
    return apart or any(
        f"{option}{link}{form}" in words
        for option, link in (("-o", ""), ("-o", "="), ("--output", "="))
        for form in _FOR_PROGRAMS
    )
