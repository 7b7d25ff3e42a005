"""Evaluates the part of PromQL that the query for the number of engines uses, for `bench/autoscaling.py`.

Selectors with `=` and `=~`, numbers, parentheses, the operators `+ - * / > or`, `sum`, `max`, `count`, `count by`,
`scalar`, `vector`, `clamp_min`, `clamp_max`, `rate` and `avg_over_time`. Anything else is an error. The meaning
is that of Prometheus: prometheus/prometheus v0.316.0, promql/engine.go and promql/functions.go.
"""

import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

Labels = frozenset[tuple[str, str]]
Samples = deque[tuple[float, float]]
"""Time in seconds and value, oldest first."""
Vector = dict[Labels, float]
Value = float | Vector

NAME = "__name__"
LOOKBACK_SECONDS = 300.0
"""An older sample has no value (`--query.lookback-delta`)."""
KEPT_SECONDS = 600.0
"""Samples are kept for this long."""
EXTRAPOLATED = 1.1
"""`rate` reaches to the end of its window if the next sample is at most so many intervals away."""


@dataclass
class Store:
    """Scraped series."""

    series: dict[Labels, Samples] = field(default_factory=dict)
    scraped: float = -1e9
    """Time of the last scrape."""

    def scrape(self, at: float, values: Mapping[Labels, float]) -> None:
        """Add what a scrape of all targets has found. A series that is not in it has ended."""
        self.scraped = at
        for labels, value in values.items():
            self.series.setdefault(labels, deque()).append((at, value))
        for labels in [one for one, samples in self.series.items() if samples[-1][0] < at - KEPT_SECONDS]:
            del self.series[labels]
        for samples in self.series.values():
            while samples[0][0] < at - KEPT_SECONDS:
                samples.popleft()


Query = Callable[[Store, float], Value]
"""A parsed query: from what was scraped, and a time, to its value."""


def labels(name: str, **others: str) -> Labels:
    """The labels of a series."""
    return frozenset({NAME: name, **others}.items())


def parsed(text: str) -> Query:
    """The query of this text; raises ValueError if it has what this module does not know.

    Examples:
        >>> store = Store()
        >>> store.scrape(0, {labels("up", pod="a"): 1.0, labels("up", pod="b"): 1.0})
        >>> parsed('sum(up{pod=~"[ab]"}) * 3')(store, 0)
        {frozenset(): 6.0}
    """
    parser = _Parser(text)
    query = parser.either()
    if parser.token is not None:
        raise ValueError(f"unexpected {parser.token!r} in {text!r}")
    return query


_TOKEN = re.compile(
    r'\s*(?:([A-Za-z_:][\w:]*)|(\d+(?:\.\d+)?(?:e[+-]?\d+)?(?:[smh](?!\w))?)|("[^"]*")|(=~|[-+*/>(){}\[\],=]))'
)


class _Parser:
    """Recursive descent; each method reads one level of precedence."""

    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self.token: str | None = next(self._tokens, None)

    def either(self) -> Query:
        found = self._above()
        while self._taken("or"):
            found = _or(found, self._above())
        return found

    def _above(self) -> Query:
        found = self._sum()
        while self._taken(">"):
            found = _operation(">", found, self._sum())
        return found

    def _sum(self) -> Query:
        found = self._product()
        while self.token in {"+", "-"}:
            found = _operation(self._next(), found, self._product())
        return found

    def _product(self) -> Query:
        found = self._atom()
        while self.token in {"*", "/"}:
            found = _operation(self._next(), found, self._atom())
        return found

    def _atom(self) -> Query:
        if self._taken("("):
            found = self.either()
            self._expect(")")
            return found
        token = self._next()
        if token[0].isdigit():
            number = float(token)
            return lambda _store, _at: number
        if token in {"rate", "avg_over_time"}:
            return self._range(token)
        if token in _AGGREGATIONS or token in _FUNCTIONS:
            return self._call(token)
        return _selected(self._matcher(token))

    def _call(self, name: str) -> Query:
        by = self._names() if self._taken("by") else ()
        self._expect("(")
        arguments = [self.either()]
        while self._taken(","):
            arguments.append(self.either())
        self._expect(")")
        if name in _AGGREGATIONS:
            (argument,) = arguments
            return lambda store, at: _aggregated(name, by, _vector(argument(store, at)))
        return lambda store, at: _FUNCTIONS[name](*(one(store, at) for one in arguments))

    def _range(self, name: str) -> Query:
        self._expect("(")
        matches = self._matcher(self._next())
        self._expect("[")
        seconds = _seconds(self._next())
        self._expect("]")
        self._expect(")")
        return _over_range(_RANGES[name], matches, seconds)

    def _names(self) -> tuple[str, ...]:
        self._expect("(")
        names = [self._next()]
        while self._taken(","):
            names.append(self._next())
        self._expect(")")
        return tuple(names)

    def _matcher(self, name: str) -> Callable[[Labels], bool]:
        wanted = {NAME: re.compile(re.escape(name))}
        if self._taken("{"):
            while not self._taken("}"):
                label, operator, text = self._next(), self._next(), self._next()[1:-1]
                if operator not in {"=", "=~"}:
                    raise ValueError(f"unknown operator {operator!r} of a label")
                wanted[label] = re.compile(text if operator == "=~" else re.escape(text))
                self._taken(",")
        known: dict[Labels, bool] = {}

        def matches(one: Labels) -> bool:
            if one not in known:
                values = dict(one)
                known[one] = all(pattern.fullmatch(values.get(label, "")) for label, pattern in wanted.items())
            return known[one]

        return matches

    def _next(self) -> str:
        token = self.token
        if token is None:
            raise ValueError("the query ends too early")
        self.token = next(self._tokens, None)
        return token

    def _taken(self, token: str) -> bool:
        if self.token != token:
            return False
        self._next()
        return True

    def _expect(self, token: str) -> None:
        if (found := self._next()) != token:
            raise ValueError(f"{found!r} stands where {token!r} should")


