"""The processes of a pod's container, as this machine sees them: the node of a local cluster runs on it."""

import json
import os
from pathlib import Path

from e2e.cluster.errors import ClusterError
from e2e.cluster.handle import Cluster

_RUNTIME = "containerd://"
_CORE = b"EngineCore"
"""How vLLM titles the process (0.32.0, vllm/v1/engine/core.py)."""
_START_FIELD = 19
"""Where /proc/PID/stat has the start, in ticks since boot, counted behind the name (proc_pid_stat(5), field 22)."""


def container_processes(cluster: Cluster, pod: str, namespace: str = "default") -> list[Path]:
    """Every process of a pod's container, by its folder in /proc; the first one leads.

    Of several containers it is the one whose name comes first.
    """
    status = json.loads(cluster.kubectl("--namespace", namespace, "get", "pod", pod, "--output=json"))["status"]
    container = min(status["containerStatuses"], key=lambda one: str(one["name"]))
    identity: str = container["containerID"].removeprefix(_RUNTIME)
    found = [process for process in Path("/proc").glob("[0-9]*") if _is_part_of(process, identity)]
    found.sort(key=lambda process: not _is_first(process))
    if not found or not _is_first(found[0]):
        raise ClusterError(f"no process of pod {namespace}/{pod} runs on this machine: this needs a local cluster")
    return found


def engine_core(cluster: Cluster, pod: str, namespace: str = "default") -> int:
    """The process of an engine's pod in which vLLM computes; the API's process has started it."""
    (found,) = [
        process
        for process in container_processes(cluster, pod, namespace)
        if _CORE in (process / "cmdline").read_bytes()
    ]
    return int(found.name)


def started(process: Path) -> float:
    """When a process started, on the clock that counts from the machine's boot (CLOCK_BOOTTIME)."""
    fields = (process / "stat").read_text().rpartition(")")[2].split()
    return int(fields[_START_FIELD]) / os.sysconf("SC_CLK_TCK")


def _is_part_of(process: Path, identity: str) -> bool:
    """A container's identity is part of the name of its control group."""
    try:
        return identity in (process / "cgroup").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def _is_first(process: Path) -> bool:
    """Whether it is the first process of its own process namespace."""
    try:
        status = (process / "status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return any(line.split()[-1] == "1" for line in status.splitlines() if line.startswith("NSpid:"))
