"""A router under mixed load for a long time: nothing is lost, and nothing grows."""

from statistics import median

import pytest

from e2e.router.loopback import Loopback
from e2e.router.soak import CHURN_SECONDS, ENGINES, Report, Soak
from e2e.runs.printed_figures import Say

SECONDS = 20 * 60
CHANGES = 30
SPARE_KIB = 4096
"""Growth of a router's memory between two thirds of the run that is no leak: buffers of requests at that moment."""


def _flat(report: Report) -> None:
    third = len(report.samples) // 3
    middle, last = (report.samples[third * number : third * (number + 1)] for number in (1, 2))
    assert median(s.rss_kib for s in last) <= median(s.rss_kib for s in middle) + SPARE_KIB
    assert report.idle_before is not None
    assert report.idle_after is not None
    assert report.idle_after.descriptors <= report.idle_before.descriptors + ENGINES, "a check of each may be under way"
    assert report.idle_after.processes == report.idle_before.processes


@pytest.mark.full
async def test_mixed_load_with_churn_and_changes_of_the_configuration_loses_nothing_and_grows_nothing(
    loopback: Loopback, say: Say
) -> None:
    loopback.engine_max_concurrency = 64
    report = await Soak(loopback, SECONDS, CHANGES).run()
    say(f"{dict(report.outcomes)}, {report.changes} changes, {report.churns} times other engines")
    say(f"idle before and after: {report.idle_before}, {report.idle_after}")
    say(f"every tenth sample: {report.samples[::10]}")
    assert report.lost == {}
    assert report.outcomes["left"] > 0
    assert report.changes == CHANGES
    assert report.churns >= SECONDS / CHURN_SECONDS / 2
    assert report.still_there == 0
    assert report.running_after == 0
    _flat(report)
