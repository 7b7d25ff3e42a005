"""Words that complete a command line. Names of the cluster come from kubectl, which answers in a tenth of a second.

The client of the other commands takes a second to import, too long for a key press.
"""

import argparse
import io
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Collection

import argcomplete
from argcomplete.completers import SuppressCompleter
from argcomplete.finders import CompletionFinder
from argcomplete.shell_integration import shellcode

from inference_operator.cli.main import parser

SECONDS = 3
"""Limit of a look-up: a person waits for it."""
NO_FILES = ":4"
"""The last line for kubectl: complete no names of files (spf13/cobra v1.10, completions.go)."""
NEW_NAMES = frozenset({"run"})
"""Commands whose `name` is that of something new."""
ARGUMENTS, LINE, POINT = "_ARGCOMPLETE", "COMP_LINE", "COMP_POINT"
"""Variables by which a shell asks (argcomplete 3.6, `finders.py`)."""


class _Finder(CompletionFinder):
    """A finder that writes no notes for debugging: they go to whatever file has the number 9."""

    def _init_debug_stream(self) -> None:
        """Leave the file alone."""


def complete() -> None:
    words = os.environ.get(LINE, "").split()
    argcomplete.autocomplete(_with_completers(words), always_complete_options=False)


def kubectl() -> None:
    """Answer kubectl, which completes `kubectl infd` by the program `kubectl_complete-infd`."""
    words = sys.argv[1:] or [""]
    print("\n".join([*completions(words), NO_FILES]))


def completions(words: list[str]) -> list[str]:
    line = " ".join([shlex.join(["infd", *words[:-1]]), words[-1]])
    asked = {ARGUMENTS: "1", LINE: line, POINT: str(len(line.encode())), "_ARGCOMPLETE_IFS": "\n"}
    before = {name: os.environ.get(name) for name in asked}
    os.environ.update(asked)
    said = io.StringIO()
    try:
        _Finder()(
            _with_completers(words),
            always_complete_options=False,
            exit_method=lambda _=0: None,  # argcomplete would end the process
            output_stream=said,
            append_space=False,
        )
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value
    return [one.rstrip() for one in said.getvalue().split("\n") if one.strip()]


def _with_completers(words: list[str]) -> argparse.ArgumentParser:
    found = parser(words)
    _complete_names(found, "")
    return found


def _complete_names(one: argparse.ArgumentParser, command: str) -> None:
    one.completes = True  # type: ignore[attr-defined] # each is a `cli.parser.Parser`
    for action in one._actions:  # noqa: SLF001 - argparse shows its arguments in no other way
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - as above
            for name, child in action.choices.items():
                _complete_names(child, command or name)
        elif completer := _completer(action.dest, command):
            action.completer = completer  # type: ignore[attr-defined]


def _completer(dest: str, command: str) -> Callable[..., object] | None:
    """Where the values of an argument come from; None: argparse knows them, or they are files."""
    match dest:
        case "name" if command in NEW_NAMES:
            return SuppressCompleter()
        case "name" if command == "gateway":
            return _asked(["get", "modelgateways", "--output=name"])
        case "name":
            return _asked(["get", "inferencedeployments", "--output=name"])
        case "namespace" | "in_namespace":
            return _asked(["get", "namespaces", "--output=name"], within=False)
        case "context":
            return _asked(["config", "get-contexts", "--output=name"], within=False)
    return None


def _asked(arguments: list[str], *, within: bool = True) -> Callable[..., Collection[str]]:

    def words(prefix: str, *, parsed_args: argparse.Namespace, **_: object) -> Collection[str]:
        names = ("context", "kubeconfig", *(("namespace",) if within else ()))
        given = {name: getattr(parsed_args, name, None) for name in names}
        options = [f"--{name}={value}" for name, value in given.items() if value]
        command = ["kubectl", *arguments, *options, f"--request-timeout={SECONDS}s"]
        try:
            ended = subprocess.run(  # noqa: S603
                command, capture_output=True, text=True, timeout=SECONDS, check=False, env=_environment()
            )
        except (OSError, subprocess.TimeoutExpired):
            return []
        lines = ended.stdout.splitlines()
        found = [line.rpartition("/")[2] for line in lines] if arguments[0] == "get" else lines
        return [one for one in found if one.startswith(prefix)]

    return words


def _environment() -> dict[str, str]:
    """The environment of kubectl: a plugin for its credentials may use argcomplete too, and would complete words."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(ARGUMENTS) and name not in {LINE, POINT}
    }


def print_script(options: argparse.Namespace) -> int:
    print(shellcode(["infd"], shell=options.shell), end="")
    return 0
