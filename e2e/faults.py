"""Faults: what can happen to a container on a real node at its worst."""

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
    """SIGKILL everything in one container of a pod, as the kernel does when its memory ends; returns once it is dead.

    The first process takes the others with it.
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
    """All that runs in a pod's only container stands still; what is started in it later does not."""
    running = container_processes(cluster, pod, namespace)
    for process in running:
        os.kill(int(process.name), signal.SIGSTOP)
    try:
        yield
    finally:
        for process in running:
            with suppress(ProcessLookupError):
                os.kill(int(process.name), signal.SIGCONT)
