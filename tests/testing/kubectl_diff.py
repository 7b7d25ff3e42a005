"""`kubectl diff` beside controllers that write."""

from collections.abc import Callable

from e2e.localkube.errors import ClusterError
from e2e.localkube.waiting import eventually
from tests.testing.workspace import SETTLE_SECONDS


def await_no_difference(diff: Callable[[], str]) -> None:
    """Wait until `kubectl diff` finds nothing.

    Drift stays. A status that is written between the two reads of `kubectl diff` is a difference once.
    """

    def is_empty() -> bool:
        try:
            return diff() == ""
        except ClusterError:  # the exit status of a difference
            return False

    eventually(is_empty, seconds=SETTLE_SECONDS, what="no difference")
