"""How answers are printed: tables for people, documents for programs."""

import argparse
import json
from collections.abc import Sequence
from itertools import zip_longest
from typing import Literal

import yaml

from inference_operator.manifest import Manifest

FORMS = ("table", "json", "yaml")
LEFT_COLUMNS = 2
"""Columns of words; the others are of numbers."""


def add_output(parser: argparse.ArgumentParser) -> None:
    """The argument that chooses the form."""
    parser.add_argument("-o", "--output", choices=FORMS, default="table", help="how the answer is printed; table")


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines with aligned columns, the first two to the left; a row may end early.

    Examples:
        >>> table([("NAME", "GPU", "TENSOR"), ("qwen3-8b", "L4", "2"), ("x", "no")])
        ['NAME      GPU  TENSOR', 'qwen3-8b  L4        2', 'x         no']
    """
    widths = [max(len(cell) for cell in column) for column in zip_longest(*rows, fillvalue="")]
    return ["  ".join(_cells(row, widths)).rstrip() for row in rows]


def _cells(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [
        cell.ljust(width) if number < LEFT_COLUMNS else cell.rjust(width)
        for number, (cell, width) in enumerate(zip(row, widths, strict=False))
    ]


def dumped(documents: Sequence[Manifest], form: Literal["json", "yaml"]) -> str:
    r"""One document as itself, several as a list.

    Examples:
        >>> dumped([{"a": 1}], "yaml"), dumped([{"a": 1}, {"a": 2}], "yaml")
        ('a: 1', '- a: 1\n- a: 2')
    """
    shown = documents[0] if len(documents) == 1 else list(documents)
    if form == "json":
        return json.dumps(shown, indent=2)
    text: str = yaml.safe_dump(shown, sort_keys=False)
    return text.rstrip("\n")
