"""What a test has measured, printed by the process that has the terminal: a worker of pytest-xdist has none."""

import os
from collections.abc import Callable

import pytest

Say = Callable[[str], None]
_PROPERTY = "said"


@pytest.fixture
def say(record_property: Callable[[str, object], None]) -> Say:
    """Prints a line once the test has ended, also where output is captured."""
    return lambda line: record_property(_PROPERTY, line)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Print what the test has said, in the process that reports."""
    if report.when != "call" or "PYTEST_XDIST_WORKER" in os.environ:
        return
    lines = [str(value) for name, value in report.user_properties if name == _PROPERTY]
    if lines:
        print(f"\n{report.nodeid.rpartition('::')[2]}", *lines, sep="\n  ", flush=True)
