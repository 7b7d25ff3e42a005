"""Scrape intervals: when the pods of each component of each InferenceDeployment are read next."""

import math
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from inference_operator.backoff import exponential_backoff
from inference_operator.manifest import Key

MAX_DOUBLINGS = 4
"""Most doublings of the urgent interval while no pod answers. Each attempt costs a worker its timeouts."""
DEMAND_SECONDS, NO_DEMAND_SECONDS = 5.0, 30.0
"""Intervals of resources whose number of engines follows the requests: with requests, and without."""
MAX_DEMAND_PER_SECOND = 250
"""Pods scraped per second at the pace of demand, over all keys: 200 resources with 3 engines and 2 routers are 200."""
MAX_BUSY_PER_SECOND = 25
"""Pods scraped per second at the paces busy and uneven, over all keys. More pods are scraped less often, so that the
cost has a bound (`bench/scrape.py`)."""


class Pace(Enum):
    URGENT = "an engine seems to stall, or is out of traffic"
    BUSY = "engines have requests, and another engine could take them over"
    UNEVEN = "some engines have requests and others none: if one of those hangs, only routers count what it gets"
    DEMAND = "the number of engines follows the requests, and there are some"
    NO_DEMAND = "the number of engines follows the requests, and there are none"
    CALM = "everything else"


@dataclass(frozen=True, slots=True)
class Intervals:
    """Seconds between two scrapes of one component, at each pace."""

    urgent: float
    busy: float
    calm: float


@dataclass(slots=True)
class _Entry:
    phase: float
    due: dict[str, float] = field(default_factory=dict)
    failures: dict[str, int] = field(default_factory=dict)
    busy: int = 0
    """Its pods that are scraped often, while its pace is busy or uneven."""
    demand: int = 0
    """Its pods, while its pace is that of demand."""


class Schedule:
    """Due times of (key, component).

    Each key has a random phase, and all its scrapes fall on the phase plus a multiple of their interval. So keys stay
    spread over the interval, and components with equal intervals are due at the same time.

    Args:
        intervals: by component, in the order in which the components of a key are scraped.
    """

    def __init__(self, intervals: Mapping[str, Intervals]) -> None:
        self._intervals = intervals
        self._entries: dict[Key, _Entry] = {}
        self._busy = 0
        self._demand = 0

    def due(self, keys: Iterable[Key], *, now: float) -> dict[Key, tuple[str, ...]]:
        """The components to scrape now, by key. Each is returned once, until `done` plans it again.

        The first scrape of a component comes within its calm interval. Keys that are missing here are forgotten.
        """
        self._entries = {key: self._entries.get(key) or self._new(now) for key in keys}
        self._busy = sum(entry.busy for entry in self._entries.values())
        self._demand = sum(entry.demand for entry in self._entries.values())
        ready: dict[Key, tuple[str, ...]] = {}
        for key, entry in self._entries.items():
            if components := tuple(component for component, at in entry.due.items() if at <= now):
                ready[key] = components
                entry.due.update((component, math.inf) for component in components)
        return ready

    def done(self, key: Key, component: str, *, now: float, pace: Pace, failed: bool, pods: int = 0) -> None:
        """Plan the next scrape.

        Args:
            failed: whether no pod answered; the urgent interval then doubles with each failure.
            pods: number of its pods that this pace scrapes often; used at the paces busy and uneven.
        """
        if (entry := self._entries.get(key)) is None:
            return
        failures = entry.failures[component] = entry.failures.get(component, 0) + 1 if failed else 0
        entry.busy = pods if pace in {Pace.BUSY, Pace.UNEVEN} else 0
        entry.demand = pods if pace is Pace.DEMAND else 0
        interval = self.interval(component, pace)
        if failures:
            urgent = self._intervals[component].urgent
            interval = exponential_backoff(failures, first=2 * urgent, longest=2**MAX_DOUBLINGS * urgent)
        entry.due[component] = _next(entry.phase, interval, now)

    def hasten(self, key: Key, *, now: float, within: float = 0.0) -> None:
        """Make all components of a key due within these seconds; those that are being scraped stay as they are."""
        if (entry := self._entries.get(key)) is None:
            return
        at = now + random.uniform(0.0, within)  # noqa: S311 - spreads load, guards nothing
        entry.due.update({name: min(due, at) for name, due in entry.due.items() if due != math.inf})

    def interval(self, component: str, pace: Pace) -> float:
        if pace is Pace.DEMAND:
            return max(DEMAND_SECONDS, self._demand / MAX_DEMAND_PER_SECOND)
        if pace is Pace.NO_DEMAND:
            return NO_DEMAND_SECONDS
        intervals = self._intervals[component]
        if pace in {Pace.BUSY, Pace.UNEVEN}:
            wanted = intervals.busy if pace is Pace.BUSY else intervals.urgent
            return min(max(wanted, self._busy / MAX_BUSY_PER_SECOND), intervals.calm)
        return intervals.urgent if pace is Pace.URGENT else intervals.calm

    def _new(self, now: float) -> _Entry:
        longest = max(interval.calm for interval in self._intervals.values())
        phase = now + random.uniform(0.0, longest)  # noqa: S311 - spreads load, guards nothing
        return _Entry(phase, {name: _next(phase, interval.calm, now) for name, interval in self._intervals.items()})


def _next(phase: float, interval: float, now: float) -> float:
    """The first time after now that is a multiple of the interval away from the phase."""
    at = phase + math.floor((now - phase) / interval + 1) * interval
    return at if at > now else at + interval
