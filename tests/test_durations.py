import gzip
import os
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.runs import durations, durations_plugin, two_processes
from e2e.runs import end_to_end as e2e_run
from e2e.runs.durations import Duration, Run

SECOND = "a/test_b.py::test_c"


def calls(**seconds: float) -> dict[str, Duration]:
    """Tests of `a/test_b.py`, by the seconds of their calls."""
    return {f"a/test_b.py::test_{name}": Duration(call, 0.0, 0.0) for name, call in seconds.items()}


def run_of(name: str = "unit", **seconds: float) -> Run:
    return Run(name, sum(seconds.values()), calls(**seconds))


def quiet(seconds: float, count: int = durations.FEWEST_RATIOS) -> dict[str, Duration]:
    """Tests in a file each."""
    return {f"a/test_{number}.py::test_it": Duration(seconds, 0.0, 0.0) for number in range(count)}


def compared(now: dict[str, Duration], *before: dict[str, Duration]) -> list[str]:
    return list(durations.comparison(Run("unit", 1.0, now), [Run("unit", 1.0, tests) for tests in before]))


def test_a_kept_run_is_read_again_and_the_last_five_stay(tmp_path: Path) -> None:
    for number in range(7):
        durations.keep(run_of(c=float(number)), tmp_path)
    durations.keep(run_of("pure", c=9.0), tmp_path)
    assert [run.tests[SECOND].call for run in durations.kept("unit", tmp_path)] == [2.0, 3.0, 4.0, 5.0, 6.0]
    assert durations.kept("pure", tmp_path) == [run_of("pure", c=9.0)]
    assert durations.kept("e2e-stack", tmp_path) == []


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        gzip.compress(b"{"),
        gzip.compress(b'{"name": "unit"}'),
        gzip.compress(b'{"name": "unit", "seconds": 1, "tests": {"a": [1, 2]}}'),
        gzip.compress(b'{"name": "unit", "seconds": 1, "tests": {}}')[:-9],
        gzip.compress(b"\xff"),
        b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xff\xff",
    ],
    ids=["nothing", "no gzip", "no JSON", "no tests", "wrong tests", "cut", "no UTF-8", "wrong gzip"],
)
def test_a_file_that_is_not_whole_is_left_out(tmp_path: Path, content: bytes) -> None:
    path = durations.keep(run_of(c=1.0), tmp_path)
    (path.parent / "0.json.gz").write_bytes(content)
    (path.parent / "1.json.gz").mkdir()
    assert durations.kept("unit", tmp_path) == [run_of(c=1.0)]


def test_what_an_aborted_writer_left_is_removed(tmp_path: Path) -> None:
    part = durations.keep(run_of(c=1.0), tmp_path).with_suffix(".part")
    part.write_bytes(b"half")
    assert durations.kept("unit", tmp_path) == [run_of(c=1.0)]
    durations.keep(run_of(c=2.0), tmp_path)
    assert not part.exists()


def test_a_test_is_compared_with_its_best_run() -> None:
    earlier = [calls(c=5.0), calls(c=2.0), calls(c=9.0)]
    assert compared(calls(c=4.1), *earlier) == [
        "Slower than in the best of 3 earlier runs:",
        "  a/test_b.py, by test_c: 4.1 s, was 2.0 s",
    ]
    assert compared(calls(c=2.9), *earlier) == ["Nothing got slower than in the best of 3 earlier runs"]


@pytest.mark.parametrize(("before", "now"), [(0.1, 1.0), (0.01, 0.9), (10.0, 14.9), (4.0, 4.0), (9.0, 1.0)])
def test_less_than_a_second_or_half_is_noise(before: float, now: float) -> None:
    assert compared(calls(c=now), calls(c=before)) == ["Nothing got slower than in the earlier run"]


def test_a_test_stands_alone_where_its_file_is_not_slower() -> None:
    assert compared(calls(c=3.0, rest=30.0), calls(c=1.0, rest=30.0)) == [
        "Slower than in the earlier run:",
        "  a/test_b.py::test_c: 3.0 s, was 1.0 s",
    ]


