"""The cgroup below which a node's pods run: one folder in every hierarchy, made before and removed after."""

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from e2e.localkube.errors import ClusterError

_GONE_DEADLINE_S = 20.0
"""A cgroup can be removed once the kernel has finished its processes; normally within milliseconds."""
_POLL_S = 0.05
_UNIFIED_CONTROLLERS = "+cpu +cpuset +memory +pids"
"""What the kubelet asks of a cgroup v2 root."""


def cgroup_name(cluster: str) -> str:
    """The cgroup of a cluster, in every hierarchy."""
    return f"inference-operator-{cluster}"


def create(cluster: str) -> None:
    """Make the cluster's cgroup; the kubelet refuses a root that does not exist."""
    for hierarchy, unified in _hierarchies():
        if unified:
            # Hybrid hosts mount a unified hierarchy without controllers; there is nothing to enable there.
            with suppress(OSError):
                (hierarchy / "cgroup.subtree_control").write_text(_UNIFIED_CONTROLLERS)
        folder = hierarchy / cgroup_name(cluster)
        folder.mkdir(exist_ok=True)
        for setting in () if unified else ("cpuset.cpus", "cpuset.mems"):
            if (folder / setting).exists():  # a v1 cpuset starts empty and takes no process before it is set
                (folder / setting).write_text((hierarchy / setting).read_text())


def remove(cluster: str) -> None:
    """Remove the cluster's cgroups, deepest first, when their processes are gone."""
    deadline = time.monotonic() + _GONE_DEADLINE_S
    while left := [
        folder for hierarchy, _ in _hierarchies() if not _removed(folder := hierarchy / cgroup_name(cluster))
    ]:
        if time.monotonic() > deadline:
            raise ClusterError(
                f"the cgroups {', '.join(map(str, left))} are still in use: "
                "see their cgroup.procs, end those processes and run `down` again"
            )
        time.sleep(_POLL_S)


def _hierarchies() -> Iterator[tuple[Path, bool]]:
    """Where cgroups are mounted, and whether it is version 2."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, folder, kind, *_ = line.split()
        if kind in {"cgroup", "cgroup2"}:
            yield Path(folder), kind == "cgroup2"


def _removed(folder: Path) -> bool:
    if not folder.exists():
        return True
    for inner in sorted(folder.rglob("*/"), key=lambda path: len(path.parts), reverse=True):
        with suppress(OSError):
            inner.rmdir()
    with suppress(OSError):
        folder.rmdir()
    return not folder.exists()
