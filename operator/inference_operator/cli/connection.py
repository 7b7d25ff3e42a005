"""A connection to the cluster of a kubeconfig, for the commands that need one, and their options for it."""

import argparse
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from inference_operator.cli.parser import UsageError

if TYPE_CHECKING:
    from inference_operator.kube.client import Api
    from inference_operator.kube.cluster import KubeCluster

_Result = TypeVar("_Result")
DEFAULT_NAMESPACE = "default"
"""The namespace where neither the command line nor the kubeconfig names one."""
CURE = "Check that `kubectl get infd` works with the same kubeconfig."


def add_cluster(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose the cluster, as kubectl has them."""
    parser.add_argument("--context", metavar="NAME", help="context of the kubeconfig; default: the current one")
    parser.add_argument("--kubeconfig", type=Path, metavar="FILE", help="kubeconfig; default: as kubectl finds it")


def add_connection(parser: argparse.ArgumentParser, *, all_namespaces: str = "") -> None:
    """Add the options that choose the cluster and the namespace.

    Args:
        parser: of the command.
        all_namespaces: help of the option for all namespaces; empty: there is none.
    """
    scope = parser.add_mutually_exclusive_group()
    scope.add_argument("-n", "--namespace", metavar="NAME", help="its namespace; default: that of the context")
    if all_namespaces:
        scope.add_argument("-A", "--all-namespaces", action="store_true", help=all_namespaces)
    add_cluster(parser)


def add_timeout(parser: argparse.ArgumentParser, seconds: int, meaning: str) -> None:
    """Add the option for how long a command waits.

    Args:
        parser: of the command.
        seconds: the default.
        meaning: of the limit, for the help.
    """
    words = f"{meaning}; default {seconds}"
    parser.add_argument("--timeout", type=int, default=seconds, metavar="SECONDS", help=words)


def resolve_namespace(options: argparse.Namespace) -> None:
    """Set the namespace of a command that has the option and was given none: that of the context."""
    if "kubeconfig" in options and "namespace" in options and options.namespace is None:
        from inference_operator.kube.client import context_namespace  # noqa: PLC0415 - as below

        _silence_client()
        options.namespace = context_namespace(options.kubeconfig, options.context) or DEFAULT_NAMESPACE


def _silence_client() -> None:
    """Keep the client's own warnings from the terminal: the errors of commands say the same for users."""
    logging.getLogger("kubernetes").setLevel(logging.CRITICAL)


async def in_cluster(
    work: "Callable[[Api, KubeCluster], Awaitable[_Result]]", options: argparse.Namespace, *, cure: str = CURE
) -> _Result:
    """The result of `work` in the cluster that the options choose.

    Raises:
        UsageError: the API server cannot be asked, or refuses. The message ends with `cure`.
    """
    from inference_operator.controller.cluster import ClusterError  # noqa: PLC0415 - as below
    from inference_operator.kube.client import Api, connect  # noqa: PLC0415 - a second of imports that only this needs
    from inference_operator.kube.cluster import KubeCluster  # noqa: PLC0415 - as above

    _silence_client()
    try:
        client = await connect(options.kubeconfig, options.context, max_connections=0)
        try:
            api = Api(client)
            return await work(api, KubeCluster(api))
        finally:
            await client.close()  # type: ignore[no-untyped-call]
    except ClusterError as error:
        raise UsageError(f"{error.cause}. {cure}") from error
