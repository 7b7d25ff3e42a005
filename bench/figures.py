"""The output of every bench: figures with name, value, unit and aim, as text or JSON."""

import json
import math
import operator
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Aim:
    """A bound that a figure must keep.

    Examples:
        >>> str(at_most(3)), str(at_least(0.8)), at_most(3).met_by(4)
        ('<= 3', '>= 0.8', False)
    """

    bound: float
    relation: str = "<="
    """`<=`, `>=` or `==`."""

    def __str__(self) -> str:
        return f"{self.relation} {self.bound:.12g}"

    def met_by(self, value: float) -> bool:
        """Whether a figure of this value keeps the bound."""
        return _RELATIONS[self.relation](value, self.bound)


_RELATIONS: Mapping[str, Callable[[float, float], bool]] = {"<=": operator.le, ">=": operator.ge, "==": operator.eq}


def at_most(bound: float) -> Aim:
    """The aim of a figure that must not exceed a bound."""
    return Aim(bound)


def at_least(bound: float) -> Aim:
    """The aim of a figure that must reach a bound."""
    return Aim(bound, ">=")


def exactly(bound: float) -> Aim:
    """The aim of a figure that must be equal to another one."""
    return Aim(bound, "==")


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure."""

    name: str
    value: float
    """Not a number if it was not measured."""
    unit: str
    aim: Aim | None = None
    why: str = ""
    """Why it was not measured."""


def unmeasured(name: str, unit: str, why: str) -> Figure:
    """A figure that cannot be measured here, with the reason.

    Examples:
        >>> print(shown([unmeasured("wake-up", "s", "it needs a GPU")], "text"))
        wake-up not measured: it needs a GPU
    """
    return Figure(name, math.nan, unit, why=why)


def parser_of(program: str, description: str) -> ArgumentParser:
    """A bench's command line with the format of the output; the bench adds its own arguments."""
    parser = ArgumentParser(prog=program, description=description)
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")
    return parser


def as_known(figures: Iterable[Figure]) -> Iterator[Figure]:
    """The same figures, each also printed to stderr when it is known: a bench that takes long may be stopped."""
    for figure in figures:
        print(_line(figure, len(figure.name)), file=sys.stderr, flush=True)
        yield figure


def shown(figures: Sequence[Figure], output: str) -> str:
    """The figures as `text` or `json`."""
    if output == "json":
        return json_of(figures)
    width = max(len(figure.name) for figure in figures)
    return "\n".join(_line(figure, width) for figure in figures)


def json_of(figures: Sequence[Figure]) -> str:
    """A JSON list of `{name, value, unit, aim}`; an aim is text such as `<= 3`, or null.

    A value that was not measured is null, and `why` has the reason if it is known.

    Examples:
        >>> print(json_of([Figure("writes", 2, "requests", at_most(3))]))
        [
          {
            "name": "writes",
            "value": 2,
            "unit": "requests",
            "aim": "<= 3"
          }
        ]
    """
    return json.dumps([_fields(figure) for figure in figures], indent=2)


def _fields(figure: Figure) -> dict[str, str | float | None]:
    return {
        "name": figure.name,
        "value": None if math.isnan(figure.value) else figure.value,
        "unit": figure.unit,
        "aim": str(figure.aim) if figure.aim else None,
        **({"why": figure.why} if figure.why else {}),
    }


def _line(figure: Figure, width: int) -> str:
    aim = f"(aim: {figure.aim})" if figure.aim else ""
    missing = f"not measured: {figure.why}" if figure.why else "not measured"
    value = missing if math.isnan(figure.value) else f"{figure.value:10.3f} {figure.unit:12}"
    return f"{figure.name:{width}} {value} {aim}".rstrip()
