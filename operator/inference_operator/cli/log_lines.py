r"""Lines of several containers' logs: merged by time, and without what repeats.

1. A kubelet writes the time before each line. Lines of all containers are sorted by it.
2. A line that a progress bar has overwritten counts as its last state.
3. Requests of probes and of scrapers, and states of a progress bar, are left out and counted.
4. Control characters are left out or shown, since clients may choose what an engine logs.
5. A line that repeats at once in one container is printed once, and counted.
6. HAProxy writes a message to standard error, with level and process, and the same to its log. It is printed once.
"""

import re
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from inference_operator.cli.parser import harmless

NOISE = re.compile(
    r'"(?:GET|HEAD) /(?:health|ready|metrics|ping)[^"]*" (?:200|503)'  # uvicorn, HAProxy
    r"|\bGET /(?:health|metrics|slots)\b[^\n]* 200\b"  # llama-server
    r"|\d{1,3}%\|[^|]*\|\s*\d"  # tqdm
    r"|\d{1,3}% Completed \|"
)
"""Lines that say nothing about the service."""


_HAPROXY = re.compile(r"^\[(?:NOTICE|WARNING|ALERT)\]\s+\(\d+\) : ")
"""Before a message on standard error (HAProxy 3.2, `src/errors.c`)."""
_TWIN_LINES = 16
"""Lines of a container between a message and its twin: the two streams may overtake each other."""


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of a container's log."""

    at: str
    """Its time as the kubelet writes it (RFC 3339 with nanoseconds, in UTC), which sorts as text."""
    source: str
    """The pod, and the container where it has several."""
    text: str


def log_lines(log: str, source: str) -> Iterator[LogLine]:
    r"""The lines of a log with times.

    Examples:
        >>> log = "2026-11-26T10:00:00.5Z Loading\n2026-11-26T10:00:01.5Z   1%\r  99% done\n"
        >>> [(one.at[17:21], one.text) for one in log_lines(log, "a")]
        [('00.5', 'Loading'), ('01.5', '  99% done')]
    """
    for line in log.split("\n"):
        at, _, text = line.partition(" ")
        if at:
            yield LogLine(at, source, harmless(text.rstrip("\r").rpartition("\r")[2]))


def merged(lines: Iterable[LogLine]) -> list[LogLine]:
    """The lines in the order of their times; those of one container stay in their order."""
    return sorted(lines, key=lambda one: one.at)


def is_noise(line: LogLine) -> bool:
    """Whether a line says nothing about the service."""
    return NOISE.search(line.text) is not None


def tail(lines: Sequence[LogLine], count: int, *, verbose: bool) -> Sequence[LogLine]:
    """The end of a log that begins with the `count`-th last line which is no noise; fewer if there are not as many.

    Examples:
        >>> lines = [LogLine(str(at), "a", text) for at, text in enumerate(("x", "y", '"GET /health" 200', "z"))]
        >>> [one.text for one in tail(lines, 2, verbose=False)], tail(lines, 0, verbose=False)
        (['y', '"GET /health" 200', 'z'], [])
    """
    kept = [place for place, line in enumerate(lines) if verbose or not is_noise(line)]
    return lines[kept[-count] if len(kept) >= count else 0 :] if count else []


@dataclass(slots=True)
class Folding:
    """Prints lines without noise, over several readings."""

    verbose: bool = False
    """Whether nothing is left out."""
    left_out: int = 0
    _unmatched: dict[str, deque[tuple[bool, str]]] = field(
        default_factory=lambda: defaultdict(lambda: deque(maxlen=_TWIN_LINES))
    )
    """The last messages of each container whose twin has not come: whether they have HAProxy's prefix, and the text."""
    _last: tuple[str, str] = ("", "")
    _repeats: int = 0

    def shown(self, lines: Iterable[LogLine]) -> Iterator[str]:
        """The lines to print, each with its container.

        Examples:
            >>> lines = [LogLine(str(at), "a", text) for at, text in enumerate(("x", "x", "x", "y"))]
            >>> list(Folding().shown(lines))
            ['a  x', 'a  (the line before came 2 more times)', 'a  y']
        """
        for one in lines:
            if not self.verbose and is_noise(one):
                self.left_out += 1
                continue
            if not self.verbose and self._is_twin(one):
                continue
            same = (one.source, one.text)
            if same == self._last and not self.verbose:
                self._repeats += 1
                continue
            yield from self.rest()
            self._last = same
            yield f"{one.source}  {one.text}"

    def _is_twin(self, line: LogLine) -> bool:
        """Whether the same message has come from HAProxy's other stream."""
        text = _HAPROXY.sub("", line.text)
        has_prefix = text != line.text
        unmatched = self._unmatched[line.source]
        if (not has_prefix, text) in unmatched:
            unmatched.remove((not has_prefix, text))
            return True
        unmatched.append((has_prefix, text))
        return False

    def rest(self) -> Iterator[str]:
        """The count of the last line's repeats, if there were any."""
        if self._repeats:
            times = "time" if self._repeats == 1 else "times"
            yield f"{self._last[0]}  (the line before came {self._repeats:,} more {times})"
        self._repeats = 0
