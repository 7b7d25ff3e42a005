"""The fewest engines at a time: `minReplicas`, or what the schedule asks for if that is more.

An entry is active while its next end comes before its next start, as in KEDA (kedacore/keda v2.21.0,
pkg/scalers/cron_scaler.go). A time that a change of the clock skips is made up for right after it, and one that comes
twice counts at its first (cronsim, as Debian's cron).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from zoneinfo import ZoneInfo

from cronsim import CronSim

from inference_operator.api.autoscaling import AutoscalingSpec
from inference_operator.api.autoscaling_schedule import ScheduleSpec


@dataclass(frozen=True, slots=True)
class Floor:
    """The fewest engines now."""

    replicas: int
    entry: int | None = None
    """Index of the entry of the schedule that asks for them; None for `minReplicas`."""
    until: datetime | None = None
    """When that entry ends."""
    due: datetime | None = None
    """When an entry begins or ends next; None without a schedule."""

    @property
    def field(self) -> str:
        """The field that says so.

        Examples:
            >>> Floor(1).field, Floor(4, entry=0).field
            ('autoscaling.minReplicas', 'autoscaling.schedule[0].minReplicas')
        """
        return "autoscaling.minReplicas" if self.entry is None else f"autoscaling.schedule[{self.entry}].minReplicas"


def floor_at(spec: AutoscalingSpec, now: datetime) -> Floor:
    """The fewest engines at a time.

    Examples:
        >>> office = ScheduleSpec(start="0 8 * * *", end="0 18 * * *", minReplicas=4, timeZone="Europe/Berlin")
        >>> spec = AutoscalingSpec(maxReplicas=8, schedule=(office,))
        >>> floor_at(spec, datetime(2026, 1, 5, 7, 0, tzinfo=UTC)).replicas
        4
        >>> floor_at(spec, datetime(2026, 1, 5, 6, 59, tzinfo=UTC)).due.isoformat()
        '2026-01-05T07:00:00+00:00'
    """
    changes = list(_changes(spec.schedule, now))
    due = min((moment for pair in changes for moment in pair if moment), default=None)
    active = [
        (entry.min_replicas, -index, end)
        for index, (entry, (start, end)) in enumerate(zip(spec.schedule, changes, strict=True))
        if end is not None and (start is None or end < start)
    ]
    replicas, index, until = max(active, default=(0, 0, None), key=lambda one: one[:2])
    if replicas <= spec.min_replicas:
        return Floor(spec.min_replicas, due=due)
    return Floor(replicas, -index, until, due)


def _changes(entries: Sequence[ScheduleSpec], now: datetime) -> Iterator[tuple[datetime | None, datetime | None]]:
    """The next start and the next end of each entry, in UTC; None for one that does not come within 50 years."""
    for entry in entries:
        yield _next(entry.start, entry.time_zone, now), _next(entry.end, entry.time_zone, now)


@lru_cache(maxsize=256)
def _next(expression: str, zone: str, now: datetime) -> datetime | None:
    """The next time of a cron expression. In an hour that comes twice, cronsim also returns a time of the first one.

    A reconcile asks for the same times again and again; they are kept, since parsing an expression takes 50 us.
    """
    local = now.astimezone(ZoneInfo(zone))
    times = (time.astimezone(UTC) for time in CronSim(expression, local))
    return next((time for time in times if time > now), None)
