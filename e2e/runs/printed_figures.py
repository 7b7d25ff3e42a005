"""Figures that a test prints, also where pytest captures output or a worker of pytest-xdist has no terminal."""

import os
from collections.abc import Callable

import pytest

Say = Callable[[str], None]
_PROPERTY = "said"


@pytest.fixture
def say(record_property: Callable[[str, object], None]) -> Say:
    """A function that records a line; pytest prints the lines after the test."""
    return lambda line: record_property(_PROPERTY, line)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Print the lines of a test in the process that reports."""
    if report.when != "call" or "PYTEST_XDIST_WORKER" in os.environ:
        return
    lines = [str(value) for name, value in report.user_properties if name == _PROPERTY]
    if lines:
        print(f"\n{report.nodeid.rpartition('::')[2]}", *lines, sep="\n  ", flush=True)
