"""The parser of several commands, and the end of a process that ran one."""

import argparse
import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib import import_module
from keyword import iskeyword
from typing import NoReturn

from inference_operator import __version__
from inference_operator.cli.parser import EXIT_INTERRUPTED, STATUSES, Parser, UsageError, told

USAGE = "infd [-h] [--version] COMMAND ..."


class CommandParser(Parser):
    """A parser whose help lists commands in groups."""

    groups: Mapping[str, Mapping[str, str]]
    """Commands with their help, by the title of the group."""

    def format_help(self) -> str:
        """Return the help, with the groups before the options."""
        head, options, tail = super().format_help().partition("\noptions:\n")
        return "".join([head, *map(_listed, self.groups, self.groups.values()), options, tail])


def _listed(title: str, commands: Mapping[str, str]) -> str:
    """A group of the help."""
    import shutil  # noqa: PLC0415 - only for help
    import textwrap  # noqa: PLC0415 - as above

    width = max(map(len, commands)) + 2
    columns = shutil.get_terminal_size().columns - 2
    lines = (
        textwrap.fill(summary, columns, initial_indent=f"  {name.ljust(width)}", subsequent_indent=" " * (width + 2))
        for name, summary in commands.items()
    )
    return "\n".join([f"\n{title}:", *lines, ""])


def command_parser(
    description: str, commands: Mapping[str, str], words: Collection[str], apart: Collection[str] = ()
) -> argparse.ArgumentParser:
    """The parser of `infd`, with the arguments of those commands that are among the words.

    Args:
        description: of the program.
        commands: the commands with their help. Each has a module here (`module_of`), with `add_arguments`.
        words: the command line.
        apart: names of the commands for pods and installers.
    """
    result = CommandParser(prog="infd", usage=USAGE, description=description, epilog=STATUSES)
    people = {name: summary for name, summary in commands.items() if name not in apart}
    others = {name: summary for name, summary in commands.items() if name in apart}
    result.groups = {"commands": people, **({"commands for pods and installers": others} if others else {})}
    result.add_argument("--version", action="version", version=__version__, help="show the version and exit")
    parsers = result.add_subparsers(
        required=True, prog="infd", metavar="COMMAND", help=argparse.SUPPRESS, parser_class=Parser
    )
    for name in commands:
        command = parsers.add_parser(name)
        if name in words:
            import_module(f"inference_operator.cli.{module_of(name)}").add_arguments(command)
    return result


def module_of(command: str) -> str:
    """Name of a command's module.

    Examples:
        >>> module_of("support-bundle"), module_of("import"), module_of("plan")
        ('support_bundle', 'import_', 'plan')
    """
    name = command.replace("-", "_")
    return f"{name}_" if iskeyword(name) else name


def run_command(run: Callable[[], int], words: Sequence[str]) -> NoReturn:
    """Run a command and exit with the status that it returns, or with that of its error.

    Args:
        run: parses the command line, and does what it says.
        words: the command line without the program's name.
    """
    try:
        sys.exit(run())
    except UsageError as error:
        from inference_operator.cli.output import harmless  # noqa: PLC0415 - only for errors

        print(harmless(told(error, words)), file=sys.stderr)
        sys.exit(error.status)
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
    except BrokenPipeError:  # the reader, such as `head`, has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
