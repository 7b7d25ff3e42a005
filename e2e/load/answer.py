"""What became of one request."""

import json
from dataclasses import dataclass
from enum import StrEnum

BAD_GATEWAY = 502


class Loss(StrEnum):
    """How a request was lost."""

    REFUSED = "refused"
    """No connection came about."""
    RESET = "reset"
    """The connection ended before the answer began."""
    STATUS = "status"
    """A status that is neither 2xx nor 429."""
    BROKEN = "broken"
    """The answer began and broke off, or a stream ended without its end marker."""
    DIFFERENT = "different text"
    LATE = "late"
    """No whole answer within the time that a request has."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One request and what came of it; times in seconds of the monotonic clock."""

    started: float
    ended: float
    streamed: bool
    kept: bool
    """Whether its client keeps connections for the next request, as far as the server lets it."""
    loss: Loss | None = None
    status: int | None = None
    """Status of the answer, if it came that far."""
    detail: str = ""
    """What was received or raised, where the request was lost."""

    @property
    def rejected(self) -> bool:
        """Whether it was turned away as documented, with 429."""
        return self.loss is None and self.status is not None and self.status // 100 != 2  # noqa: PLR2004 - 2xx

    @property
    def ok(self) -> bool:
        """Whether it was answered in full and right."""
        return self.loss is None and not self.rejected

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.ended - self.started

    @property
    def clean_error(self) -> bool:
        """Whether it was lost with an error in the form of the OpenAI API that says its own status."""
        if self.loss is not Loss.STATUS:
            return False
        try:
            error = json.loads(self.detail)["error"]
        except (ValueError, KeyError, TypeError):
            return False
        return isinstance(error, dict) and error.get("code") == self.status and bool(error.get("message"))
