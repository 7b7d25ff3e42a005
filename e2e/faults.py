"""Faults: what can happen to a container on a real node at its worst."""

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from e2e.cluster.errors import ClusterError
from e2e.cluster.handle import Cluster

_GONE_SECONDS = 10.0
_POLL_SECONDS = 0.002
_RUNTIME = "containerd://"


def kill_container(cluster: Cluster, pod: str, namespace: str = "default") -> None:
    """SIGKILL everything in a pod's only container, as the kernel does when its memory ends; returns once it is dead.

    The first process takes the others with it. The node runs on this machine, so its processes are visible here.
    """
    running = list(_processes(_container_id(cluster, pod, namespace)))
    first = next((process for process in running if _is_first(process)), None)
    if first is None:
        raise ClusterError(f"no process of pod {namespace}/{pod} runs on this machine: faults need a local cluster")
    os.kill(int(first.name), signal.SIGKILL)
    deadline = time.monotonic() + _GONE_SECONDS
    while any(process.exists() for process in running):
        if time.monotonic() > deadline:
            raise ClusterError(f"processes of pod {namespace}/{pod} survive SIGKILL")
        time.sleep(_POLL_SECONDS)


def _container_id(cluster: Cluster, pod: str, namespace: str) -> str:
    status = json.loads(cluster.kubectl("--namespace", namespace, "get", "pod", pod, "--output=json"))["status"]
    (container,) = status["containerStatuses"]
    identity: str = container["containerID"]
    return identity.removeprefix(_RUNTIME)


def _processes(identity: str) -> Iterator[Path]:
    """The processes of a container: its identity is part of its control group's name."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if identity in (process / "cgroup").read_text():
                yield process
        except (FileNotFoundError, ProcessLookupError):
            continue


def _is_first(process: Path) -> bool:
    """Whether it is the first process of its own process namespace."""
    try:
        status = (process / "status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return any(line.split()[-1] == "1" for line in status.splitlines() if line.startswith("NSpid:"))
