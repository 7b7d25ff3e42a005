"""The figures of `bench/startup.py`, from a recorded log of a start."""

from math import isnan
from pathlib import Path

import pytest

from bench.startup import COLD, FIRST, PROGRAM, THREADED, UNMEASURED, WARM, figures, lost_shares, phase_seconds
from e2e.engines.start_times import TimedStart, Way

COSTS = Path(__file__).parents[2] / "bench" / "RESULTS.md"
START = (Path(__file__).parent / "vllm_output" / "start.txt").read_text()


def start(way: Way, *, line_seconds: float) -> TimedStart:
    """The recorded start, with the same time from each line of its log to the next one."""
    lines = [(line_seconds * number, text) for number, text in enumerate(START.splitlines(keepends=True), start=1)]
    ready = lines[-1][0] + line_seconds
    return TimedStart(way, lines, ready, ready + line_seconds)


def test_a_recorded_start_has_each_of_its_phases_and_they_add_up_to_the_first_answer() -> None:
    one = start(COLD, line_seconds=0.5)
    seconds = phase_seconds(one)
    assert list(seconds) == [PROGRAM, "set-up", "load", "warm-up", FIRST]
    assert sum(seconds.values()) == pytest.approx(one.answered)


def test_the_fastest_start_of_each_way_counts_and_what_was_not_measured_is_shown_with_its_reason() -> None:
    seconds = ((COLD, 4.0), (WARM, 1.0), (COLD, 2.0), (WARM, 3.0), (THREADED[COLD], 1.5), (THREADED[WARM], 1.0))
    found = list(figures([start(way, line_seconds=at) for way, at in seconds], [(8.0, 2.0), (4.0, 3.0)]))
    values = {one.name: one.value for one in found}
    assert values["start to first answer, warm / cold"] == pytest.approx(0.5)
    assert values["load, warm / cold"] == pytest.approx(0.5)
    assert values["download, second / first"] == pytest.approx(0.5)
    assert values["cold starts: slowest / fastest"] == pytest.approx(2.0)
    assert values["saved by: model on a claim"] == pytest.approx(2.0)
    assert values["saved by: files in the page cache"] == pytest.approx(values["start to first answer, warm"])
    assert values["saved by: several threads that load, cold"] == pytest.approx(values["start, cold: load"] / 4)
    assert values["saved by: several threads that load, warm"] == pytest.approx(0.0)
    missing = {one.name.removeprefix("saved by: "): one.why for one in found if isnan(one.value)}
    assert missing == UNMEASURED


def test_the_kv_cache_that_the_suggested_size_loses_comes_from_published_starts() -> None:
    shares = lost_shares()
    assert len(shares) > 50
    assert all(0 < share < 100 for share in shares)


def test_the_table_in_the_documentation_has_every_way_with_the_reason_of_those_that_were_not_measured() -> None:
    starts = [start(way, line_seconds=1.0) for way in (COLD, WARM, *THREADED.values())]
    ways = [one for one in figures(starts, [(2.0, 1.0)]) if one.name.startswith("saved by: ")]
    rows = [line.split(" | ") for line in COSTS.read_text().splitlines() if line.startswith("| saved by: ")]
    assert [row[0].removeprefix("| ") for row in rows] == [way.name for way in ways]
    for row, way in zip(rows, ways, strict=True):
        assert row[1].startswith("not measured") is isnan(way.value)
        assert way.why in row[1]
