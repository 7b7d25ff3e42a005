"""Put the output of `make demo` into the documentation: `python -m generators.demo_output demo.log`."""

import re
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
FULL = REPOSITORY / "docs" / "how-to" / "demo-output.md"
README = REPOSITORY / "README.md"
MARKED = "(<!-- {name}: begin[^>]*-->\n```\n)(.*?)(```\n<!-- {name}: end -->\n)"

_KEPT = re.compile(r"== |-- |NAME |tiny |inference|  (?!stream)\S|    tiny-engine|All of this")
"""Lines of the short form: titles, times, tables, messages of the status, answers. A stream is one very long line."""


def block(page: str, name: str) -> str:
    """Text between the markers `name` of a page."""
    match = re.search(MARKED.format(name=name), page, re.DOTALL)
    if match is None:
        raise ValueError(f"no block {name}")
    return match[2]


def replaced(page: str, name: str, text: str) -> str:
    """The page with other text between the markers `name`."""
    block(page, name)
    return re.sub(MARKED.format(name=name), lambda match: match[1] + text + match[3], page, flags=re.DOTALL)


def excerpt(output: str) -> str:
    """Lines of the demo's output that show what it does, for the README."""
    return "".join(f"{line}\n" for line in _lines(output))


def _lines(output: str) -> Iterator[str]:
    lines = output.splitlines()
    parts = [number for number, line in enumerate(lines) if line.startswith("== ")]
    for number, (start, end) in enumerate(pairwise([*parts, len(lines)])):
        if number == 0:  # building images and starting a cluster: only the title and the time
            yield from (line for line in lines[start:end] if line.startswith(("== ", "-- ")))
        else:
            yield ""
            yield from filter(_KEPT.match, lines[start:end])


def main(log: Path) -> None:
    """Replace the full output and its short form."""
    text = log.read_text()
    output = text[text.index("== ") :].rstrip() + "\n"
    FULL.write_text(replaced(FULL.read_text(), "demo-output", output))
    README.write_text(replaced(README.read_text(), "demo-excerpt", excerpt(output)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
