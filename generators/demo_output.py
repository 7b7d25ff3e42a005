"""Put the output of `make demo` into the documentation: `python -m generators.demo_output demo.log`."""

import re
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
FULL = REPOSITORY / "docs" / "contributing" / "demo-output.md"
MARKED = "(<!-- {name}: begin[^>]*-->\n```\n)(.*?)(```\n<!-- {name}: end -->\n)"


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


def main(log: Path) -> None:
    """Replace the output."""
    text = log.read_text()
    output = text[text.index("== ") :].rstrip() + "\n"
    FULL.write_text(replaced(FULL.read_text(), "demo-output", output))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
