"""When each InferenceDeployment is looked at next."""

import random
from collections.abc import Iterable

from inference_operator.manifest import Key

CALM_ROUNDS = 8
"""What gets on, or has nothing to do, is looked at every eighth time, since that is nearly everything. A standstill is
noticed later by as much."""

MOST_ROUNDS = 16
"""Longest pause, in rounds, where nothing answers: it would cost everybody else's looks."""

JITTER = 0.1
"""A tenth, so that what began together does not stay together."""


class Agenda:
    """Keys and when they are due, spread over the time between two looks.

    Args:
        seconds: time between two looks at what seems to stand still.

    Examples:
        >>> agenda, key = Agenda(10.0), Key("default", "qwen")
        >>> agenda.due([key], now=0.0), agenda.due([key], now=80.0), agenda.due([key], now=80.0)
        ([], [Key(namespace='default', name='qwen')], [])
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._due: dict[Key, float] = {}
        self._failures: dict[Key, int] = {}

    def due(self, keys: Iterable[Key], *, now: float) -> list[Key]:
        """The keys whose time has come, each until `done` is told of it; the first time is by chance."""
        self._due = {key: self._due[key] if key in self._due else now + self._first() for key in keys}
        ready = [key for key, at in self._due.items() if at <= now]
        self._due.update((key, float("inf")) for key in ready)
        return ready

    def done(self, key: Key, *, now: float, urgent: bool, failed: bool) -> None:
        """Plan the next look."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1 if failed else 0
        rounds = min(2**failures, MOST_ROUNDS) if failures else 1 if urgent else CALM_ROUNDS
        if key in self._due:
            spread = random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311 - spreads load, guards nothing
            self._due[key] = now + rounds * self._seconds * spread
        if not failures or key not in self._due:
            self._failures.pop(key, None)

    def _first(self) -> float:
        return random.uniform(0.0, CALM_ROUNDS * self._seconds)  # noqa: S311 - as above
