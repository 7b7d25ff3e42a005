"""Long commands: their output goes to a log file, their failure shows the log's end."""

import subprocess
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from e2e.images.errors import ImageError
from e2e.localkube.cache import cache_root

SHOWN_LINES = 15
"""Lines of the log in an error message: the last output of the failed command."""


def log_path(name: str) -> Path:
    """The log of the last build of an image."""
    folder = cache_root() / "images" / "logs"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{name}.log"


def run_logged(name: str, command: Sequence[str], on_line: Callable[[str], None] = lambda _: None) -> None:
    """Run a command; each line of its output goes to the log of `name` and to `on_line`."""
    log = log_path(name)
    last = deque[str](maxlen=SHOWN_LINES)
    with (
        log.open("a") as file,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        ) as process,
    ):
        try:
            assert process.stdout is not None  # noqa: S101  # a pipe was requested above
            for line in process.stdout:
                file.write(line)
                last.append(line)
                on_line(line.rstrip())
        except BaseException:
            process.terminate()  # leaving the block waits for its end
            raise
    if process.returncode:
        shown = "".join(last)
        raise ImageError(f"{name}: {command[0]} failed with status {process.returncode}; the end of {log}:\n{shown}")


def output(command: Sequence[str]) -> str:
    """The standard output of a command; ImageError if it fails."""
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode:
        raise ImageError(f"`{' '.join(command)}` failed: {answer.stderr.strip()}")
    return answer.stdout


def succeeds(command: Sequence[str]) -> bool:
    """Whether a command exits with status 0."""
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
