"""The chart's README: a table of all values, from the comments of values.yaml."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

CHART = Path(__file__).parents[1] / "charts" / "inference-operator"
INTRODUCTION = """\
# The inference-operator chart
[Install](../../docs/how-to/install.md), [operate](../../docs/how-to/operate.md) and
[platforms](../../docs/how-to/platforms.md) say when to change which value.
`values.schema.json` checks every value: an unknown value is an error.

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

    A comment that is indented deeper than the key above it shows keys that may stand there, and belongs to that key.

    Examples:
        >>> list(values("# Of the API.\nport: 80\n"))
        [Value(path='port', default='`80`', meaning='Of the API.')]
        >>> [one.meaning for one in values("# Of pods.\npods: {}\n  # user: of a pod\n# Of the API.\nport: 80\n")]
        ['Of pods. Keys: `user`: of a pod.', 'Of the API.']
    """
    comment: list[str] = []
    keys: list[str] = []
    above: list[tuple[int, str]] = []
    found: Value | None = None
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip())
        if line.strip().startswith("#"):
            deeper = bool(above) and indent > above[-1][0] and not (found and not found.default)
            (keys if deeper else comment).append(line.strip().removeprefix("#").strip())
            continue
        if key := _KEY.match(line):
            if found:
                yield _with_keys(found, keys)
            above = [*(one for one in above if one[0] < indent), (indent, key["name"])]
            default = f"`{key['rest'].strip()}`" if key["rest"].strip() else ""
            found = Value(".".join(name for _, name in above), default, " ".join(comment))
            keys = []
        comment = []
    if found:
        yield _with_keys(found, keys)


def _with_keys(value: Value, keys: Sequence[str]) -> Value:
    """The value; its meaning also names the keys that may stand in it."""
    if not keys:
        return value
    told = "; ".join(re.sub(r"^(\w+):", r"`\1`:", key) for key in keys)
    return replace(value, meaning=f"{value.meaning} Keys: {told}.")
