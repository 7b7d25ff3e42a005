"""The argument parser of `infd`, its exit statuses, and the errors that end a command.

1. Options stand in any order, before, between and after names. `argparse` fills names that may be absent as soon as it
   meets the first name, so the options are put before the names. After `--` there are names only.
2. Options that choose the cluster may stand before the command, as kubectl has it.
3. A command that only has commands, and no words, shows its help; so do `help` and `help COMMAND`.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from itertools import islice, pairwise
from typing import NoReturn

EXIT_REFUSED = 1
EXIT_USAGE = 2
"""As in argparse."""
EXIT_NOT_FOUND = 3
EXIT_FORBIDDEN = 4
EXIT_NO_SERVER = 5
EXIT_INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells have it: 128 and the number of SIGINT."""
ENDS: Mapping[int, tuple[str, str]] = {
    EXIT_REFUSED: ("Refused", "a resource was rejected, or is not as it should be"),
    EXIT_USAGE: ("Usage", "the command line or a file is invalid"),
    EXIT_NOT_FOUND: ("NotFound", "there is no such object"),
    EXIT_FORBIDDEN: ("Forbidden", "you have no right to it"),
    EXIT_NO_SERVER: ("NoServer", "the API server does not answer"),
}
"""Exit statuses of errors, each with its reason for programs and in words."""
STATUSES = f"Exit status: 0 success; {'; '.join(f'{status} {words}' for status, (_, words) in ENDS.items())}."
_FOR_PROGRAMS = re.compile(r"(-o[ =]?|--output[ =])(json|yaml)")


class UsageError(Exception):
    """What ends a command: its message is for the user, its status one of `ENDS`."""

    def __init__(self, message: str = "", status: int = EXIT_USAGE) -> None:
        super().__init__(message)
        self.status = status


