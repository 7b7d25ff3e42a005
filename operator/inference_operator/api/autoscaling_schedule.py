"""`spec.autoscaling.schedule`: more engines at known times."""

from datetime import UTC, datetime
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError
from pydantic import AfterValidator, Field

from inference_operator.api.validation import SpecModel

MAX_REPLICAS = 256
"""Routers have up to twice as many server slots, and HAProxy takes 682 records from DNS (`router/haproxy.py`)."""

MAX_ENTRIES = 16
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


class ScheduleSpec(SpecModel):
    """A time with more engines."""

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
    min_replicas: int = Field(
        ge=1, le=MAX_REPLICAS, description="Minimum number of engines in the window. Required. Change: in place."
    )
