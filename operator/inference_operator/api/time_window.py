"""Windows of time that open and close by cron expressions.

A window is open while its next end comes before its next start, as in KEDA (kedacore/keda v2.21.0,
pkg/scalers/cron_scaler.go). A time that a change of the clock skips is made up for right after it, and one that comes
twice counts at its first (cronsim, as Debian's cron).
"""

from datetime import UTC, datetime
from functools import lru_cache
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError
from pydantic import AfterValidator, Field

from inference_operator.api.validation import SpecModel

CRON_PATTERN = "^[0-9A-Za-z*/,-]+( [0-9A-Za-z*/,-]+){4}$"
"""Minute, hour, day of the month, month, day of the week. KEDA does not know other forms that cron programs allow."""
ANY_TIME = datetime(2026, 1, 1, tzinfo=UTC)
"""The parser wants a time."""

ZONE_PATTERN = "^[A-Za-z0-9_+/-]+$"


def _cron(text: str) -> str:
    cure = "use minute, hour, day of month, month and day of week, for example `0 8 * * 1-5`"
    try:
        parsed = CronSim(text, ANY_TIME)
    except CronSimError as error:
        raise ValueError(f"is no cron expression ({error}): {cure}") from None
    if min(parsed.days) < 1 or any(isinstance(day, tuple) for day in parsed.weekdays):
        raise ValueError(f"has `L` or `#`, which are not supported: {cure}")
    return text


def _zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError("is no IANA time zone: use a name such as `Europe/Berlin` or `UTC`") from None
    return name


Cron = Annotated[str, AfterValidator(_cron)]


class TimeWindow(SpecModel):
    start: Cron = Field(
        pattern=CRON_PATTERN,
        max_length=64,
        description="When the window opens, as a cron expression, for example `0 8 * * 1-5`. Required. Change: in"
        " place.",
    )
    end: Cron = Field(
        pattern=CRON_PATTERN,
        max_length=64,
        description="When the window closes, as a cron expression. Required. Change: in place.",
    )
    time_zone: Annotated[str, AfterValidator(_zone)] = Field(
        "UTC",
        pattern=ZONE_PATTERN,
        max_length=64,
        description="IANA time zone of `start` and `end`. Default: `UTC`. Change: in place.",
    )

    def changes(self, now: datetime) -> tuple[datetime | None, datetime | None]:
        """The next start and the next end in UTC; None for one that does not come within 50 years."""
        return _next(self.start, self.time_zone, now), _next(self.end, self.time_zone, now)

    def closes_at(self, now: datetime) -> datetime | None:
        """When the window closes that is open now; None if it is not open."""
        start, end = self.changes(now)
        return end if end is not None and (start is None or end < start) else None


@lru_cache(maxsize=256)
def _next(expression: str, zone: str, now: datetime) -> datetime | None:
    """The next time of a cron expression. In an hour that comes twice, cronsim also returns a time of the first one.

    A reconcile asks for the same times again and again; they are kept, since parsing an expression takes 50 us.
    """
    local = now.astimezone(ZoneInfo(zone))
    times = (time.astimezone(UTC) for time in CronSim(expression, local))
    return next((time for time in times if time > now), None)
