"""The sentences of the members of a group, read: who ended a run, and who has not joined the next one."""

import re
from dataclasses import dataclass

from inference_operator.engines.group.options import HOW

_POD = "[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_ENDED = {
    how: re.compile(rf"Member ({_POD}) {re.escape(words.partition('{')[0].rstrip())}\b") for how, words in HOW.items()
}
"""The beginning of each sentence about an end."""
_WAITS = re.compile(rf"group: Rank 0 of \d+ waits for ({_POD}(?:, {_POD})*)$", re.MULTILINE)
_JOINED = re.compile(rf"group: ({_POD}) has joined$", re.MULTILINE)
_ALL_JOINED = re.compile(r"group: All \d+ members have joined\b")


@dataclass(frozen=True, slots=True)
class FirstEnd:
    pod: str
    how: str
    """One of the keys of `HOW` (`options.py`)."""


def first_end(message: str) -> FirstEnd | None:
    """The member that ended a group, from the termination message of another member; None if it names none."""
    matches = ((how, pattern.match(message)) for how, pattern in _ENDED.items())
    return next((FirstEnd(match[1], how) for how, match in matches if match), None)


def absent_members(log: str) -> frozenset[str]:
    """The pods that a leader still waits for, from its log; empty also if the log does not tell."""
    waits = _WAITS.search(log)
    if waits is None or _ALL_JOINED.search(log):
        return frozenset()
    return frozenset(waits[1].split(", ")) - frozenset(_JOINED.findall(log))
