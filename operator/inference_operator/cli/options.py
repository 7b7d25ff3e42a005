"""Options that several commands have. No module that is imported for help imports more than this one and `parser`."""

import argparse
import sys
from contextlib import nullcontext
from pathlib import Path

from inference_operator.cli.parser import UsageError

DEFAULT_NAMESPACE = "default"
"""The namespace where neither the command line nor the kubeconfig names one."""
SYSTEM_NAMESPACE = "inference-operator-system"
"""The namespace that the documentation installs the operator into."""
FORMATS = ("table", "json", "yaml")
OF_RESOURCES = ("wide", "name")
"""More formats of commands that show several resources, as of kubectl."""
MOST_SECONDS = 24 * 3600
TOKEN_SECRET = "Secret with a token of the hub, and its key; default: `token`"  # noqa: S105 - a help
VARIABLE = "INFD_API_KEY"
STDIN = "-"


def add_cluster(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--context", metavar="NAME", help="context of the kubeconfig; default: the current one")
    parser.add_argument("--kubeconfig", type=Path, metavar="FILE", help="kubeconfig; default: as kubectl finds it")


def add_connection(parser: argparse.ArgumentParser, *, all_namespaces: str = "") -> None:
    """Add the options that choose the cluster and the namespace; with a help, also the one for all namespaces."""
    scope = parser.add_mutually_exclusive_group()
    scope.add_argument("-n", "--namespace", metavar="NAME", help="its namespace; default: that of the context")
    if all_namespaces:
        scope.add_argument("-A", "--all-namespaces", action="store_true", help=all_namespaces)
    add_cluster(parser)


def add_timeout(parser: argparse.ArgumentParser, seconds: int, meaning: str) -> None:
    words = f"{meaning}; default {seconds}"
    parser.add_argument("--timeout", type=int, default=seconds, metavar="SECONDS", help=words)


def number(least: int, most: int) -> "type[int]":

    def parsed(text: str) -> int:
        if not text.isascii() or not text.isdigit() or not least <= int(text[:12]) <= most:
            raise argparse.ArgumentTypeError(f"must be a number from {least} to {most:,}")
        return int(text)

    return parsed  # type: ignore[return-value] # argparse takes any callable


def amount(most: float, *, is_positive: bool = False) -> "type[float]":
    """The type of an argument that is a number from 0, or over 0, up to this one."""

    def parsed(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not 0 <= value <= most or (is_positive and not value):
            raise argparse.ArgumentTypeError(f"must be a number {'over' if is_positive else 'from'} 0 up to {most:,g}")
        return value

    return parsed  # type: ignore[return-value] # as above


def seconds(text: str) -> float:
    from inference_operator.api.duration import duration  # noqa: PLC0415 - 10 ms, and few commands have a time

    try:
        found = duration(text).total_seconds()
    except ValueError:
        found = 0.0
    if not 0 < found <= MOST_SECONDS:
        raise argparse.ArgumentTypeError("must be a time up to 24h, such as 500ms, 90s or 10m")
    return found


def add_output(parser: argparse.ArgumentParser, *more: str) -> None:
    formats = [*FORMATS, *more]
    parser.add_argument("-o", "--output", choices=formats, default="table", help="output format; default table")


def add_form(parser: argparse.ArgumentParser, meaning: str) -> None:
    parser.add_argument("-o", "--output", choices=FORMATS[:0:-1], default="yaml", help=f"{meaning}; default yaml")


def add_gpus(parser: argparse.ArgumentParser) -> None:
    words = "kind and number of GPUs of an existing or possible node, for example L4:4; repeatable"
    parser.add_argument("--gpu", action="append", default=[], metavar="KIND[:COUNT]", help=words)


def add_source(parser: argparse.ArgumentParser) -> None:
    words = "file or directory with InferenceDeployments; - reads standard input; repeatable"
    parser.add_argument("-f", "--filename", required=True, action="append", help=words)
    add_gpus(parser)
    words = "output of `infd inspect -o json`; default: ask the hub, then the catalogue"
    parser.add_argument("--model", metavar="FILE", help=words)


def token_reference(text: str) -> dict[str, dict[str, str]]:
    """The field of a model that names a Secret with a token; none without a name.

    Examples:
        >>> token_reference("hf"), token_reference("hf/read")["tokenSecretRef"], token_reference("")
        ({'tokenSecretRef': {'name': 'hf'}}, {'name': 'hf', 'key': 'read'}, {})
    """
    name, _, key = text.partition("/")
    return {"tokenSecretRef": {"name": name, **({"key": key} if key else {})}} if name else {}


def add_key(parser: argparse.ArgumentParser) -> None:
    words = f"Secret of its namespace with the API key, and the entry of several; default: the variable {VARIABLE}"
    parser.add_argument("--key-from", metavar="SECRET[/ENTRY]", help=words)


def file_text(path: str, most: int = -1) -> str:
    """The text of a file, or of standard input; of a longer one than `most` characters, one character more."""
    label = "standard input" if path == STDIN else path
    try:
        with nullcontext(sys.stdin) if path == STDIN else Path(path).open(encoding="utf-8") as file:
            text = file.read(most if most < 0 else most + 1)
            text.encode()  # the locale C decodes every byte of standard input
            return text
    except OSError as error:
        raise UsageError(f"{label}: {error.strerror}.") from error
    except UnicodeError as error:
        raise UsageError(f"{label}: is not UTF-8 text.") from error
