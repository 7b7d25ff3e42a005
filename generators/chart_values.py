"""The chart's README: a table of all values, from the comments of values.yaml."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CHART = Path(__file__).parents[1] / "charts" / "inference-operator"
INTRODUCTION = """\
# The inference-operator chart
[Install, upgrade, remove](../../docs/how-to/install.md) and [platforms](../../docs/how-to/platforms.md) say when to
change which value. `values.schema.json` checks every value: an unknown value is an error.

This page is generated from `values.yaml`.

| value | default | meaning |
|---|---|---|
"""
_KEY = re.compile(r"^(?P<indent> *)(?P<name>[A-Za-z]\w*):(?P<rest>.*)$")


@dataclass(frozen=True, slots=True)
class Value:
    """One line of the table: a value, or a section of values that share a comment."""

    path: str
    default: str
    meaning: str


def page() -> str:
    """The README."""
    rows = values((CHART / "values.yaml").read_text(encoding="utf-8"))
    told = (row for row in rows if row.default or row.meaning)
    return INTRODUCTION + "".join(f"| `{row.path}` | {row.default} | {row.meaning} |\n" for row in told)


def values(text: str) -> Iterator[Value]:
    r"""All values of a values file in their order, each with the comment above it.

    Examples:
        >>> list(values("# Of the API.\nport: 80\n"))
        [Value(path='port', default='`80`', meaning='Of the API.')]
    """
    comment: list[str] = []
    above: list[tuple[int, str]] = []
    for line in text.splitlines():
        if line.strip().startswith("#"):
            comment.append(line.strip().removeprefix("#").strip())
            continue
        if key := _KEY.match(line):
            indent = len(key["indent"])
            above = [*(one for one in above if one[0] < indent), (indent, key["name"])]
            default = f"`{key['rest'].strip()}`" if key["rest"].strip() else ""
            yield Value(".".join(name for _, name in above), default, " ".join(comment))
        comment = []
