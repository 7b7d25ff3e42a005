"""What time it is, by the API server's clock.

The operator compares the time with when objects were made and conditions changed, which the control plane has written.
A machine whose own clock is wrong, or is set while the operator runs, would be early or late with what it decides.
"""

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

WHOLE_SECOND = timedelta(seconds=1)
"""What the date of an answer leaves out (RFC 9110, 5.6.7)."""

WRONG = timedelta(seconds=30)
"""Of this machine's clock, above which it is told: nothing is decided by it, but logs carry it."""

log = logging.getLogger(__name__)


def _time_of_day() -> datetime:
    return datetime.now(UTC)


class Clock:
    """Time that passes as this machine counts seconds, from where the API server says that it is.

    Before the first answer it is this machine's time.

    Args:
        elapsed: seconds that only grow, whoever sets the time.
        time_of_day: what this machine takes for the time.

    Examples:
        >>> clock = Clock(lambda: 0.0, lambda: datetime(2026, 11, 22, 7, 0, tzinfo=UTC))
        >>> clock.hear("Sun, 22 Nov 2026 06:59:58 GMT", took=1.5)
        >>> clock.now().isoformat()
        '2026-11-22T07:00:00+00:00'
        >>> clock.hear("Sun, 22 Nov 2026 08:00:00 GMT", took=1.5)
        >>> clock.now().isoformat()
        '2026-11-22T08:00:00+00:00'
    """

    def __init__(
        self, elapsed: Callable[[], float] = time.monotonic, time_of_day: Callable[[], datetime] = _time_of_day
    ) -> None:
        self._elapsed = elapsed
        self._time_of_day = time_of_day
        self._began = time_of_day() - timedelta(seconds=elapsed())
        """When `elapsed` was zero."""
        self._heard = ""
        self._told = False

    def now(self) -> datetime:
        """The time."""
        return self._began + timedelta(seconds=self._elapsed())

    def hear(self, date: str, *, took: float) -> None:
        """Take note of an answer's date (RFC 9110, 6.6.1), which may be read late and never early.

        Args:
            date: when the API server began to answer.
            took: seconds from the request to the end of the answer; it was given within them.
        """
        if date == self._heard:
            return
        self._heard = date
        try:
            off = parsedate_to_datetime(date) - self.now()
        except (ValueError, TypeError):
            return  # none, or what a proxy has made of it: the time is known without
        late = WHOLE_SECOND + timedelta(seconds=took)
        if off > timedelta():
            self._began += off
        elif off < -late:
            self._began += off + late
        self._tell()

    def _tell(self) -> None:
        wrong = self._time_of_day() - self.now()
        if abs(wrong) > WRONG and not self._told:
            how = "ahead of" if wrong > timedelta() else "behind"
            log.warning(
                "This machine's clock is %.0f s %s the API server's, which is what counts. Set it: logs carry its time",
                abs(wrong).total_seconds(),
                how,
            )
        self._told = abs(wrong) > WRONG
