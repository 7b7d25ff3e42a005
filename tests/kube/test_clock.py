"""The operator's clock is the API server's, whatever this machine takes for the time."""

import logging
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from inference_operator.kube.clock import WHOLE_SECOND, Clock

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


class Machine:
    """Counts seconds, and takes them for a time that can be wrong."""

    def __init__(self, wrong: timedelta) -> None:
        self.seconds = 100.0
        self.wrong = wrong
        self.clock = Clock(lambda: self.seconds, lambda: self.right() + self.wrong)

    def right(self) -> datetime:
        return NOON + timedelta(seconds=self.seconds)

    def hear(self, late: timedelta = timedelta(), *, took: float | None = None) -> None:
        """An answer that is read late, of a request that took as long unless something else is said."""
        seconds = late.total_seconds() if took is None else took
        self.clock.hear(format_datetime(self.right() - late, usegmt=True), took=seconds)

    def off(self) -> timedelta:
        return self.clock.now() - self.right()


def test_before_the_first_answer_it_is_this_machines_time() -> None:
    assert Machine(HOUR).off() == HOUR


@pytest.mark.parametrize("wrong", [HOUR, -HOUR])
def test_the_first_answer_sets_it(wrong: timedelta) -> None:
    machine = Machine(wrong)
    machine.hear()
    assert timedelta() <= machine.off() <= WHOLE_SECOND


@pytest.mark.parametrize("seconds", [9, -9])
def test_a_machine_that_is_a_little_wrong_is_corrected_too(seconds: int) -> None:
    machine = Machine(timedelta(seconds=seconds))
    machine.hear()
    assert timedelta() <= machine.off() <= WHOLE_SECOND


@pytest.mark.parametrize("leap", [HOUR, -HOUR])
def test_that_this_machines_clock_is_set_changes_nothing(leap: timedelta) -> None:
    machine = Machine(timedelta())
    machine.hear()
    machine.wrong = leap
    machine.seconds += 7
    assert machine.off() == timedelta()


def test_an_answer_that_is_read_late_does_not_set_it_back() -> None:
    machine = Machine(timedelta())
    machine.hear()
    machine.seconds += 60
    machine.hear(late=timedelta(seconds=25))
    assert machine.off() == timedelta()


def test_of_late_answers_the_least_late_counts() -> None:
    machine = Machine(-HOUR)
    for late in (9, 3, 5):
        machine.seconds += 60
        machine.hear(late=timedelta(seconds=late))
    assert machine.off() == -timedelta(seconds=3)


def test_an_api_server_whose_clock_is_set_is_followed() -> None:
    machine = Machine(timedelta())
    machine.hear()
    machine.hear(late=HOUR, took=0.0)
    assert machine.off() == WHOLE_SECOND - HOUR


@pytest.mark.parametrize("date", ["", "yesterday", "Sun, 22 Nov 2026 12:00:00 -0000", "Sun, 99 Nov 2026 12:00:00 GMT"])
def test_a_date_that_is_none_changes_nothing(date: str) -> None:
    machine = Machine(timedelta())
    machine.clock.hear(date, took=0.0)
    assert machine.off() == timedelta()


def test_that_the_clock_is_wrong_is_told_once_until_it_is_right(caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine(-HOUR)
    with caplog.at_level(logging.WARNING):
        for wrong in (-HOUR, -HOUR, timedelta(), HOUR, HOUR):
            machine.wrong = wrong
            machine.seconds += 60
            machine.hear()
    told = [record.message.partition(",")[0] for record in caplog.records]
    assert told == [
        "This machine's clock is 3600 s behind the API server's",
        "This machine's clock is 3600 s ahead of the API server's",
    ]
