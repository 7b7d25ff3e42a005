"""Faults that tests inject into containers on a real node: SIGKILL and a pause."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from e2e.cluster.errors import ClusterError
from e2e.cluster.handle import Cluster
from e2e.containers import container_processes

_GONE_SECONDS = 10.0
_POLL_SECONDS = 0.002


def kill_container(cluster: Cluster, pod: str, namespace: str = "default") -> None:
    """SIGKILL one container of a pod, as the kernel does when it is out of memory; returns once all processes are gone.

    The signal goes to process 1 of the container; the kernel then kills the others.
    """
    running = container_processes(cluster, pod, namespace)
    os.kill(int(running[0].name), signal.SIGKILL)
    deadline = time.monotonic() + _GONE_SECONDS
    while any(process.exists() for process in running):
        if time.monotonic() > deadline:
            raise ClusterError(f"processes of pod {namespace}/{pod} survive SIGKILL")
        time.sleep(_POLL_SECONDS)


@contextmanager
def paused(cluster: Cluster, pod: str, namespace: str = "default") -> Iterator[None]:
    """Stop all processes in a pod's only container for the block; processes that start later still run."""
    running = container_processes(cluster, pod, namespace)
    for process in running:
        os.kill(int(process.name), signal.SIGSTOP)
    try:
        yield
    finally:
        for process in running:
            with suppress(ProcessLookupError):
                os.kill(int(process.name), signal.SIGCONT)
