"""The tables of removed defences and of equivalent mutants name what exists."""

import re
import tomllib
from pathlib import Path

from tests.documents.test_security import NOT_YET, PROMISES
from tests.mutants.__main__ import EQUIVALENTS, PACKAGE
from tests.mutants.copied import ROOT
from tests.mutants.defences import defences
from tests.mutants.operators import mutants


def test_each_promise_of_the_security_page_has_a_defence() -> None:
    promises = {promise for promise, test in PROMISES if test != NOT_YET}
    assert {defence.promise for defence in defences()} == promises


def test_each_text_of_a_defence_stands_once_in_its_file() -> None:
    removals = [removal for defence in defences() for removal in defence.removals]
    assert [problem for removal in removals if (problem := removal.problem())] == []


def test_no_defence_stands_twice_in_the_table() -> None:
    keys = [defence.key for defence in defences()]
    assert sorted(keys) == sorted(set(keys))


def test_each_test_of_a_defence_exists() -> None:
    for defence in defences():
        for test in defence.tests:
            file, _, name = test.partition("::")
            assert (ROOT / file).exists(), test
            assert not name or re.search(rf"def {name}\(", (ROOT / file).read_text()), test


def test_each_equivalent_mutant_is_still_made() -> None:
    for entry in tomllib.loads(EQUIVALENTS.read_text())["equivalent"]:
        path = Path(PACKAGE / entry["module"])
        made = {mutant.key for mutant in mutants(path, (ROOT / path).read_text())}
        assert entry["mutant"] in made, entry
        assert entry["reason"].endswith(".")
