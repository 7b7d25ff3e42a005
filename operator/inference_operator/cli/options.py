"""Options that several commands have. No module that is imported for help imports more than this one and `parser`."""

import argparse
from pathlib import Path

DEFAULT_NAMESPACE = "default"
"""The namespace where neither the command line nor the kubeconfig names one."""


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


FORMATS = ("table", "json", "yaml")
OF_RESOURCES = ("wide", "name")
"""More formats of commands that show several resources, as of kubectl."""


def add_output(parser: argparse.ArgumentParser, *more: str) -> None:
    formats = [*FORMATS, *more]
    parser.add_argument("-o", "--output", choices=formats, default="table", help="output format; default table")


def add_gpus(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--gpu",
        action="append",
        default=[],
        metavar="KIND[:COUNT]",
        help="kind and number of GPUs of an existing or possible node, for example L4:4; repeatable",
    )


def add_source(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-f",
        "--filename",
        required=True,
        action="append",
        help="file or directory with InferenceDeployments; - reads standard input; repeatable",
    )
    add_gpus(parser)
    parser.add_argument(
        "--model", metavar="FILE", help="output of `infd inspect -o json`; default: ask the hub, then the catalogue"
    )


VARIABLE = "INFD_API_KEY"


def add_key(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--key-from",
        metavar="SECRET[/ENTRY]",
        help=f"Secret of its namespace with the API key, and the entry of several; default: the variable {VARIABLE}",
    )


SYSTEM_NAMESPACE = "inference-operator-system"
"""The namespace that the documentation installs the operator into."""
