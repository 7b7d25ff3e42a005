"""Components of a control plane that stand still for a while."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from e2e.localkube.handle import LocalCluster
from e2e.localkube.processes import processes


@contextmanager
def paused(pid: int) -> Iterator[None]:
    """A block in which a component's process stands still: it takes connections, and answers none."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def component(cluster: LocalCluster, name: str) -> int:
    """The process of a component."""
    found = processes(cluster.kubeconfig.parent)
    (pid,) = (pid for pid in found if Path(f"/proc/{pid}/comm").read_text().strip() == name)
    return pid
