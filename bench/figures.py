"""What every bench prints: figures, each with its aim."""

import json
from argparse import ArgumentParser
from collections.abc import Sequence
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure and its aim: what it should not exceed, or reach, as its bench says."""

    name: str
    value: float
    unit: str
    aim: float | None = None


def parser_of(program: str, description: str) -> ArgumentParser:
    """A bench's command line, which asks for text or JSON; the bench adds what else it takes."""
    parser = ArgumentParser(prog=program, description=description)
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")
    return parser


def shown(figures: Sequence[Figure], output: str, *, at_least: tuple[str, ...] = ()) -> str:
    """The figures as a bench was asked to print them.

    Args:
        figures: what was measured.
        output: `text` or `json`.
        at_least: ends of the names of those that should reach their aim; all others should not exceed it.
    """
    if output == "json":
        return json_of(figures)
    width = max(len(one.name) for one in figures)
    return "\n".join(_line(one, width, "at least" if one.name.endswith(at_least) else "at most") for one in figures)


def json_of(figures: Sequence[Figure]) -> str:
    """The figures for programs."""
    return json.dumps([asdict(figure) for figure in figures], indent=2)


def _line(figure: Figure, width: int, bound: str) -> str:
    aim = "" if figure.aim is None else f"(aim: {bound} {figure.aim:g})"
    return f"{figure.name:{width}} {figure.value:10.3f} {figure.unit:12} {aim}".rstrip()
