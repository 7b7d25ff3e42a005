"""The phases of `bench/startup.py`, from a recorded log of a start."""

from pathlib import Path

import pytest

from bench.startup import FIRST, PROGRAM, UNMEASURED, figures, phase_seconds
from e2e.engine_starts import TimedStart

START = (Path(__file__).parent / "vllm_output" / "start.txt").read_text()


def start(*, is_cold: bool, line_seconds: float) -> TimedStart:
    """The recorded start, with the same time from each line of its log to the next one."""
    lines = [(line_seconds * number, text) for number, text in enumerate(START.splitlines(keepends=True), start=1)]
    ready = lines[-1][0] + line_seconds
    return TimedStart(is_cold, lines, ready, ready + line_seconds)


def test_a_recorded_start_has_each_of_its_phases_and_they_add_up_to_the_first_answer() -> None:
    one = start(is_cold=True, line_seconds=0.5)
    seconds = phase_seconds(one)
    assert list(seconds) == [PROGRAM, "set-up", "load", "warm-up", FIRST]
    assert sum(seconds.values()) == pytest.approx(one.answered)


def test_the_fastest_start_of_each_way_counts_and_what_was_not_measured_is_shown_so() -> None:
    starts = [
        start(is_cold=cold, line_seconds=at) for cold, at in ((True, 4.0), (False, 1.0), (True, 2.0), (False, 3.0))
    ]
    found = {one.name: one.value for one in figures(starts, [(8.0, 2.0), (4.0, 3.0)])}
    assert found["start to first answer, warm / cold"] == pytest.approx(0.5)
    assert found["load, warm / cold"] == pytest.approx(0.5)
    assert found["download, second / first"] == pytest.approx(0.5)
    assert found["cold starts: slowest / fastest"] == pytest.approx(2.0)
    assert {name for name, value in found.items() if value != value} == set(UNMEASURED)  # noqa: PLR0124 - not a number
