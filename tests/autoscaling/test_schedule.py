"""The schedule: times with more engines, in time zones with and without daylight saving time."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_operator.api.autoscaling import AutoscalingSpec, ScheduleSpec
from inference_operator.autoscaling.inputs import Floor, floor_at

BERLIN = ZoneInfo("Europe/Berlin")


def entry(start: str, end: str, replicas: int = 4, zone: str = "Europe/Berlin") -> ScheduleSpec:
    return ScheduleSpec(start=start, end=end, minReplicas=replicas, timeZone=zone)


def floor(now: datetime, *entries: ScheduleSpec, least: int = 1) -> Floor:
    return floor_at(AutoscalingSpec(minReplicas=least, maxReplicas=8, schedule=entries), now)


OFFICE = entry("0 8 * * 1-5", "0 18 * * 1-5")


def test_without_a_schedule_the_least_is_min_replicas_and_nothing_is_due() -> None:
    assert floor(datetime(2026, 1, 5, tzinfo=UTC), least=2) == Floor(2)


@pytest.mark.parametrize(
    ("day", "hour", "minute", "replicas"),
    [(5, 7, 59, 1), (5, 8, 0, 4), (5, 17, 59, 4), (5, 18, 0, 1), (10, 12, 0, 1), (11, 12, 0, 1), (12, 8, 0, 4)],
)
def test_it_holds_from_its_start_until_before_its_end_on_its_days(
    day: int, hour: int, minute: int, replicas: int
) -> None:
    assert floor(datetime(2026, 1, day, hour, minute, tzinfo=BERLIN), OFFICE).replicas == replicas


def test_it_says_which_entry_holds_until_when_and_when_the_next_change_is() -> None:
    found = floor(datetime(2026, 1, 5, 12, tzinfo=BERLIN), entry("0 7 * * *", "0 8 * * *", 7), OFFICE)
    assert (found.entry, found.field) == (1, "autoscaling.schedule[1].minReplicas")
    assert found.until == datetime(2026, 1, 5, 17, tzinfo=UTC)
    assert found.due == found.until


def test_of_two_that_hold_the_larger_one_counts_and_never_less_than_min_replicas() -> None:
    now = datetime(2026, 1, 5, 12, tzinfo=BERLIN)
    assert floor(now, OFFICE, entry("0 11 * * *", "0 13 * * *", 6)).replicas == 6
    assert floor(now, OFFICE, least=5) == Floor(5, due=datetime(2026, 1, 5, 17, tzinfo=UTC))


def test_a_night_holds_over_midnight() -> None:
    night = entry("0 22 * * *", "0 6 * * *")
    found = [floor(datetime(2026, 1, 5, hour, tzinfo=BERLIN), night).replicas for hour in (21, 22, 0, 5, 6)]
    assert found == [1, 4, 4, 4, 1]


@pytest.mark.parametrize(("day", "utc"), [("2026-03-27", 7), ("2026-03-30", 6), ("2026-10-23", 6), ("2026-10-26", 7)])
def test_eight_in_berlin_is_another_time_in_summer_than_in_winter(day: str, utc: int) -> None:
    at = datetime.fromisoformat(f"{day}T{utc:02}:00:00+00:00")
    assert floor(at, OFFICE).replicas == 4
    assert floor(at.replace(hour=utc - 1, minute=59), OFFICE).replicas == 1


def test_a_start_that_the_change_to_summer_time_skips_comes_right_after_it() -> None:
    skipped = entry("30 2 * * *", "0 4 * * *")  # on 29 March 2026, 02:00 becomes 03:00
    assert floor(datetime(2026, 3, 29, 0, 59, tzinfo=UTC), skipped).replicas == 1
    assert floor(datetime(2026, 3, 29, 1, 1, tzinfo=UTC), skipped).replicas == 4
    assert floor(datetime(2026, 3, 29, 2, 0, tzinfo=UTC), skipped).replicas == 1


def test_a_start_that_comes_twice_at_the_change_to_winter_time_counts_once() -> None:
    twice = entry("30 2 * * *", "45 2 * * *")  # on 25 October 2026, 03:00 becomes 02:00
    quarters = [datetime(2026, 10, 25, hour, minute, tzinfo=UTC) for hour in (0, 1) for minute in (29, 30, 44, 45)]
    assert [floor(at, twice).replicas for at in quarters] == [1, 4, 4, 1, 1, 1, 1, 1]


@given(st.integers(0, 2 * 365 * 24 * 60))
def test_between_two_changes_nothing_changes(minutes: int) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=minutes)
    found = floor(now, OFFICE)
    assert found.due is not None
    assert found.due > now
    middle = floor(now + (found.due - now) / 2, OFFICE)
    assert (middle.replicas, middle.due) == (found.replicas, found.due)
