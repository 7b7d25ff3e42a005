"""The outcome of one request."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise


class Loss(StrEnum):
    REFUSED = "refused"
    RESET = "reset"
    STATUS = "status"
    """A status that is neither 2xx nor 429."""
    BROKEN = "broken"
    """The answer began but is incomplete; for a stream, `data: [DONE]` is missing."""
    DIFFERENT = "different text"
    MIXED_UP = "answer to another request"
    LATE = "late"
    """No complete answer within the client's timeout."""


@dataclass(frozen=True, slots=True)
class CheckedAnswer:
    """One request and its outcome; times in seconds of the monotonic clock."""

    started: float
    ended: float
    streamed: bool
    kept: bool
    """Whether its client keeps connections for the next request, if the server allows it."""
    loss: Loss | None = None
    status: int | None = None
    detail: str = ""
    """The received data or the exception of a lost request."""
    number: int = 0
    """Of its request: each is sent once."""
    request_id: str = ""
    """`X-Request-Id` of the answer: what the router's log calls it; empty without one."""

    @property
    def rejected(self) -> bool:
        return self.loss is None and self.status is not None and self.status // 100 != 2  # noqa: PLR2004 - 2xx

    @property
    def ok(self) -> bool:
        return self.loss is None and not self.rejected

    @property
    def seconds(self) -> float:
        return self.ended - self.started

    def since(self, origin: float) -> "CheckedAnswer":
        return replace(self, started=self.started - origin, ended=self.ended - origin)


def longest_gap(answers: Iterable[CheckedAnswer]) -> float:
    """The longest time in seconds without a right answer."""
    ends = sorted(one.ended for one in answers if one.ok)
    return max((later - earlier for earlier, later in pairwise(ends)), default=0.0)
