"""The Lua script that limits users: a fleet of processes that exchange what they know, on a clock of its own."""

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.resources import files
from random import Random
from typing import Any

import lupa.lua54
import pytest

RATE, CONCURRENT = 1200, 400
"""Requests per minute, and requests in flight."""
TICKS = 20
"""Steps of a simulated second."""


@dataclass
class Fleet:
    """Processes of routers, with one user."""

    size: int
    per_minute: int = 0
    concurrent: int = 0
    apart: bool = False
    """Whether no process reaches another one."""
    now: float = 0.0
    lua: Any = field(default_factory=lambda: lupa.lua54.LuaRuntime(unpack_returned_tuples=True))

    def __post_init__(self) -> None:
        self.random = Random(1)  # noqa: S311 - a simulation
        self.script = self.lua.execute(files("inference_operator.router").joinpath("limits.lua").read_text("utf-8"))
        self.limiters: list[Any] = []
        self.running: list[int] = []
        for _ in range(self.size):
            self.join()

    def join(self) -> None:
        new = self.script.Limiter.new(self.per_minute, self.concurrent, self.random.random)
        self.limiters.append(new)
        self.running.append(0)

    def die(self) -> None:
        self.limiters.pop()
        self.running.pop()

    def ask(self, process: int) -> bool:
        limiter = self.limiters[process]
        admitted = limiter.refusal(limiter, "alice", self.running[process], self.now) is None
        self.running[process] += admitted
        return admitted

    def exchange(self) -> None:
        told = []
        for limiter, running in zip(self.limiters, self.running, strict=True):
            text = limiter.report(limiter, lambda _, running=running: running)
            told.append(self.script.parsed("\r\n\r\nprocess p\n" + text)[1])
        for place, limiter in enumerate(self.limiters):
            others = [] if self.apart else [users for other, users in enumerate(told) if other != place]
            running = self.running[place]
            limiter.learn(limiter, self.lua.table_from(others), lambda _, running=running: running, self.now)

    def rates(self, seconds: int, weights: list[int], per_tick: int = 8) -> int:
        """Admitted requests; those of each tick go to processes by weight, and end at once."""
        admitted = 0
        for tick in range(seconds * TICKS):
            for process in self.random.choices(range(len(weights)), weights, k=per_tick):
                admitted += self.ask(process)
                self.running[process] = 0
            self.now += 1 / TICKS
            if tick % TICKS == TICKS - 1:
                self.exchange()
        return admitted

    def levels(self, seconds: int, weights: list[int], *, ends: float = 0.02) -> list[int]:
        """Requests in flight at the end of each second; each one ends with this probability in a tick."""
        seen = []
        for tick in range(seconds * TICKS):
            for place, running in enumerate(self.running):
                self.running[place] -= sum(self.random.random() < ends for _ in range(running))
            for process in self.random.choices(range(len(weights)), weights, k=200):
                self.ask(process)
            self.now += 1 / TICKS
            if tick % TICKS == TICKS - 1:
                self.exchange()
                seen.append(sum(self.running))
        return seen


SPREADS: dict[str, Callable[[int], list[int]]] = {
    "even": lambda n: [1] * n,
    "one": lambda n: [1, *[0] * (n - 1)],
    "uneven": lambda n: [n * n, *range(1, n)],
}


@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("size", [1, 4, 32])
def test_the_rate_over_all_processes_is_within_a_fifth_of_the_limit(size: int, spread: str) -> None:
    fleet = Fleet(size, per_minute=RATE)
    assert 0.8 * RATE <= fleet.rates(60, SPREADS[spread](size)) <= 1.2 * RATE


@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("size", [1, 4, 32])
def test_requests_in_flight_over_all_processes_are_within_a_fifth_of_the_limit(size: int, spread: str) -> None:
    fleet = Fleet(size, concurrent=CONCURRENT)
    settled = fleet.levels(40, SPREADS[spread](size))[10:]
    assert 0.8 * CONCURRENT <= min(settled) <= max(settled) <= 1.2 * CONCURRENT


def test_after_a_process_died_and_another_joined_the_limits_still_hold() -> None:
    fleet = Fleet(4, per_minute=RATE)
    fleet.rates(30, [1, 1, 1, 1])
    fleet.die()
    assert 0.8 * RATE <= fleet.rates(60, [1, 1, 1]) <= 1.2 * RATE
    fleet.join()
    assert 0.8 * RATE <= fleet.rates(60, [1, 1, 1, 1]) <= 1.2 * RATE


def test_processes_that_do_not_reach_each_other_have_the_whole_limit_each() -> None:
    fleet = Fleet(2, per_minute=RATE, apart=True)
    assert 2 * 0.8 * RATE <= fleet.rates(60, [1, 1]) <= 2 * 1.2 * RATE


def test_the_first_request_of_an_idle_user_passes_at_any_process() -> None:
    for process in (0, 31):
        fleet = Fleet(32, per_minute=1, concurrent=1)
        fleet.exchange()
        assert fleet.ask(process)
        assert not fleet.ask(process)


def test_a_user_without_more_requests_is_forgotten() -> None:
    fleet = Fleet(2, per_minute=60)
    fleet.rates(1, [1, 0])
    fleet.rates(120, [1, 0], per_tick=0)
    limiter = fleet.limiters[0]
    assert limiter.report(limiter, lambda _: 0) == ""
