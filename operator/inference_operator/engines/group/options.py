"""Options of a member, and the causes of an end. A part of the program of each member; standard library only."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

Words = Mapping[str, Any]
"""A line between members: a JSON object."""

EXIT, LOST, SILENT, SLOW, STOPPED = "exit", "lost", "silent", "slow", "stopped"
HOW = {
    EXIT: "ended first: exit status {}",
    LOST: "ended first: its connection broke",
    SILENT: "has been silent for {} s",
    SLOW: "ended first: its engine was not healthy within {} s",
    STOPPED: "was stopped",
}
"""How a member was the first to end, with its exit status or the seconds."""
VERSION = 1
"""Of the lines between members."""
FAILED, MOST_STATUS = 1, 255
BEATS = 10
"""Heartbeats in the time after which a member is silent."""


class Waits(NamedTuple):
    """Seconds of a member's own waits. Whoever calls `main` may shorten them; no argument or variable does."""

    retry: float = 1.0
    """Between two attempts to reach the leader."""
    look: float = 1.0
    """Between two looks at the leader's engine."""
    repeat: float = 5.0
    """For how long a worker repeats a request for a drain."""
    lease: float = 60.0
    """How long a drain lasts after the last request for it."""
    margin: float = 2.0
    """Of an end in order, beyond what the engine may take."""
    linger: float = 1.0
    """Until the others have read a member's last line."""


WAITS = Waits()


class EndCause(NamedTuple):
    """Why a run is over: who was the first to end, how, and its exit status or the seconds."""

    rank: int
    how: str
    number: int = 0


class Options:
    def __init__(self, words: list[str], env: Mapping[str, str], waits: Waits = WAITS) -> None:
        self.waits = waits
        end = words.index("--")
        given: dict[str, list[str]] = {}
        for key, _, value in (word.partition("=") for word in words[:end]):
            given.setdefault(key, []).append(value)
        self.command = words[end + 1 :]
        self.size, self.control, self.health, self.port = _numbers(given, "size", "control", "health", "port")
        self.start, self.silence = _numbers(given, "start", "silence")
        self.staleness, self.drain, self.stop = _numbers(given, "staleness", "drain", "stop")
        self.path, self.metrics = given["path"][0], given["metric"]
        self.rank, self.address, self.service = int(env["GROUP_RANK"]), env["POD_IP"], env["GROUP_SERVICE"]
        self.set = env["POD_NAME"].rpartition("-")[0]
        self.hosts = given.get("host", ["{name}.{service}"])[0]
        self.message = Path(given.get("message", ["/dev/termination-log"])[0])
        self.variable = given.get("variable", [""])[0]
        self.added = given.get("worker-arg" if self.rank else "leader-arg", [])

    @property
    def beat(self) -> float:
        return self.silence / BEATS

    def name(self, rank: int) -> str:
        return f"{self.set}-{rank}"

    def host(self, rank: int) -> str:
        return self.hosts.replace("{name}", self.name(rank)).replace("{service}", self.service)

    def hello(self, rank: int) -> Words:
        """The first line of a worker. Nothing else that a stranger sends is ever used or shown."""
        return {"hello": VERSION, "rank": rank, "name": self.name(rank), "service": self.service}

    def started(self, leader: str) -> list[str]:
        values = {"{size}": str(self.size), "{rank}": str(self.rank), "{leader}": leader}
        added = self.added
        for place, value in values.items():
            added = [word.replace(place, value) for word in added]
        return [*self.command, *added]

    def said(self, cause: EndCause) -> str:
        return f"Member {self.name(cause.rank)} {HOW[cause.how].format(cause.number)}."

    def cause(self, words: Words) -> EndCause:
        """The cause that the leader tells; its own loss, if the line is none of a leader."""
        rank, how, number = words.get("end"), words.get("how"), words.get("number")
        known = rank in range(self.size) and how in HOW and isinstance(number, int)
        return EndCause(int(str(rank)), str(how), int(str(number))) if known else EndCause(0, LOST)


def exit_status(number: object) -> int:
    return number if isinstance(number, int) and 0 <= number <= MOST_STATUS else FAILED


def _numbers(given: Mapping[str, list[str]], *keys: str) -> list[int]:
    return [int(given[key][0]) for key in keys]
