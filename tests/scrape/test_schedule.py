"""Components that are due for a scrape, second by second on a simulated clock."""

from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from inference_operator.manifest import Key
from inference_operator.scrape.schedule import MAX_DOUBLINGS, Intervals, Pace, Schedule
from inference_operator.scrape.scraper import default_intervals
from inference_operator.settings import Settings

A, B = Key("default", "a"), Key("default", "b")
ROUTER, ENGINE = "router", "engines"
SAME = {ROUTER: Intervals(15.0, 120.0, 120.0), ENGINE: Intervals(15.0, 120.0, 120.0)}
FAST_ROUTERS = {ROUTER: Intervals(5.0, 5.0, 5.0), ENGINE: Intervals(15.0, 120.0, 120.0)}
DEFAULT = default_intervals(Settings())


@dataclass(slots=True)
class Clock:
    """A schedule that is asked every second; every scrape takes half a second."""

    schedule: Schedule
    now: int = 0
    pace: Pace = Pace.CALM
    failed: tuple[str, ...] = ()
    scrapes: list[tuple[str, ...]] = field(default_factory=list)

    def run(self, seconds: int, *, keys: tuple[Key, ...] = (A,)) -> Counter[str]:
        """Scrapes by component."""
        self.scrapes = []
        for _ in range(seconds):
            self.now += 1
            for key, components in self.schedule.due(keys, now=self.now).items():
                self.scrapes.append(components)
                for component in components:
                    self.schedule.done(
                        key, component, now=self.now + 0.5, pace=self.pace, failed=component in self.failed
                    )
        return Counter(component for components in self.scrapes for component in components)


def test_every_component_is_scraped_once_in_its_first_calm_interval() -> None:
    assert Clock(Schedule(SAME)).run(1 + 120) == {ROUTER: 1, ENGINE: 1}  # it is first asked at 1 s


def test_a_component_that_is_being_scraped_is_not_due() -> None:
    schedule = Schedule(SAME)
    schedule.due([A], now=0.0)
    assert schedule.due([A], now=121.0) == {A: (ROUTER, ENGINE)}
    assert schedule.due([A], now=10_000.0) == {}


@pytest.mark.parametrize(
    ("pace", "routers", "engines"),
    [(Pace.URGENT, 80, 80), (Pace.BUSY, 10, 80), (Pace.UNEVEN, 80, 80), (Pace.CALM, 10, 10)],
)
def test_by_default_calm_keys_and_routers_of_busy_ones_are_scraped_every_eighth_interval(
    pace: Pace, routers: int, engines: int
) -> None:
    clock = Clock(Schedule(DEFAULT), pace=pace)
    clock.run(120)
    assert clock.run(1200) == {ROUTER: routers, ENGINE: engines}


def test_each_component_has_its_own_interval() -> None:
    clock = Clock(Schedule(FAST_ROUTERS))
    clock.run(120)
    assert clock.run(1200) == {ROUTER: 240, ENGINE: 10}


def test_an_urgent_key_changes_only_the_components_whose_intervals_differ() -> None:
    clock = Clock(Schedule(FAST_ROUTERS), pace=Pace.URGENT)
    clock.run(120)
    assert clock.run(1200) == {ROUTER: 240, ENGINE: 80}


@pytest.mark.parametrize("intervals", [SAME, FAST_ROUTERS], ids=["same intervals", "fast routers"])
def test_routers_are_scraped_in_the_same_turn_as_engines_and_before_them(intervals: dict[str, Intervals]) -> None:
    clock = Clock(Schedule(intervals))
    clock.run(1200)
    assert {components for components in clock.scrapes if ENGINE in components} == {(ROUTER, ENGINE)}


def test_scrape_intervals_double_while_no_pod_responds_and_are_normal_after_a_response() -> None:
    clock = Clock(Schedule(SAME), pace=Pace.URGENT, failed=(ENGINE,))
    clock.run(120)
    longest = 15 * 2**MAX_DOUBLINGS
    clock.run(4 * longest)
    assert clock.run(10 * longest) == {ROUTER: 160, ENGINE: 10}, "the routers answer"
    clock.failed = ()
    clock.run(longest)
    assert clock.run(longest) == {ROUTER: 16, ENGINE: 16}


def test_the_interval_after_n_failures_is_at_most_two_to_the_power_of_n_urgent_intervals() -> None:
    clock = Clock(Schedule({ENGINE: Intervals(10.0, 10.0, 10.0)}), failed=(ENGINE,))
    times = [clock.now for _ in range(1000) if clock.run(1)]
    gaps = [after - before for before, after in pairwise(times)]
    assert all(gap <= 10 * 2**number for number, gap in enumerate(gaps[:MAX_DOUBLINGS], start=1))
    assert set(gaps[MAX_DOUBLINGS:]) == {10 * 2**MAX_DOUBLINGS}


def test_a_deleted_key_is_removed_from_the_schedule_even_during_its_scrape() -> None:
    schedule = Schedule(SAME)
    schedule.due([A, B], now=0.0)
    assert set(schedule.due([A, B], now=121.0)) == {A, B}
    assert schedule.due([B], now=122.0) == {}
    schedule.done(A, ENGINE, now=123.0, pace=Pace.URGENT, failed=True)
    assert schedule.due([B], now=10_000.0) == {}


def test_scrapes_of_many_keys_are_spread_over_the_interval_and_stay_spread() -> None:
    keys = tuple(Key("default", str(number)) for number in range(1200))
    clock = Clock(Schedule(SAME))
    clock.run(240, keys=keys)
    per_second = [clock.run(1, keys=keys)[ENGINE] for _ in range(120)]
    assert sum(per_second) == len(keys)
    assert max(per_second) < 40, "10 on average"


@pytest.mark.parametrize(("pods", "seconds"), [(2, 15), (2000, 80), (100_000, 120)])
def test_the_more_pods_are_busy_the_longer_their_interval_up_to_the_calm_one(pods: int, seconds: int) -> None:
    schedule = Schedule(DEFAULT)
    schedule.due([A], now=0.0)
    schedule.done(A, ENGINE, now=0.0, pace=Pace.BUSY, failed=False, pods=pods)
    schedule.due([A], now=0.0)
    assert schedule.interval(ENGINE, Pace.BUSY) == seconds
    assert [schedule.interval(component, Pace.UNEVEN) for component in DEFAULT] == [seconds, seconds]
    assert schedule.interval(ENGINE, Pace.URGENT) == 15
    schedule.done(A, ENGINE, now=0.0, pace=Pace.CALM, failed=False, pods=pods)
    schedule.due([A], now=0.0)
    assert schedule.interval(ENGINE, Pace.BUSY) == 15
