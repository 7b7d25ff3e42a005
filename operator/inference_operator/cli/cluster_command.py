"""A command in a cluster: its connection, its wait, and its question; the errors that end it are in `cli.parser`."""

import argparse
import asyncio
import logging
import math
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from inference_operator.cli.options import DEFAULT_NAMESPACE
from inference_operator.cli.parser import (
    EXIT_FORBIDDEN,
    EXIT_NO_SERVER,
    EXIT_NOT_FOUND,
    EXIT_REFUSED,
    RefusedError,
    UsageError,
    harmless,
)
from inference_operator.controller.cluster import (
    Cluster,
    ClusterError,
    ConflictError,
    ForbiddenError,
    NotFoundError,
    RejectedError,
)
from inference_operator.kube.client import Api, connect, context_namespace
from inference_operator.kube.cluster import KubeCluster
from inference_operator.manifest import INFERENCE_DEPLOYMENT, Kind, Manifest, Ref

_Result = TypeVar("_Result")
POLL_SECONDS = 1.0
"""Between two looks at what a command waits for."""
CURE = "Check that `kubectl get infd` works with the same kubeconfig."


def namespace_of_context(options: argparse.Namespace) -> str:
    _silence_client()
    return context_namespace(options.kubeconfig, options.context) or DEFAULT_NAMESPACE


def _silence_client() -> None:
    """Keep the client's own warnings from the terminal: the errors of commands say the same for users."""
    logging.getLogger("kubernetes").setLevel(logging.CRITICAL)


class ClusterCommand:
    def __init__(self, options: argparse.Namespace, *, cure: str = CURE, interrupted: str = "") -> None:
        self._options, self._cure, self.interrupted = options, cure, interrupted

    def run(self, work: Callable[[KubeCluster], Awaitable[_Result]]) -> _Result:
        """The result of `work` in the cluster; raises `UsageError` where the API server does not do its part."""
        try:
            return asyncio.run(self._connected(work))
        except KeyboardInterrupt:
            if self.interrupted:
                print(self.interrupted, file=sys.stderr)
            raise

    def run_for(
        self,
        name: str,
        work: Callable[[KubeCluster, Manifest], Awaitable[_Result]],
        kind: Kind = INFERENCE_DEPLOYMENT,
    ) -> _Result:
        """The result of `work` about a live resource of the namespace; raises `UsageError` if there is none."""

        async def found(cluster: KubeCluster) -> _Result:
            return await work(cluster, await live_of(cluster, self._options.namespace, name, kind))

        return self.run(found)

    async def _connected(self, work: Callable[[KubeCluster], Awaitable[_Result]]) -> _Result:
        _silence_client()
        try:
            client = await connect(self._options.kubeconfig, self._options.context, max_connections=0)
        except ClusterError as error:  # of the kubeconfig
            raise UsageError(f"{error.cause}. {self._cure}") from error
        try:
            return await work(KubeCluster(Api(client)))
        except ClusterError as error:
            raise UsageError(f"{error.cause}. {self._cure}", exit_status(error)) from error
        finally:
            await client.close()  # type: ignore[no-untyped-call]


def exit_status(error: ClusterError) -> int:
    match error:
        case ForbiddenError():
            return EXIT_FORBIDDEN
        case NotFoundError():
            return EXIT_NOT_FOUND
        case ConflictError() | RejectedError():
            return EXIT_REFUSED
    return EXIT_NO_SERVER


async def live_of(cluster: KubeCluster, namespace: str, name: str, kind: Kind = INFERENCE_DEPLOYMENT) -> Manifest:
    if not name:
        raise UsageError(f"The name of the {kind.name} is empty.")
    live = await cluster.get(Ref(kind, namespace, name))
    if live is None:
        raise UsageError(f"There is no {kind.name} `{name}` in the namespace `{namespace}`.", EXIT_NOT_FOUND)
    return live


async def list_objects(
    cluster: KubeCluster, kind: Kind, namespace: str | None = None, labels: str | None = None
) -> list[Manifest]:
    return [one async for one in cluster.each(kind, namespace=namespace, labels=labels)]


async def resources(cluster: KubeCluster, options: argparse.Namespace) -> Sequence[Manifest]:
    """The resource that is named, or all of the namespace or of the cluster; raises `UsageError` without the former."""
    if options.name is not None:
        return [await live_of(cluster, options.namespace, options.name)]
    namespace = None if options.all_namespaces else options.namespace
    return await list_objects(cluster, INFERENCE_DEPLOYMENT, namespace, getattr(options, "selector", None))


def none_of(kind: Kind, options: argparse.Namespace) -> str:
    where = "any namespace" if options.all_namespaces else f"the namespace `{options.namespace}`"
    return f"There is no {kind.name} in {where}."


@dataclass(frozen=True, slots=True)
class Step:
    """How far a resource has come with what a command waits for."""

    message: str = ""
    is_last: bool = False
    failure: str = ""
    quiet_seconds: float = 0.0
    """How long the wait must last before the message is printed."""
    details: str = ""


async def wait_until(
    cluster: Cluster,
    ref: Ref,
    progress: Callable[[Manifest], Awaitable[Step]],
    *,
    limit_seconds: float = math.inf,
    deleted: UsageError,
) -> Manifest:
    """The resource after the last step; each new message on the way is printed.

    An API server that does not answer for a while ends no wait, but the begin of one.

    Raises:
        ClusterError: the first look failed, or the right to look was withdrawn.
        RefusedError: waiting does not help, or nothing has changed for this long.
    """
    said = ""
    begin = since = time.monotonic()
    live = await cluster.get(ref)
    while live is not None:
        step, now = await progress(live), time.monotonic()
        if step.message not in ("", said) and now - begin >= step.quiet_seconds:
            print(harmless(f"{ref.namespace}/{ref.name}: {step.message}"), flush=True)
            said, since = step.message, now
        elif now - since > limit_seconds and not (step.is_last or step.failure):
            raise RefusedError(f"nothing has changed for {limit_seconds} s. {step.details}".rstrip())
        if step.failure:
            raise RefusedError(step.failure)
        if step.is_last:
            return live
        await asyncio.sleep(POLL_SECONDS)
        try:
            live = await cluster.get(ref)
        except RejectedError:
            raise
        except ClusterError:  # it does not answer
            continue
    raise deleted


async def is_agreed(question: str) -> bool:
    """Whether who is at the terminal answers yes. The end of the input is no; Ctrl-C raises `KeyboardInterrupt`.

    The event loop waits for the line. A reading of Python's own misses a Ctrl-C that comes just before it blocks.
    """
    loop = asyncio.get_running_loop()
    typed = asyncio.Event()
    waiting = asyncio.ensure_future(typed.wait())
    loop.add_signal_handler(signal.SIGINT, waiting.cancel)
    loop.add_reader(sys.stdin, typed.set)
    try:
        print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
        await waiting
    except asyncio.CancelledError as error:
        raise KeyboardInterrupt from error
    finally:
        loop.remove_reader(sys.stdin)
        loop.remove_signal_handler(signal.SIGINT)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}
