"""Runs the end-to-end tests in two pytest processes side by side: `python -m e2e.run [PYTEST ARGUMENTS]`.

Most of the time these tests wait, for pods, drains and timeouts. So two processes use two cores better than one.

- The first process runs everything that needs the cluster with the project's stack. Its output is shown as it comes.
- The second one runs what needs no such cluster. Its output is shown when both have ended.
- The exit status is 1 if either fails. Both are stopped if this process is.
"""

import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).parents[1]
WITHOUT_STACK = (
    "e2e/router",
    "e2e/cluster",
    "e2e/images",
    "e2e/test_arguments.py",
    "e2e/test_media_client.py",
    "e2e/test_derived_sizes.py",
    "e2e/test_beside.py",
    "e2e/test_bucket.py",
    "e2e/test_bucket_faults.py",
    "e2e/test_push.py",
    "e2e/test_verify.py",
)
STOP_SECONDS = 60.0
"""For pytest to tear its clusters down after a SIGINT."""


def main(arguments: Sequence[str]) -> int:
    """Run both; returns the exit status."""
    signal.signal(signal.SIGTERM, _interrupt)
    # A shell starts background jobs with SIGINT ignored, and children inherit that: then pytest would not stop.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    started = time.monotonic()
    pytest = [sys.executable, "-m", "pytest", "-q", "--durations=10", "--durations-min=0.5", *arguments]
    with tempfile.TemporaryFile("w+b") as output:
        with_stack = subprocess.Popen([*pytest, *(f"--ignore={path}" for path in WITHOUT_STACK), "e2e"], cwd=ROOT)
        without = subprocess.Popen([*pytest, *WITHOUT_STACK], cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)
        processes = (with_stack, without)
        try:
            statuses = [process.wait() for process in processes]
        except KeyboardInterrupt:
            for process in processes:
                process.send_signal(signal.SIGINT)
            for process in processes:
                process.wait(STOP_SECONDS)
            raise
        output.seek(0)
        print(f"\nTests without the stack's cluster, beside the others:\n{output.read().decode(errors='replace')}")
    print(f"Both took {time.monotonic() - started:.0f} s; exit statuses: {statuses}")
    return int(any(statuses))


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