def test_many_tests_that_are_each_a_little_slower_are_a_slower_file() -> None:
    before = {f"a/test_b.py::test_{number}": Duration(0.1, 0.0, 0.0) for number in range(10)}
    now = {test: Duration(0.3, 0.0, 0.0) for test in before}
    assert compared(now, before)[1:] == ["  a/test_b.py: 3.0 s, was 1.0 s"]


def test_new_and_removed_tests_are_not_slower() -> None:
    assert compared(calls(c=1.0, new=60.0), calls(c=1.0, removed=60.0)) == [
        "Nothing got slower than in the earlier run"
    ]
    assert compared(calls(new=60.0), calls(removed=60.0)) == ["No earlier run to compare with"]
    assert compared(calls(new=60.0)) == ["No earlier run to compare with"]


def test_a_slower_machine_is_taken_out_and_said() -> None:
    before = quiet(2.0) | calls(c=2.0)
    assert compared(quiet(4.0) | calls(c=4.0), before) == [
        "The median test took 2.00 times as long as before. Figures after `was` have this factor",
        "Nothing got slower than in the earlier run",
    ]
    assert compared(quiet(4.0) | calls(c=12.0), before)[1:] == [
        "Slower than in the earlier run:",
        "  a/test_b.py, by test_c: 12.0 s, was 4.0 s",
    ]


def test_on_a_faster_machine_a_test_that_waits_is_not_slower() -> None:
    assert compared(quiet(1.0) | calls(c=6.0), quiet(3.0) | calls(c=6.0)) == [
        "Nothing got slower than in the earlier run"
    ]


def test_few_tests_say_nothing_about_the_machine() -> None:
    few = durations.FEWEST_RATIOS - 1
    assert durations.machine_ratio(quiet(4.0, few), quiet(2.0, few)) == 1.0
    assert durations.machine_ratio(quiet(0.04), quiet(0.02)) == 1.0


def test_who_pays_for_a_shared_fixture_does_not_matter_and_its_seconds_do() -> None:
    first, second, longer = (
        {"a/test_b.py::test_c": Duration(1.0, one, 0.0), "a/test_d.py::test_e": Duration(1.0, other, 0.0)}
        for one, other in ((20.0, 0.0), (0.0, 20.0), (40.0, 0.0))
    )
    assert compared(second, first) == ["Nothing got slower than in the earlier run"]
    assert compared(longer, first)[1:] == ["  the fixtures of all tests: 40.0 s, was 20.0 s"]


def test_at_most_ten_lines_are_printed_the_worst_first() -> None:
    before = quiet(1.0, 15)
    now = {test: Duration(3.0 + number, 0.0, 0.0) for number, test in enumerate(before)}
    lines = compared(now, before)
    assert len(lines) == 1 + durations.MOST_LINES
    assert lines[1] == "  a/test_14.py, by test_it: 17.0 s, was 1.0 s"
    assert lines[-1] == "  and 6 more"
    assert len(compared(dict(list(now.items())[:10]), before)) == 1 + durations.MOST_LINES


def test_a_long_name_fits_on_a_line() -> None:
    line = str(durations.Slower("a" * 5000, 3.0, 1.0))
    assert len(line) < 130


@pytest.mark.parametrize("name", durations.AIMS)
def test_the_seconds_of_a_run_stand_beside_the_aim_of_its_command(name: str) -> None:
    command, aim = durations.AIMS[name]
    line = durations.summary(Run(name, 200.4, {SECOND: Duration(10.0, 2.0, 3.0)}))
    assert line.startswith(
        f"{name}: 200 s; aim of `{command}`: {aim} s. 1 tests passed: 10 s in calls, 2 s in fixtures"
    )
    makefile = (durations.FOLDER.parent / "Makefile").read_text()
    assert f"--record={name} " in makefile or name in e2e_run.NAMES


def test_a_run_without_tests_has_a_summary() -> None:
    assert durations.summary(Run("trial", 1.0, {})).startswith("trial: 1 s. 0 tests passed: 0 s in calls")


