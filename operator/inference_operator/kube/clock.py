"""The time by the API server's clock.

The operator compares the time with creation and transition times that the control plane wrote. With the clock of its
own machine, which may be wrong or be set while it runs, it would act too early or too late.
"""

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

WHOLE_SECOND = timedelta(seconds=1)
"""The precision of the `Date` header (RFC 9110, 5.6.7)."""

WRONG = timedelta(seconds=30)
"""A larger error of this machine's clock is logged. Decisions do not use that clock, but logs do."""

LEAP = timedelta(seconds=5)
"""Clocks of API servers that keep time by NTP differ by far less. A larger difference is that of a wrong clock."""

PATIENCE = timedelta(seconds=60)
"""The clock leaps only when no response has agreed with it for so long. So API servers whose clocks differ do not throw
it to and fro, and a single one whose clock was set is followed."""

log = logging.getLogger(__name__)


def boot_time() -> float:
    """Seconds on a monotonic clock that goes on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _time_of_day() -> datetime:
    return datetime.now(UTC)


class Clock:
    """The API server's time: the date of its last response, and the seconds that this machine has counted since.

    Before the first response it is this machine's time.
    """

    def __init__(
        self, elapsed: Callable[[], float] = boot_time, time_of_day: Callable[[], datetime] = _time_of_day
    ) -> None:
        self._elapsed = elapsed
        self._time_of_day = time_of_day
        self._zero = time_of_day() - timedelta(seconds=elapsed())
        """The time at which `elapsed` was zero."""
        self._last_date = ""
        self._warned = self._differed = False
        self._agreed_at: float | None = None
        """When a response agreed with the clock, by `elapsed`; None before the first response."""
        self._slack = timedelta()
        """By how much the response that set the clock may have been read too late."""

    def now(self) -> datetime:
        return self._zero + timedelta(seconds=self._elapsed())

    def adjust(self, date: str, *, took: float) -> None:
        """Adjust the time to the `Date` header of a response (RFC 9110, 6.6.1), which may be read late, never early.

        The API server wrote it when it began the response, within the seconds that the request `took`.
        """
        if date == self._last_date:
            return
        self._last_date = date
        try:
            error = parsedate_to_datetime(date) - self.now()
        except (ValueError, TypeError):
            return  # absent, or changed by a proxy: keep the time as it is
        late = WHOLE_SECOND + timedelta(seconds=took)
        correction = error if error > timedelta() else min(timedelta(), error + late)
        if abs(correction) > LEAP + self._slack and self._agreed_lately():
            self._warn_of_difference(correction)
            return
        self._slack = late if correction else self._slack
        self._zero += correction
        self._agreed_at = self._elapsed()
        self._warn()

    def _agreed_lately(self) -> bool:
        return self._agreed_at is not None and self._elapsed() - self._agreed_at < PATIENCE.total_seconds()

    def _warn_of_difference(self, difference: timedelta) -> None:
        if not self._differed:
            log.warning(
                "The clocks of the API servers differ by %.0f s. The operator keeps to one of them. Set the clocks",
                abs(difference).total_seconds(),
            )
        self._differed = True

    def _warn(self) -> None:
        wrong = self._time_of_day() - self.now()
        if abs(wrong) > WRONG and not self._warned:
            how = "ahead of" if wrong > timedelta() else "behind"
            log.warning(
                "This machine's clock is %.0f s %s the API server's, which is what counts. Set it: logs carry its time",
                abs(wrong).total_seconds(),
                how,
            )
        self._warned = abs(wrong) > WRONG
