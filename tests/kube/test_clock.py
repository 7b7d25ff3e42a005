"""The operator uses the API server's time, whatever time its own machine has."""

import logging
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from inference_operator.kube.clock import PATIENCE, WHOLE_SECOND, Clock

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


class Machine:
    """A machine whose time of day can be wrong."""

    def __init__(self, wrong: timedelta) -> None:
        self.seconds = 100.0
        self.wrong = wrong
        self.clock = Clock(lambda: self.seconds, lambda: self.right() + self.wrong)

    def right(self) -> datetime:
        return NOON + timedelta(seconds=self.seconds)

    def adjust(self, late: timedelta = timedelta(), *, took: float | None = None) -> None:
        """Read a response late; by default the request took as long."""
        seconds = late.total_seconds() if took is None else took
        self.clock.adjust(format_datetime(self.right() - late, usegmt=True), took=seconds)

    def off(self) -> timedelta:
        return self.clock.now() - self.right()


def test_the_clock_shows_the_machines_time_before_the_first_response() -> None:
    assert Machine(HOUR).off() == HOUR


@pytest.mark.parametrize("wrong", [HOUR, -HOUR])
def test_the_first_response_sets_the_clock(wrong: timedelta) -> None:
    machine = Machine(wrong)
    machine.adjust()
    assert timedelta() <= machine.off() <= WHOLE_SECOND


@pytest.mark.parametrize("seconds", [9, -9])
def test_a_small_error_of_the_machine_clock_is_corrected(seconds: int) -> None:
    machine = Machine(timedelta(seconds=seconds))
    machine.adjust()
    assert timedelta() <= machine.off() <= WHOLE_SECOND


@pytest.mark.parametrize("leap", [HOUR, -HOUR])
def test_setting_the_machine_clock_does_not_change_the_operators_clock(leap: timedelta) -> None:
    machine = Machine(timedelta())
    machine.adjust()
    machine.wrong = leap
    machine.seconds += 7
    assert machine.off() == timedelta()


def test_a_response_that_is_read_late_does_not_set_the_clock_back() -> None:
    machine = Machine(timedelta())
    machine.adjust()
    machine.seconds += 60
    machine.adjust(late=timedelta(seconds=25))
    assert machine.off() == timedelta()


def test_of_several_late_responses_the_least_delayed_sets_the_clock() -> None:
    machine = Machine(-HOUR)
    for late in (9, 3, 5):
        machine.seconds += 60
        machine.adjust(late=timedelta(seconds=late))
    assert machine.off() == -timedelta(seconds=3)


def test_the_clock_follows_an_api_server_whose_clock_is_set() -> None:
    machine = Machine(timedelta())
    machine.adjust()
    machine.seconds += PATIENCE.total_seconds()
    machine.adjust(late=HOUR, took=0.0)
    assert machine.off() == WHOLE_SECOND - HOUR


def test_a_better_response_corrects_the_clock_that_a_late_one_has_set() -> None:
    machine = Machine(HOUR)
    machine.adjust(late=timedelta(seconds=20))
    machine.adjust()
    assert timedelta() <= machine.off() <= WHOLE_SECOND


@pytest.mark.parametrize("difference", [timedelta(seconds=45), -timedelta(seconds=45), HOUR])
def test_api_servers_whose_clocks_differ_do_not_throw_the_time_to_and_fro(
    difference: timedelta, caplog: pytest.LogCaptureFixture
) -> None:
    machine = Machine(timedelta())
    with caplog.at_level(logging.WARNING):
        for number in range(400):
            machine.seconds += 1
            machine.adjust(late=-difference if number % 40 >= 20 else timedelta(), took=0.0)
            assert abs(machine.off()) <= WHOLE_SECOND
    (record,) = caplog.records
    assert "The clocks of the API servers differ by" in record.message


@pytest.mark.parametrize("date", ["", "yesterday", "Sun, 22 Nov 2026 12:00:00 -0000", "Sun, 99 Nov 2026 12:00:00 GMT"])
def test_an_invalid_date_does_not_change_the_clock(date: str) -> None:
    machine = Machine(timedelta())
    machine.clock.adjust(date, took=0.0)
    assert machine.off() == timedelta()


def test_a_wrong_machine_clock_is_logged_once_until_the_clock_is_right_again(caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine(-HOUR)
    with caplog.at_level(logging.WARNING):
        for wrong in (-HOUR, -HOUR, timedelta(), HOUR, HOUR):
            machine.wrong = wrong
            machine.seconds += 60
            machine.adjust()
    told = [record.message.partition(",")[0] for record in caplog.records]
    assert told == [
        "This machine's clock is 3600 s behind the API server's",
        "This machine's clock is 3600 s ahead of the API server's",
    ]