def test_the_command_names_the_slowest_before_and_after(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = durations.keep(run_of(c=2.0, d=1.0), tmp_path / ".reports")
    durations.keep(run_of(c=6.0, d=1.0, new=4.0), tmp_path / ".reports")
    assert durations.main([str(before), "unit"], tmp_path / ".reports") == 0
    lines = capsys.readouterr().out.splitlines()
    assert "     3.0 s    11.0 s     0.0 s  a/test_b.py" in lines
    assert "     2.0 s     6.0 s     0.0 s  a/test_b.py::test_c" in lines
    assert "       -       4.0 s     0.0 s  a/test_b.py::test_new" in lines
    assert "  a/test_b.py, by test_c: 7.0 s, was 3.0 s" in lines
    assert durations.main(["unit"], tmp_path / ".reports") == 0
    assert "    11.0 s     0.0 s  a/test_b.py" in capsys.readouterr().out.splitlines()
    assert durations.main([], tmp_path / ".reports") == 0
    assert [line.partition(":")[0] for line in capsys.readouterr().out.splitlines()] == [
        str(path.relative_to(tmp_path)) for path in sorted(tmp_path.glob(".reports/unit/*"))
    ]


def test_a_name_without_runs_is_an_error_that_lists_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    durations.keep(run_of(c=2.0), tmp_path)
    with pytest.raises(SystemExit, match="2"):
        durations.main(["pure"], tmp_path)
    assert "pure: neither a run's file nor a name of: unit" in capsys.readouterr().err


TESTS = """
import time, pytest
@pytest.fixture
def shared():
    time.sleep(0.2)
def test_waits(shared):
    time.sleep(0.3)
def test_computes():
    ends = time.process_time() + 0.3
    while time.process_time() < ends:
        pass
def test_fails():
    assert "fails" in __file__
@pytest.mark.skip
def test_skipped():
    pass
"""


def pytest_of(folder: Path, *arguments: str, file: str = "test_file.py") -> subprocess.CompletedProcess[str]:
    (folder / file).write_text(TESTS)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    words = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "e2e.runs.durations_plugin",
        f"--rootdir={folder}",
        *arguments,
        file,
    ]
    environment["PYTHONPATH"] = str(two_processes.ROOT)
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_a_run_records_passed_tests_with_what_they_wait_and_compute(tmp_path: Path) -> None:
    done = pytest_of(tmp_path, "--record=unit", "-n2")
    assert done.returncode == 1
    assert f"{durations_plugin.TITLE} unit" in done.stdout
    (run,) = durations.kept("unit", tmp_path / ".reports")
    assert set(run.tests) == {"test_file.py::test_waits", "test_file.py::test_computes"}
    waits, computes = run.tests["test_file.py::test_waits"], run.tests["test_file.py::test_computes"]
    assert waits.call >= 0.3
    assert waits.fixtures >= 0.2
    assert computes.cpu >= 0.3 > waits.cpu


def test_a_run_that_is_stopped_is_not_kept(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("def pytest_runtest_teardown():\n    raise KeyboardInterrupt\n")
    assert pytest_of(tmp_path, "--record=unit").returncode == pytest.ExitCode.INTERRUPTED
    assert not (tmp_path / ".reports").exists()


def test_a_folder_that_cannot_be_written_fails_no_run(tmp_path: Path) -> None:
    (tmp_path / ".reports").write_text("a file")
    done = pytest_of(tmp_path, "--record=unit", file="test_fails.py")
    assert done.returncode == 0
    assert "This run is not kept: " in done.stdout


def test_of_tests_that_passed_beside_others_the_durations_are_shown() -> None:
    output = f"....\nslowest\n=== {durations_plugin.TITLE} pure ===\npure: 1 s\nNothing\n4 passed\n"
    assert two_processes.ending(output) == f"=== {durations_plugin.TITLE} pure ===\npure: 1 s\nNothing\n4 passed"
    assert two_processes.ending("....\n4 passed\n") == "4 passed"
    assert two_processes.ending("") == ""
