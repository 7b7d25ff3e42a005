"""What the tool tells its user while it works."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


def say(subject: str, message: str) -> None:
    """Print one line at once, to standard error: standard output belongs to archives."""
    print(f"{subject}: {message}", file=sys.stderr, flush=True)


@contextmanager
def timed(subject: str, what: str) -> Iterator[Callable[[str], None]]:
    """Announce a piece of work and, on success, its seconds; what is called inside adds lines with the time so far."""
    start = time.monotonic()

    def line(message: str) -> None:
        say(subject, f"{time.monotonic() - start:4.0f} s  {message}")

    say(subject, f"{what} …")
    yield line
    line("done")
