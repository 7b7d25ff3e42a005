"""Drills and windows: when they end."""

from datetime import UTC, datetime

from inference_operator.api.drill import DRILL_ANNOTATION, drill_of
from inference_operator.api.time_window import TimeWindow


def test_a_drill_ends_at_its_time_and_is_none_with_a_time_that_is_too_late_or_wrong() -> None:
    now = datetime(2026, 1, 2, 3, tzinfo=UTC)
    texts = [f"1 engine until 2026-01-02T03:{minutes}:00Z" for minutes in ("05", "00", "11")]
    drills = [drill_of({DRILL_ANNOTATION: text}, now) for text in (*texts, "1 engine until 2026-99-02T05:00:00Z")]
    assert [drill and drill.replicas for drill in drills] == [1, None, None, None]


def test_a_window_closes_at_the_time_of_its_zone() -> None:
    office = TimeWindow(start="0 8 * * *", end="0 18 * * *", timeZone="Europe/Berlin")
    assert office.closes_at(datetime(2026, 1, 5, 7, 0, tzinfo=UTC)) == datetime(2026, 1, 5, 17, tzinfo=UTC)
    assert office.closes_at(datetime(2026, 1, 5, 6, 59, tzinfo=UTC)) is None
