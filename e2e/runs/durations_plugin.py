"""The pytest plugin that keeps the durations of a run in `.reports/NAME`: `-p e2e.runs.durations_plugin --record=NAME`.

Only a run that comes to its end is kept, and a file that cannot be written is a line of the output: neither an aborted
run nor a full disk changes what a run says.
"""

import resource
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from e2e.runs import durations

TITLE = "durations, recorded as"
"""Of the part of the output that says what got slower."""
_CPU = "cpu_seconds"


def cpu_seconds() -> float:
    """CPU time of this process, and of its children that ended."""
    usages = (resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


class CpuMeter:
    """Adds to each report the CPU time since the one before; runs in the process that runs the tests."""

    def __init__(self) -> None:
        self._before = 0.0

    def pytest_runtest_logstart(self) -> None:
        """Begin a test."""
        self._before = cpu_seconds()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Setup, call or teardown has ended."""
        report = yield
        now = cpu_seconds()
        report.user_properties.append((_CPU, now - self._before))
        self._before = now
        return report


class Recorder:
    """Collects the durations; runs in the process that reports."""

    def __init__(self, name: str, folder: Path) -> None:
        self._name, self._folder = name, folder
        self._started = time.monotonic()
        self._seconds: dict[str, list[float]] = {}
        self._not_passed: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add a phase of a test."""
        if not report.passed:
            self._not_passed.add(report.nodeid)
        seconds = self._seconds.setdefault(report.nodeid, [0.0, 0.0, 0.0])
        seconds[0 if report.when == "call" else 1] += report.duration
        seconds[2] += sum(float(str(value)) for name, value in report.user_properties if name == _CPU)

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter, exitstatus: int) -> None:
        """Keep the run, and print what got slower."""
        if exitstatus not in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}:
            return
        tests = {
            test: durations.Duration(*(round(part, 3) for part in seconds))
            for test, seconds in self._seconds.items()
            if test not in self._not_passed
        }
        run = durations.Run(self._name, time.monotonic() - self._started, tests)
        terminalreporter.section(f"{TITLE} {self._name}")
        terminalreporter.write_line(durations.summary(run))
        for line in durations.comparison(run, durations.kept(self._name, self._folder)):
            terminalreporter.write_line(line)
        try:
            durations.keep(run, self._folder)
        except OSError as error:
            terminalreporter.write_line(f"This run is not kept: {error}")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption("--record", metavar="NAME", help="keep the durations of this run as NAME in .reports/")


def pytest_configure(config: pytest.Config) -> None:
    """Workers of pytest-xdist measure, and the process that started them records."""
    name = config.getoption("--record")
    if not name:
        return
    config.pluginmanager.register(CpuMeter(), "cpu-meter")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(name, config.rootpath / durations.FOLDER.name), "recorder")
