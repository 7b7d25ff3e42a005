"""Exponential backoff: how long to wait after failures in a row."""

_MAX_DOUBLINGS = 64
"""Keeps the power within a float. More doublings change nothing: no wait in use is 2^64 times its first one."""


def exponential_backoff(failures: int, *, first: float, longest: float) -> float:
    """The wait after this many failures in a row: `min(first * 2^(failures - 1), longest)`.

    The result has the unit of `first` and `longest`. There is no jitter; callers that need one add it.
    """
    return min(first * 2.0 ** min(failures - 1, _MAX_DOUBLINGS), longest)
