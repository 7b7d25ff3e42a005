"""Runs two pytest processes side by side.

    python -m e2e.runs.two_processes [ARGUMENTS OF ONE] -- [ARGUMENTS OF THE OTHER]

Tests of clusters mostly wait, for pods, drains and timeouts. So two processes use two cores better than one.

- The output of the first process is shown as it comes. That of the second one is shown when both have ended, and whole
  only if it failed: the end of the output then names what failed. Otherwise, the end of it is shown, from the durations
  that it recorded.
- From the command line, the second one has a lower priority: its tests do not take the CPU from those with deadlines.
- The exit status is 1 if either fails. Both are stopped if this process is.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from e2e.runs import durations_plugin

ROOT = Path(__file__).parents[2]
STOP_SECONDS = 60.0
"""For pytest to tear its clusters down after a SIGINT."""
NICENESS = 10
"""Of the second process from the command line, as of nice(1)."""
PYTEST = (
    sys.executable,
    "-m",
    "pytest",
    "-q",
    "--tb=short",
    "-p",
    durations_plugin.__name__,
    "--durations=10",
    "--durations-min=0.5",
)


def run(first: Sequence[str], second: Sequence[str], niceness: int = 0) -> int:
    """Run pytest twice, with these arguments; returns the exit status. The second one is nicer by `niceness`."""
    signal.signal(signal.SIGTERM, _interrupt)
    # A shell starts background jobs with SIGINT ignored, and children inherit that: then pytest would not stop.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    started = time.monotonic()
    with tempfile.TemporaryFile("w+b") as output:
        shown = subprocess.Popen([*PYTEST, *first], cwd=ROOT)
        beside = subprocess.Popen([*PYTEST, *second], cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)
        os.setpriority(os.PRIO_PROCESS, beside.pid, niceness)
        processes = (shown, beside)
        try:
            statuses = [process.wait() for process in processes]
        except KeyboardInterrupt:
            for process in processes:
                process.send_signal(signal.SIGINT)
            for process in processes:
                process.wait(STOP_SECONDS)
            raise
        output.seek(0)
        told = output.read().decode(errors="replace")
        print("\nTests beside the others:", told if statuses[1] else ending(told), sep="\n")
    print(f"Both took {time.monotonic() - started:.0f} s; exit statuses: {statuses}")
    return int(any(statuses))


def ending(output: str) -> str:
    """The end of pytest's output: from the durations that it recorded, or its last line."""
    lines = output.strip().splitlines() or [""]
    titles = [number for number, line in enumerate(lines) if durations_plugin.TITLE in line]
    return "\n".join(lines[titles[-1] if titles else -1 :])


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    ARGUMENTS = sys.argv[1:]
    SEPARATOR = ARGUMENTS.index("--")
    sys.exit(run(ARGUMENTS[:SEPARATOR], ARGUMENTS[SEPARATOR + 1 :], NICENESS))
