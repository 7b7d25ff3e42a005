"""Finds and ends a cluster's processes by a mark that each of them carries.

Every process of a cluster is started with one variable in its environment that names the cluster's folder, and
its children inherit it. So what belongs to a cluster is known from the kernel alone: nothing is lost when the tool
is killed between starting a process and writing its number down, and no other process is ever hit.
"""

import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path

from e2e.localkube.errors import ClusterError

_MARK = "INFERENCE_OPERATOR_CLUSTER_PROCESS"
GRACE_S = 3.0
"""The supervisor ends and collects the others within this time; whatever is left then is killed."""
KILL_DEADLINE_S = 20.0
"""A killed process ends within milliseconds; one that waits for a busy disk may take seconds."""
_POLL_S = 0.02


def marked_environment(directory: Path, base: Mapping[str, str]) -> dict[str, str]:
    """An environment that makes a process part of the cluster in this folder."""
    return {**base, _MARK: str(directory)}


def processes(directory: Path) -> list[int]:
    """The processes of the cluster in this folder, by number."""
    numbers = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return sorted(number for number in numbers if _is_marked(number, directory))


def end_processes(directory: Path) -> None:
    """End every process of the cluster; nothing of what they hold is to be kept."""
    if not _signal_until_gone(directory, signal.SIGTERM, GRACE_S):
        return
    if left := _signal_until_gone(directory, signal.SIGKILL, KILL_DEADLINE_S):
        raise ClusterError(
            f"processes {left} of the cluster in {directory} survive SIGKILL after {KILL_DEADLINE_S:.0f} s: "
            "they wait for the kernel; look with `ps -o pid,stat,wchan,args -p PID`, then run `down` again"
        )


def _signal_until_gone(directory: Path, which: signal.Signals, within_s: float) -> list[int]:
    """Send a signal to each process once, and return what is left after this time; new ones get it as well."""
    deadline = time.monotonic() + within_s
    told: set[int] = set()
    while left := processes(directory):
        for number in set(left) - told:
            _send(which, number, directory)
        told.update(left)
        if time.monotonic() > deadline:
            break
        time.sleep(_POLL_S)
    return left


def first_inside(directory: Path) -> int | None:
    """The process of the cluster that is the first one of its own process namespace, by its number out here."""
    for number in processes(directory):
        try:
            status = Path(f"/proc/{number}/status").read_text()
        except OSError:  # it ended since the list was made
            continue
        namespaces = next(line.split()[1:] for line in status.splitlines() if line.startswith("NSpid:"))
        if len(namespaces) > 1 and namespaces[-1] == "1":
            return number
    return None


def last_lines(log: Path, count: int = 12) -> str:
    """The end of a log, for an error message."""
    try:
        lines = log.read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return "  (nothing was logged)"
    return "\n".join(f"  {line}" for line in lines[-count:]) or "  (nothing was logged)"


def _is_marked(number: int, directory: Path) -> bool:
    try:
        environment = Path(f"/proc/{number}/environ").read_bytes()
    except OSError:  # it ended, or belongs to another user
        return False
    return f"{_MARK}={directory}".encode() in environment.split(b"\0")


def _send(which: signal.Signals, number: int, directory: Path) -> None:
    """Signal a process through a handle, so that a number given to another process meanwhile is harmless."""
    try:
        handle = os.pidfd_open(number)
    except ProcessLookupError:
        return
    try:
        if _is_marked(number, directory):
            signal.pidfd_send_signal(handle, which)
    except ProcessLookupError:
        pass
    finally:
        os.close(handle)
