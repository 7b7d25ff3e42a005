"""The processes of a pod's container in this machine's /proc: a local cluster's node runs on this machine."""

import json
import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from e2e.localkube.errors import ClusterError
from e2e.localkube.handle import Cluster
from inference_operator.objects.names import ENGINE

_RUNTIME = "containerd://"
_CORE = b"EngineCore"
"""The process title that vLLM sets (0.32.0, vllm/v1/engine/core.py)."""
_START_FIELD = 19
"""Index of the start time in /proc/PID/stat after the name, in ticks since boot (proc_pid_stat(5), field 22)."""


def container_processes(cluster: Cluster, pod: str, namespace: str = "default", *, container: str = "") -> list[Path]:
    """Every process of a pod's container as a folder in /proc; process 1 of the container comes first.

    Of several containers, it takes the first by name, unless one is named.
    """
    status = json.loads(cluster.kubectl("--namespace", namespace, "get", "pod", pod, "--output=json"))["status"]
    named = [one for one in status["containerStatuses"] if container in ("", one["name"])]
    found = min(named, key=lambda status: str(status["name"]))
    identity: str = found["containerID"].removeprefix(_RUNTIME)
    processes = [process for process in Path("/proc").glob("[0-9]*") if _is_part_of(process, identity)]
    processes.sort(key=lambda process: not _is_first(process))
    if not processes or not _is_first(processes[0]):
        raise ClusterError(f"no process of pod {namespace}/{pod} runs on this machine: this needs a local cluster")
    return processes


def engine_core(cluster: Cluster, pod: str, namespace: str = "default") -> int:
    """The PID of an engine core process; vLLM's API server process is its parent."""
    (core,) = [
        process
        for process in container_processes(cluster, pod, namespace, container=ENGINE)
        if _CORE in (process / "cmdline").read_bytes()
    ]
    return int(core.name)


def node_process(cluster: Cluster, pod: str, namespace: str = "default") -> int:
    """The PID of a process of the pod's node, outside all containers: the parent of the pod's first one."""
    stat = (container_processes(cluster, pod, namespace)[0] / "stat").read_text()
    return int(stat.rpartition(")")[2].split()[1])


def kill_processes(processes: Iterable[Path]) -> None:
    """SIGKILL for these processes; one that has ended meanwhile is passed over."""
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(int(process.name), signal.SIGKILL)


def started(process: Path) -> float:
    """Start time of a process in seconds since the machine's boot (CLOCK_BOOTTIME)."""
    fields = (process / "stat").read_text().rpartition(")")[2].split()
    return int(fields[_START_FIELD]) / os.sysconf("SC_CLK_TCK")


def _is_part_of(process: Path, identity: str) -> bool:
    """Whether a process belongs to a container: the container's ID is part of its cgroup's name."""
    try:
        return identity in (process / "cgroup").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def _is_first(process: Path) -> bool:
    """Whether a process has the PID 1 in its PID namespace."""
    try:
        status = (process / "status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return any(line.split()[-1] == "1" for line in status.splitlines() if line.startswith("NSpid:"))
