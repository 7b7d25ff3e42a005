"""Reads named series of Prometheus' text format, as prometheus_client and llama.cpp write it.

A page of vLLM has 50 kB, and few of its lines are wanted. To parse all of them takes fifty times as long.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import inf

from inference_operator.views.samples import Histogram

_LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\]|\\.)*"'
_REST = re.compile(rf"(?:\{{({_LABEL}(?:,{_LABEL})*)?,?\}})? +(\S+)(?: +-?[0-9]+)?")
"""The rest of a line after the name: labels, if the series has some, value, and perhaps a time."""
MOST = 1e15
"""No sum of an engine is larger: 30 years of a million tokens a second."""


def are_counts(values: Iterable[float]) -> bool:
    """Whether an engine can have counted these; not NaN."""
    return all(0 <= value <= MOST for value in values)


_PAIR = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(r'\\([\\n"])')


@dataclass(frozen=True, slots=True)
class Series:
    name: str
    labels: Mapping[str, str]
    value: float
    """Also NaN or an infinity, which the format allows."""


def series(text: str, names: Iterable[str]) -> Iterator[Series]:
    r"""The series of these names, ordered by name as given.

    Raises:
        ValueError: a line of such a name is not in the format.
    """
    for name in names:
        for line in lines(text, name):
            match = _REST.fullmatch(line, len(name))
            if match is None or "_" in match[2]:  # Python reads 1_0 as a number, Prometheus does not
                raise ValueError(f"not a series of Prometheus: {line[:200]}")
            labels = {label: _unescaped(value) for label, value in _PAIR.findall(match[1] or "")}
            yield Series(name, labels, float(match[2]))


def histogram(text: str, name: str) -> Histogram | None:
    r"""The buckets of a histogram, summed over its series, such as those of several processes; None without it.

    It is None too where a number is none that an engine can have counted.

    Raises:
        ValueError: a line of it is not in the format.

    Examples:
        >>> page = 'a_bucket{le="1"} 2\na_bucket{le="+Inf"} 3\na_sum 4.5\n'
        >>> histogram(page + page, "a")
        Histogram(bounds=(1.0, inf), counts=(4.0, 6.0), total=9.0)
    """
    counts: dict[float, float] = defaultdict(float)
    for sample in series(text, [f"{name}_bucket"]):
        counts[float(sample.labels.get("le", ""))] += sample.value
    total = sum(sample.value for sample in series(text, [f"{name}_sum"]))
    bounds = sorted(counts)
    if not counts or not are_counts([total, *counts.values(), *(bound for bound in bounds if bound < inf)]):
        return None
    return Histogram(tuple(bounds), tuple(counts[bound] for bound in bounds), total)


def lines(text: str, name: str) -> Iterator[str]:
    """The lines of this name, with or without labels, without the ends of lines."""
    after = len(name)
    at = 0 if text.startswith(name) else _next(text, name, 0)
    while at >= 0:
        end = text.find("\n", at)
        if text[at + after : at + after + 1] in ("{", " "):  # a longer name may begin with this one
            yield text[at : end if end >= 0 else None]
        at = _next(text, name, end) if end >= 0 else -1


def _next(text: str, name: str, start: int) -> int:
    """Where the next line that begins with this name is; negative if there is none."""
    position = text.find(f"\n{name}", start)
    return position + 1 if position >= 0 else -1


def _unescaped(value: str) -> str:
    if "\\" not in value:
        return value
    return _ESCAPE.sub(lambda match: "\n" if match[1] == "n" else match[1], value)
