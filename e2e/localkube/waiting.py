"""Waiting for a condition of a cluster."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
POLL_SECONDS = 0.1


def eventually(look: Callable[[], T], *, seconds: float, what: Callable[[], str] | str) -> T:
    """Call `look` until it returns a truthy value; returns it. After the time, raises AssertionError with `what`."""
    deadline = time.monotonic() + seconds
    while True:
        if answer := look():
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:.0f} s: {what if isinstance(what, str) else what()}")
        time.sleep(POLL_SECONDS)
