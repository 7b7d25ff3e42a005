"""What routers let into engines: the parts of a fleet's processes, and the numbers that the operator writes."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import lupa.lua54
import pytest

from inference_operator.manifest import CONFIG_MAP
from inference_operator.router.children import children
from inference_operator.router.entry import ROOM_FILE, room_text
from inference_operator.router.inputs import RouterInputs
from tests.router.test_haproxy import REQUEST
from tests.testing.lua_scripts import source

LUA = lupa.lua54.LuaRuntime(unpack_returned_tuples=True)
SCRIPT, PEERS = (LUA.execute(source(name).decode()) for name in ("entry.lua", "peers.lua"))
ROOM, MOST = 300, 1024
"""Requests that the only engine has room for, and that each process may let in at most."""
SECONDS, SETTLED, TICKS = 40, 10, 20
"""Of a run; until the engine is full; and steps of a second."""
ENDS = 0.01
"""Part of the running requests that end in a tick."""


def share(place: int, requests: Sequence[float], room: int) -> int:
    """What a process lets into the only engine."""
    named = LUA.table_from({f"p{n:02}": number for n, number in enumerate(requests)})
    return int(SCRIPT.share(*SCRIPT.part(f"p{place:02}", named, room), room, MOST))


@dataclass
class Question:
    """What a process has asked another one: when, what that tells, when it comes, and when the next one follows."""

    asked: int
    tells: float = 0.0
    comes: int = -1
    next: int = 0
    known: Any = None
    """The last answer that has come, as the script has it."""


@dataclass
class Fleet:
    """Processes with requests, each of which asks the others and learns once a second, at its own time."""

    size: int
    seed: int = 1
    late: int = 0
    """Most ticks until an answer comes. Of the two processes of a pod, the second is asked after the first answered."""
    together: bool = False
    """Whether all ask, and all learn, at the same time."""
    admitted: int = 0

    def __post_init__(self) -> None:
        self.random = Random(self.seed)  # noqa: S311 - a simulation
        self.running, self.queued, self.recent = [0] * self.size, [0] * self.size, [0.0] * self.size
        self.most, self.tick = [ROOM // self.size] * self.size, 0
        self.learns = [self._phase() for _ in range(self.size)]
        self.past, self.rounds = ([LUA.table() for _ in range(self.size)] for _ in range(2))
        self.questions = {pair: Question(self._phase()) for pair in itertools.permutations(range(self.size), 2)}

    def _phase(self) -> int:
        return TICKS - 1 if self.together else self.random.randrange(TICKS)

    def _ask(self, other: int, question: Question) -> None:
        if self.tick == question.asked:
            question.tells = max(self.recent[other], self.running[other] + self.queued[other])
            question.comes = self.tick + self.random.randint(0, self.late)
            question.next = question.comes + self.random.randint(0, self.late) + TICKS
        if self.tick == question.comes:
            values = {"*entry*": {"demand": question.tells}}
            answer = {"id": f"p{other:02}", "at": question.asked / TICKS, "values": values}
            question.known = LUA.table_from(answer, recursive=True)
            question.asked = question.next

    def _learn(self, place: int) -> None:
        self.recent[place] = max(self.running[place] + self.queued[place], self.recent[place] * SCRIPT.KEEP)
        PEERS.remember(self.rounds[place], self.tick / TICKS)
        PEERS.remember(self.past[place], self.recent[place])
        questions = [question for (asks, _), question in self.questions.items() if asks == place]
        known = [question.known for question in questions if question.known is not None]
        answers, lag = PEERS.counted(LUA.table_from(known), self.rounds[place])
        requests = {answer.id: answer["values"]["*entry*"].demand for answer in answers.values()}
        requests[f"p{place:02}"] = self.past[place][lag + 1] or 0
        share = SCRIPT.share(*SCRIPT.part(f"p{place:02}", LUA.table_from(requests), ROOM), ROOM, MOST)
        self.most[place] = int(share)

    def second(self, arrivals: Sequence[int]) -> int:
        """Requests come, enter and end; returns the most that the engine had."""
        highest = 0
        self.queued = [old + new for old, new in zip(self.queued, arrivals, strict=True)]
        for _ in range(TICKS):
            for place in range(self.size):
                self.running[place] -= sum(self.random.random() < ENDS for _ in range(self.running[place]))
                enter = max(0, min(self.queued[place], self.most[place] - self.running[place]))
                self.running[place] += enter
                self.queued[place] -= enter
                self.admitted += enter
                if self.tick % TICKS == self.learns[place]:
                    self._learn(place)
            for (_, other), question in self.questions.items():
                self._ask(other, question)
            highest = max(highest, sum(self.running))
            self.tick += 1
        return highest


SPREADS = {
    "all at one of two": [1, 0],
    "all at one of 32": [1, *[0] * 31],
    "even": [1, 1, 1, 1],
    "nine to one": [9, 1, 0, 0],
}
"""Parts of the requests that each process gets."""


@pytest.mark.parametrize(("together", "full"), [(True, 0.98), (False, 0.92)])
@pytest.mark.parametrize("spread", SPREADS)
def test_the_engine_is_full_and_has_no_more_than_its_room_wherever_requests_come(
    spread: str, *, together: bool, full: float
) -> None:
    weights = SPREADS[spread]
    fleet = Fleet(len(weights), together=together)
    highest = [fleet.second([100 * weight // sum(weights) for weight in weights]) for _ in range(SETTLED)]
    settled = fleet.admitted
    for _ in range(SECONDS):
        highest.append(fleet.second([100 * weight // sum(weights) for weight in weights]))
        assert sum(fleet.running) >= full * ROOM
    assert max(highest) <= 1.05 * ROOM
    assert fleet.admitted - settled >= 0.95 * ENDS * TICKS * ROOM * SECONDS


@pytest.mark.parametrize("late", [0, TICKS])
@pytest.mark.parametrize("seed", range(20))
def test_bursts_at_two_processes_at_once_do_not_both_take_what_is_free(seed: int, late: int) -> None:
    fleet = Fleet(2, seed, late)
    assert max(fleet.second([500, 500] if second == 3 else [0, 0]) for second in range(20)) <= 1.05 * ROOM


@pytest.mark.parametrize(
    ("answers", "counts", "lag"),
    [
        ([("a", 99.5, False)], {"a": 99.5}, 1),
        ([("a", 95.5, False)], {"a": 95.5}, 5),
        ([("a", 94.5, False)], {"a": 94.5}, 0),
        ([("a", 89.5, False), ("b", 99.5, False)], {"b": 99.5}, 1),
        ([("a", 97.5, True), ("b", 99.5, False)], {"a": 97.5, "b": 99.5}, 1),
        ([("a", 92.0, False), ("a", 99.5, False)], {"a": 99.5}, 1),
        ([("a", 99.5, False), ("a", 96.5, False)], {"a": 99.5}, 1),
    ],
    ids=["fresh", "late", "too late for a lag", "forgotten", "refused", "first slot older", "second slot older"],
)
def test_the_last_answer_of_each_process_counts_and_none_that_has_probably_ended_makes_a_lag(
    answers: list[tuple[str, float, bool]], counts: dict[str, float], lag: int
) -> None:
    known = [{"id": name, "at": asked, "refused": refused} for name, asked, refused in answers]
    others, found = PEERS.counted(
        LUA.table_from(known, recursive=True), LUA.table_from([100.0, 99.0, 98.0, 97.0, 96.0, 95.0])
    )
    assert ({answer.id: answer.at for answer in others.values()}, found) == (counts, lag)


def test_a_process_that_was_idle_lets_its_part_of_what_is_free_in_at_once_and_soon_as_much_as_others() -> None:
    fleet = Fleet(2, together=True)
    for _ in range(5):
        fleet.second([20, 0])
    assert fleet.most[1] >= (ROOM - sum(fleet.recent)) / 2
    for _ in range(9):
        fleet.second([90, 90])
    assert abs(fleet.running[0] - fleet.running[1]) < 0.2 * ROOM


@pytest.mark.parametrize("room", [7, 10, 300])
@pytest.mark.parametrize("requests", [[0, 0], [5, 2], [1, 0, 0, 0], [400, 400, 3, 0], [1000, 0, 0, 0], [9] * 7])
def test_parts_of_the_room_add_up_to_it_and_each_process_has_one(requests: list[float], room: int) -> None:
    shares = [share(place, requests, room) for place in range(len(requests))]
    assert min(shares) >= 1
    assert room <= sum(shares) <= room + shares.count(1)


@pytest.mark.parametrize(
    ("text", "rooms"),
    [
        ("e 302\n", {"e": 302}),
        ("e 0\nengine_ 7\n", {"e": 1, "engine_": 7}),
        ("", {}),
        ("e\ne 1 2\ne -1\ne 1.5\n e 3\ne 9999999999\n", {}),
        ("e 999999999\n", {"e": 1e6}),
    ],
)
def test_only_whole_lines_of_the_file_count(text: str, rooms: dict[str, int]) -> None:
    assert dict(SCRIPT.parsed(text)) == rooms


@pytest.mark.parametrize(
    ("users", "rate", "milliseconds"),
    [(1, 1.0, 1000), (11, 4.0, 2750), (1, 0.0, 60_000), (1, 1000.0, 10), (3, 0.01, 60_000)],
)
def test_a_turn_gives_each_user_one_place_and_has_bounds(users: int, rate: float, milliseconds: int) -> None:
    assert SCRIPT.turn(users, rate) == milliseconds


def _with_room(room: float | None, live: str = "") -> RouterInputs:
    return replace(REQUEST, upstreams=tuple(replace(one, room=room) for one in REQUEST.upstreams), live_room=live)


@pytest.mark.parametrize(
    ("room", "live", "text"),
    [
        (None, "", ""),
        (300, "", "e 300\n"),
        (None, "e 300\n", "e 300\n"),
        (0, "e 300\n", ""),
        (1.9, "e 2\n", "e 2\n"),
        (1.6, "e 2\n", "e 1\n"),
        (1.9, "e 1\n", "e 1\n"),
        (4.1, "e 5\n", "e 5\n"),
        (374, "e 300\n", "e 300\n"),
        (375, "e 300\n", "e 375\n"),
        (241, "e 300\n", "e 300\n"),
        (240, "e 300\n", "e 240\n"),
        (240, "somebody's", "e 240\n"),
        (None, "other_ 300\n", ""),
    ],
)
def test_a_number_stays_while_the_new_one_differs_by_less_than_a_quarter_or_is_unknown(
    room: float | None, live: str, text: str
) -> None:
    assert room_text(_with_room(room), live) == text


def test_a_new_number_changes_the_config_map_alone() -> None:
    before, after = (children(_with_room(room)) for room in (None, 300))
    assert before.latest_template == after.latest_template
    changed = {ref for ref in after.objects if after.objects[ref] != before.objects[ref]}
    (config,) = (ref for ref in changed if ref.kind == CONFIG_MAP)
    assert changed == {config}
    assert after.objects[config]["data"] == {**before.objects[config]["data"], ROOM_FILE: "e 300\n"}
