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
HEAD = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n"
IDLE_DEMAND = 0.01
"""`IDLE` of the script: a user with less is forgotten."""
LAG = 1
"""Rounds by which answers are behind where none is late."""
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
    strangers: tuple[str, ...] = ()
    """Answers of other pods that claim to be routers."""
    now: float = 0.0
    lua: Any = field(default_factory=lambda: lupa.lua54.LuaRuntime(unpack_returned_tuples=True))

    def __post_init__(self) -> None:
        self.random = Random(1)  # noqa: S311 - a simulation
        self.script, self.peers = (
            self.lua.execute(files("inference_operator.router").joinpath(name).read_text("utf-8"))
            for name in ("limits.lua", "peers.lua")
        )
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
            lines = limiter.report(limiter, lambda _, running=running: running)
            told.append(self.peers.parsed(HEAD + self.peers.report("p", self.lua.table_from([lines])))[1])
        for place, limiter in enumerate(self.limiters):
            others = [] if self.apart else [users for other, users in enumerate(told) if other != place]
            others += [self.peers.parsed(text)[1] for text in self.strangers]
            running = self.running[place]
            limiter.learn(limiter, self.lua.table_from(others), lambda _, running=running: running, self.now, LAG)

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
    "nine to one": lambda n: [9 * (n - 1) or 1, *[1] * (n - 1)],
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


@pytest.mark.parametrize("ends", [0.02, 0.05, 0.1])
@pytest.mark.parametrize("spread", SPREADS)
def test_small_shares_of_many_processes_keep_the_limit_with_short_answers_too(spread: str, ends: float) -> None:
    settled = Fleet(32, concurrent=40).levels(60, SPREADS[spread](32), ends=ends)[10:]
    assert 0.7 * 40 <= min(settled) <= max(settled) <= 1.2 * 40
    assert 0.9 * 40 <= sum(settled) / len(settled) <= 1.1 * 40


def test_after_a_process_died_and_another_joined_the_limits_still_hold() -> None:
    fleet = Fleet(4, per_minute=RATE)
    fleet.rates(30, [1, 1, 1, 1])
    fleet.die()
    assert 0.8 * RATE <= fleet.rates(60, [1, 1, 1]) <= 1.2 * RATE
    fleet.join()
    assert 0.8 * RATE <= fleet.rates(60, [1, 1, 1, 1]) <= 1.2 * RATE


def test_processes_that_do_not_reach_each_other_have_the_whole_limit_each_until_they_do_again() -> None:
    fleet = Fleet(2, per_minute=RATE)
    fleet.rates(30, [1, 1])
    fleet.apart = True
    assert 2 * 0.8 * RATE <= fleet.rates(60, [1, 1]) <= 2 * 1.2 * RATE
    fleet.apart = False
    fleet.rates(5, [1, 1])
    assert 0.8 * RATE <= fleet.rates(60, [1, 1]) <= 1.2 * RATE


def test_requests_in_flight_return_to_the_limit_after_processes_did_not_reach_each_other() -> None:
    fleet = Fleet(2, concurrent=CONCURRENT, apart=True)
    assert max(fleet.levels(20, [1, 1])) <= 2 * CONCURRENT
    fleet.apart = False
    assert 0.8 * CONCURRENT <= fleet.levels(20, [1, 1])[-1] <= 1.2 * CONCURRENT


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
    assert len(limiter.report(limiter, lambda _: 0)) == 0


PIECES = (
    *(HEAD, "\r\n\r\n", "\n", " ", "\0", "\x7f", "process p", "process ", "end", "%s%d"),
    *("alice", "alice 1.5 3", "bob 0 0\n", "carol 0.001 99999999999999999999"),
    *("-1", "nan", "inf", "1e999", "0x10", "1.2.3", ".", "9" * 400, "a" * 5000, "\n" * 500, " " * 500),
)
"""Of which hostile and broken answers are made."""