class RefusedError(UsageError):
    """The command line is valid, and what it asks for was rejected or failed."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message, EXIT_REFUSED)


CLUSTER_OPTIONS = ("-n", "--namespace", "--context", "--kubeconfig")
"""Options that may stand before the command, each with a value."""
OTHER_NAMES: Mapping[str, str] = {
    **dict.fromkeys(("get", "ls", "ps"), "infd list"),
    "top": "infd list --traffic",
    "describe": "infd status",
    "explain": "infd status --why",
    **dict.fromkeys(("create", "deploy"), "infd run"),
    "apply": "kubectl apply -f",
    "edit": "kubectl edit infd",
    "scale": "kubectl scale infd",
    **dict.fromkeys(("delete", "rm"), "kubectl delete infd"),
    "port-forward": "kubectl port-forward",
    "exec": "kubectl exec",
}
"""Commands of kubectl and of others, and what does the same here."""
_EXAMPLES = "examples:\n"
_NAMES_FOLLOW = "--"


class HelpFormatter(argparse.HelpFormatter):
    """A formatter that wraps prose, leaves a block of examples as it is, and writes names of arguments in capitals."""

    def _get_default_metavar_for_positional(self, action: argparse.Action) -> str:
        return action.dest.upper()

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if text.startswith(_EXAMPLES) else super()._fill_text(text, width, indent)


def examples(*lines: str) -> str:
    return _EXAMPLES + "".join(f"  {line}\n" for line in lines)


class Parser(argparse.ArgumentParser):
    """An argument parser that takes options in any order, and gives an error and a hint instead of the whole usage."""

    completes = False
    """Whether the words are those of a line that a shell completes: the last one may lack its value."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **{"formatter_class": HelpFormatter, **kwargs})  # type: ignore[arg-type] # passed on

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{self.prog}: {message}\nSee `{self.prog} --help`.")

    def parse_known_args(  # type: ignore[override] # one form of those that argparse declares
        self, args: Iterable[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse the words; those that are left over are an error, unless the command has commands."""
        words = sys.argv[1:] if args is None else list(args)
        if self.completes:
            return super().parse_known_args(words, namespace)
        if commands := self._commands():
            return super().parse_known_args(self._command_first(words, commands), namespace)
        options, left_over = super().parse_known_args(self._options_first(words), namespace)
        if left_over:
            unknown = [word for word in left_over if word != _NAMES_FOLLOW]
            similar = [_similar(word, self._option_string_actions) for word in unknown if word.startswith("--")]
            self.error(f"unrecognized arguments: {' '.join(unknown)}{_meant(filter(None, similar))}")
        return options, []

    def _commands(self) -> Mapping[str, object]:
        subparsers = (action for action in self._actions if isinstance(action, argparse._SubParsersAction))  # noqa: SLF001
        return next((action.choices for action in subparsers), {})

    def _command_first(self, words: Sequence[str], commands: Mapping[str, object]) -> list[str]:
        options: list[str] = []
        rest = list(words)
        while rest and rest[0].startswith(CLUSTER_OPTIONS):
            size = 2 if rest[0] in CLUSTER_OPTIONS else 1
            options, rest = [*options, *rest[:size]], rest[size:]
        match rest:
            case [] if not words:
                self.print_help()
                self.exit()
            case ["help", *rest]:
                return [*rest, "--help"]
            case ["version"] if "--version" in self._option_string_actions:
                return ["--version"]
            case [command, *_] if not command.startswith("-") and command not in commands:
                close = _similar(command, commands)
                meant = OTHER_NAMES.get(command) or (f"{self.prog} {close}" if close else "")
                self.error(f"there is no command `{command}`.{_meant([meant] if meant else [], '')}")
        return [*rest[:1], *options, *rest[1:]]

    def _options_first(self, words: Sequence[str]) -> list[str]:
        options: list[str] = []
        names: list[str] = []
        rest = iter(words)
        for word in rest:
            if word == _NAMES_FOLLOW:
                names += rest
            elif self._is_option(word):
                options += [word, *islice(rest, int(self._takes_next(word)))]
            else:
                names.append(word)
        return [*options, _NAMES_FOLLOW, *names] if names else options

    def _is_option(self, word: str) -> bool:
        """Whether a word is an option: not `-` alone, a negative number, or a text with a space before any `=`."""
        if len(word) == 1 or not word.startswith("-") or self._negative_number_matcher.match(word):
            return False
        return " " not in word.partition("=")[0]

    def _takes_next(self, word: str) -> bool:
        """Whether the value of an option is the next word. A long option may be cut, and short ones may be joined."""
        options = self._option_string_actions
        if word.startswith("--"):
            chosen = [word] if word in options else [name for name in options if name.startswith(word)]
            return any(options[name].nargs != 0 for name in chosen)
        letters = iter(word[1:])
        for letter in letters:
            action = options.get(f"-{letter}")
            if action is None or action.nargs != 0:
                return action is not None and not list(letters)
        return False


def _similar(word: str, names: Iterable[str]) -> str:
    return next(iter(get_close_matches(word.partition("=")[0], names, n=1)), "")


def _meant(names: Iterable[str], end: str = ".") -> str:
    asked = ", ".join(f"`{name}`" for name in names)
    return f"{end} Did you mean {asked}?" if asked else ""


def error_text(error: UsageError, words: Sequence[str]) -> str:
    """The text of an error: one object, which is JSON and YAML, if the command line asks for a form for programs.

    Examples:
        >>> error_text(UsageError("There is no such file."), ["plan", "-f", "x.yaml"])
        'There is no such file.'
        >>> error_text(UsageError("There is no such file."), ["plan", "-f", "x.yaml", "-o", "json"])
        '{"error": {"reason": "Usage", "exitStatus": 2, "message": "There is no such file."}}'
    """
    if not any(_FOR_PROGRAMS.fullmatch(one) for one in (*words, *map(" ".join, pairwise(words)))):
        return str(error)
    shown = {"reason": ENDS[error.status][0], "exitStatus": error.status, "message": str(error)}
    return json.dumps({"error": shown}, ensure_ascii=False)


_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""Control characters, and those that end a line or turn the direction of writing."""


def harmless(text: str) -> str:
    r"""A text of others without what a terminal would carry out: colours are left out, control characters shown as �.

    Examples:
        >>> harmless("\x1b[31mred\x1b[0m \x1b]0;title\x07 tab\tstays")
        'red �]0;title� tab\tstays'
    """
    return _CONTROL.sub("\ufffd", _COLOUR.sub("", text))
