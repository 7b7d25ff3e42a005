"""The table of defences: what is removed for a promise of the security page, and the tests that should notice."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.documents.test_security import NAMED, NOT_YET, PROMISES, REPOSITORY

TABLE = Path(__file__).with_name("defences.toml")


@dataclass(frozen=True, slots=True)
class Removal:
    """A text that stands once in a file, and what stands there without the defence."""

    file: Path
    text: str
    without: str

    @property
    def line(self) -> int:
        """Where it begins."""
        return (REPOSITORY / self.file).read_text().partition(self.text)[0].count("\n") + 1

    def problem(self) -> str | None:
        """Why it cannot be removed."""
        path = REPOSITORY / self.file
        count = path.read_text().count(self.text) if path.exists() else 0
        return None if count == 1 and self.text != self.without else f"{self.file} has {count} times {self.text!r}"


@dataclass(frozen=True, slots=True)
class Defence:
    """What fulfils a promise, as texts that are removed together."""

    promise: str
    removals: tuple[Removal, ...]
    tests: tuple[str, ...]

    @property
    def key(self) -> str:
        """A promise can have several defences."""
        return f"defence: {self.promise} {[(removal.text, removal.without) for removal in self.removals]}"

    def texts(self) -> Mapping[Path, str]:
        """The changed files."""
        texts: dict[Path, str] = {}
        for removal in self.removals:
            text = texts.get(removal.file) or (REPOSITORY / removal.file).read_text()
            texts[removal.file] = text.replace(removal.text, removal.without)
        return texts


ATTACKS = {
    promise: f"{named[1]}::{named[2]}"
    for promise, test in PROMISES
    if test != NOT_YET and (named := NAMED.fullmatch(test))
}
"""The attack test of each promise."""


def defences() -> list[Defence]:
    """Each removal of the table. Its tests are the promise's attack test, unless the table names others."""
    return [
        Defence(
            row["promise"],
            tuple(Removal(Path(change["file"]), change["text"], change["without"]) for change in row["removed"]),
            tuple(row.get("tests", [ATTACKS.get(row["promise"], "")])),
        )
        for row in tomllib.loads(TABLE.read_text())["defence"]
    ]