def _tokens(text: str) -> Iterator[str]:
    place, end = 0, len(text.rstrip())
    while place < end:
        found = _TOKEN.match(text, place)
        if found is None:
            raise ValueError(f"unknown text {text[place : place + 20]!r}")
        yield found[0].strip()
        place = found.end()


def _seconds(text: str) -> float:
    """A duration in seconds.

    Examples:
        >>> _seconds("2m")
        120.0
    """
    return float(text[:-1]) * {"s": 1, "m": 60, "h": 3600}[text[-1]]


def _selected(matches: Callable[[Labels], bool]) -> Query:
    """The last sample of each series that has not ended."""

    def query(store: Store, at: float) -> Value:
        newest = ((one, samples[-1]) for one, samples in store.series.items() if matches(one))
        return {one: value for one, (time, value) in newest if time == store.scraped and at - time < LOOKBACK_SECONDS}

    return query


def _over_range(
    function: Callable[[Sequence[tuple[float, float]], float, float], float | None],
    matches: Callable[[Labels], bool],
    seconds: float,
) -> Query:
    def query(store: Store, at: float) -> Value:
        found: Vector = {}
        for one, samples in store.series.items():
            if not matches(one):
                continue
            inside = [sample for sample in samples if at - seconds < sample[0] <= at]
            value = function(inside, at - seconds, at) if inside else None
            if value is not None:
                found[_unnamed(one)] = value
        return found

    return query


def _average(samples: Sequence[tuple[float, float]], _start: float, _end: float) -> float:
    return sum(value for _, value in samples) / len(samples)


def _rate(samples: Sequence[tuple[float, float]], start: float, end: float) -> float | None:
    """The increase per second, extrapolated to the window as Prometheus does it (extrapolatedRate)."""
    if len(samples) < 2:  # noqa: PLR2004 - an increase has two ends
        return None
    (first, before), (last, after) = samples[0], samples[-1]
    resets = sum(a for (_, a), (_, b) in pairwise(samples) if b < a)
    increase, seconds = after - before + resets, last - first
    interval = seconds / (len(samples) - 1)
    lead, tail = (gap if gap < EXTRAPOLATED * interval else interval / 2 for gap in (first - start, end - last))
    if increase > 0 and before >= 0:
        lead = min(lead, seconds * before / increase)
    return increase * (seconds + lead + tail) / seconds / (end - start)


_RANGES = {"rate": _rate, "avg_over_time": _average}


def _or(left: Query, right: Query) -> Query:
    def query(store: Store, at: float) -> Value:
        found = _vector(left(store, at))
        return {**_vector(right(store, at)), **found}

    return query


def _operation(name: str, left: Query, right: Query) -> Query:
    apply = _OPERATORS[name]

    def query(store: Store, at: float) -> Value:
        one, other = left(store, at), right(store, at)
        if isinstance(one, float) and isinstance(other, float):
            return apply(one, other) or 0.0
        if isinstance(one, float):
            pairs = {key: (one, value) for key, value in _vector(other).items()}
        elif isinstance(other, float):
            pairs = {key: (value, other) for key, value in one.items()}
        else:
            pairs = {key: (one[key], other[key]) for key in one.keys() & other.keys()}
        results = {key: apply(*pair) for key, pair in pairs.items()}
        return {key: value for key, value in results.items() if value is not None}

    return query


_OPERATORS: Mapping[str, Callable[[float, float], float | None]] = {
    "+": lambda one, other: one + other,
    "-": lambda one, other: one - other,
    "*": lambda one, other: one * other,
    "/": lambda one, other: one / other if other else float("nan"),
    ">": lambda one, other: one if one > other else None,
}


def _aggregated(name: str, by: Sequence[str], values: Vector) -> Vector:
    groups: dict[Labels, list[float]] = {}
    for key, value in values.items():
        groups.setdefault(frozenset(pair for pair in key if pair[0] in by), []).append(value)
    return {key: _AGGREGATIONS[name](group) for key, group in groups.items()}


_AGGREGATIONS: Mapping[str, Callable[[Sequence[float]], float]] = {
    "sum": lambda values: float(sum(values)),
    "count": lambda values: float(len(values)),
    "max": max,
}


def _scalar(value: Value) -> Value:
    only = list(_vector(value).values())
    return only[0] if len(only) == 1 else float("nan")


def _each(value: Value, apply: Callable[[float], float]) -> Value:
    return {_unnamed(key): apply(one) for key, one in _vector(value).items()}


def _number(value: Value) -> float:
    if not isinstance(value, float):
        raise TypeError("a number is needed here")
    return value


_FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "scalar": _scalar,
    "vector": lambda value: {frozenset(): _number(value)},
    "clamp_max": lambda value, bound: _each(value, lambda one: min(one, _number(bound))),
    "clamp_min": lambda value, bound: _each(value, lambda one: max(one, _number(bound))),
}


def _vector(value: Value) -> Vector:
    if isinstance(value, float):
        raise TypeError("series are needed here")
    return value


def _unnamed(key: Labels) -> Labels:
    return frozenset(pair for pair in key if pair[0] != NAME)
