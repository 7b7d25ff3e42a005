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


def json_of(figures: Sequence[Figure]) -> str:
    """The figures for programs."""
    return json.dumps([asdict(figure) for figure in figures], indent=2)
