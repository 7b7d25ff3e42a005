"""The page on security: each promise has an attack test that exists."""

import re
from pathlib import Path

from tests.testing.for_each import for_each

REPOSITORY = Path(__file__).parents[2]
PAGE = REPOSITORY / "docs" / "explanation" / "security.md"
NOT_YET = "not yet"
NAMED = re.compile(r"`((?:tests|e2e)/[\w/]+\.py)::(\w+)`")


def section(title: str) -> str:
    return PAGE.read_text().partition(f"## {title}\n")[2].partition("\n## ")[0]


def rows(title: str) -> list[list[str]]:
    """The cells of the first table of a section, without its head."""
    table = [line.strip("| ") for line in section(title).splitlines() if line.startswith("|")]
    return [re.split(r" \| ", line) for line in table[2:]]


def exists(test: str) -> bool:
    """Whether a test stands in the file that a page names."""
    named = NAMED.fullmatch(test)
    file = REPOSITORY / named[1] if named else PAGE
    return named is not None and file.exists() and re.search(rf"def {named[2]}\(", file.read_text()) is not None


PROMISES = [(promise, test) for _, promise, test in rows("Promises")]


@for_each(PROMISES)
def test_each_promise_names_an_attack_test_that_exists(row: tuple[str, str]) -> None:
    promise, test = row
    assert promise.endswith(".")
    assert test == NOT_YET or exists(test), test


def test_a_promise_without_an_attack_test_and_one_with_a_wrong_name_are_noticed() -> None:
    assert not exists("")
    assert not exists("`tests/security/test_nosuch.py::test_a`")
    assert not exists("`tests/documents/test_security.py::test_nosuch`")
    assert exists("`tests/documents/test_security.py::test_each_promise_names_an_attack_test_that_exists`")


def test_promises_are_made_against_the_actors_of_the_page() -> None:
    actors = {actor for actor, *_ in rows("Actors")}
    assert {against for against, *_ in rows("Promises")} <= actors


def test_each_limit_that_names_a_test_names_one_that_exists() -> None:
    limits = [f"`{file}::{name}`" for file, name in NAMED.findall(section("What is not promised"))]
    assert len(limits) == 4
    assert all(map(exists, limits))