def hostile(random: Random) -> str:
    """An answer of pieces in any order, a whole one with changed characters, or one that was cut."""
    users = "".join(f"u{random.randrange(9)} {random.random():.3f} {random.randrange(9)}\n" for _ in range(5))
    whole = f"{HEAD}process p\n{users}end"
    match random.randrange(3):
        case 0:
            return random.choice(("", HEAD, f"{HEAD}process p\n")) + "".join(
                random.choices(PIECES, k=random.randrange(12))
            )
        case 1:
            text = list(whole)
            for _ in range(random.randrange(1, 9)):
                text[random.randrange(len(text))] = chr(random.randrange(256))
            return "".join(text)
        case _:
            return whole[: random.randrange(len(whole))]


@pytest.mark.parametrize("cases", [10_000, pytest.param(100_000, marks=pytest.mark.full)])
def test_a_hostile_answer_is_dropped_or_has_sane_numbers_and_the_limit_holds(cases: int) -> None:
    fleet, random = Fleet(1, per_minute=60, concurrent=10), Random(2)  # noqa: S311 - a simulation
    limiter, parsed = fleet.limiters[0], fleet.peers.parsed
    taken = 0
    for case in range(cases):
        answer = parsed(hostile(random))
        users = answer[1] if answer else fleet.lua.table()
        taken += bool(answer)
        for numbers in users.values():
            assert 0 <= numbers.demand <= 1e9
            assert 0 <= numbers.in_flight <= 1e9
        limiter.learn(limiter, fleet.lua.table_from([users]), lambda _: 0, float(case), LAG)
        for entry in limiter.users.values():
            assert 0 <= entry.share <= 1
            assert entry.most <= 10
            assert entry.tokens <= 5
        reason = limiter.refusal(limiter, "alice", 0, case + 0.5)
        assert reason is None or (reason[0] in {"rate", "concurrency"} and 1 <= reason[1] <= 60)
    assert cases // 100 < taken < cases


@pytest.mark.parametrize("cut", range(1, 4))
def test_an_answer_without_its_end_is_dropped(cut: int) -> None:
    assert Fleet(1).peers.parsed(f"{HEAD}process p\nalice 1.5 30\nend"[:-cut]) is None


@pytest.mark.parametrize(
    "body",
    [
        "a" * (1 << 21),
        " " * (1 << 21),
        "a 1\n" * (1 << 19),
        "\r\n\r\nprocess " * (1 << 18),
        "a " * (1 << 20),
        "\n" * (1 << 21),
    ],
    ids=["one word", "spaces", "short lines", "many beginnings", "many words", "empty lines"],
)
def test_the_largest_answer_takes_a_number_of_steps_that_follows_its_length(body: str) -> None:
    script = Fleet(1).peers
    assert len(body) >= script.MAX_BYTES
    assert script.parsed(f"{HEAD}process p\n{body}\nend")[0] == "p"
    assert script.parsed(body) is None


def test_an_answer_with_too_many_users_fills_no_memory_and_real_users_are_still_limited() -> None:
    fleet = Fleet(1, per_minute=60)
    limiter, most = fleet.limiters[0], fleet.script.MAX_USERS
    fleet.strangers = (HEAD + "process p\n" + "".join(f"u{n} 1.0 1\n" for n in range(2 * most)) + "end",)
    fleet.exchange()
    assert len(list(limiter.users)) == len(limiter.names) == most
    assert 1 <= sum(fleet.ask(0) for _ in range(9)) <= 5


def test_users_that_come_while_others_are_forgotten_are_limited_too() -> None:
    """HAProxy interrupts the script at any place, and lets requests in."""
    fleet = Fleet(1, per_minute=60)
    limiter = fleet.limiters[0]
    for number in range(50):
        limiter.refusal(limiter, f"old{number}", 0, 0.0)

    def in_flight(user: str) -> int:
        is_forgotten = limiter.users[user].demand < IDLE_DEMAND
        for number in range(20 if is_forgotten else 0):
            limiter.refusal(limiter, f"came-after-{user}-{number}", 0, 60.0)
        return 0

    none = fleet.lua.table()
    for second in range(100):
        if len(limiter.names) > 50:
            break
        limiter.learn(limiter, none, in_flight, float(second), 0)
    assert sorted(limiter.users) == sorted(limiter.names.values())
    assert len(limiter.names) == 50 * 20
