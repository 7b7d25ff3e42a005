"""Output formats of `infd`: tables for people, JSON and YAML for programs."""

import json
from collections.abc import Sequence
from itertools import zip_longest
from typing import Literal

import yaml

from inference_operator.manifest import Manifest

LEFT_COLUMNS = 2
"""Number of text columns; the others are numbers."""


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines with aligned columns, the first two left-aligned; a row may be shorter than others.

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
    r"""JSON or YAML of one document, or of a list of several.

    Examples:
        >>> dumped([{"a": 1}], "yaml"), dumped([{"a": 1}, {"a": 2}], "yaml")
        ('a: 1', '- a: 1\n- a: 2')
    """
    shown = documents[0] if len(documents) == 1 else list(documents)
    if form == "json":
        return json.dumps(shown, indent=2)
    text: str = yaml.safe_dump(shown, sort_keys=False)
    return text.rstrip("\n")
