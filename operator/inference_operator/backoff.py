"""Exponential backoff: how long to wait after failures in a row."""

from datetime import timedelta
from typing import TypeVar

Wait = TypeVar("Wait", float, timedelta)

_MAX_DOUBLINGS = 32
"""Keeps the product within a timedelta. More doublings change nothing: no wait in use is 2^32 times its first one."""


def exponential_backoff(failures: int, *, first: Wait, longest: Wait) -> Wait:
    """The wait after this many failures in a row: `min(first * 2^(failures - 1), longest)`.

    There is no jitter; callers that need one add it.
    """
    return min(first * 2.0 ** min(failures - 1, _MAX_DOUBLINGS), longest)
