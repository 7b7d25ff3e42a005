"""Progress lines on standard error."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


def say(subject: str, message: str) -> None:
    """Print one line to standard error; standard output is for archives."""
    print(f"{subject}: {message}", file=sys.stderr, flush=True)


@contextmanager
def timed(subject: str, what: str) -> Iterator[Callable[[str], None]]:
    """Print the start of a task, and its duration on success; the yielded function prints a line with the time."""
    start = time.monotonic()

    def line(message: str) -> None:
        say(subject, f"{time.monotonic() - start:4.0f} s  {message}")

    say(subject, f"{what} …")
    yield line
    line("done")
