"""The processes below a member. A part of the program of each member; standard library only."""

import ctypes
import os
import signal
from contextlib import suppress
from pathlib import Path

SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER (Linux, `include/uapi/linux/prctl.h`)."""


def adopt_orphans() -> None:
    """Become the parent of orphans, as the first process of a container is anyway."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)


def descendants(root: int) -> set[int]:
    parents: dict[int, int] = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended meanwhile
            parents[int(file.parent.name)] = int(file.read_text(errors="replace").rpartition(")")[2].split()[1])
    found: set[int] = set()
    new = {root}
    while new:
        found |= new
        new = {pid for pid, parent in parents.items() if parent in found} - found
    return found - {root}


def kill_descendants() -> bool:
    """Whether there was any process to kill."""
    alive = descendants(os.getpid())
    for pid in alive:
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    return bool(alive)
