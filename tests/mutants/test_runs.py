"""What becomes of mutants: in forks of one test process, and in a copy of the repository."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.mutants.__main__ import Result, State, modules, paths_of_tests
from tests.mutants.copied import ROOT, Copy
from tests.mutants.operators import Mutant, mutants
from tests.mutants.verdict import Verdict

MODULE = Path("operator/inference_operator/quantity.py")
TESTS = "tests/test_quantity.py"
RUN = f"""
import json, sys
sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / "operator")!r}]
from tests.mutants.in_place import InPlace, run
from tests.mutants.test_runs import TESTS, chosen

def judge(mutant, verdict):
    print(json.dumps([mutant.after, verdict.outcome, verdict.why]), file=sys.stderr)

run(InPlace(chosen(), judge, cpu_seconds=1), [TESTS])
"""


def chosen() -> list[Mutant]:
    """Mutants of one function by their change, and one that does not end."""
    made = mutants(MODULE, (ROOT / MODULE).read_text())
    killed, unseen = (
        next(mutant for mutant in made if mutant.place.startswith(place) and mutant.after == after)
        for place, after in (("_decimal: if thousandths", "thousandths != 0"), ("multiplied: return", "return ''"))
    )
    endless = killed.text.replace("if (thousandths != 0):", "while True: pass\n    if 0:", 1)
    assert endless != killed.text
    return [killed, unseen, replace(killed, text=endless, after="no end")]


def test_a_fork_runs_the_tests_that_enter_a_function_and_changes_no_file(tmp_path: Path) -> None:
    before = (ROOT / MODULE).read_bytes()
    env = {**os.environ, "HYPOTHESIS_STORAGE_DIRECTORY": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", RUN], cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    verdicts = {after: (outcome, why) for after, outcome, why in map(json.loads, done.stderr.splitlines())}
    assert verdicts["thousandths != 0"][0] == "killed", done
    assert verdicts["thousandths != 0"][1].startswith(TESTS)
    assert verdicts["return ''"] == ("survived", "no test enters the function")
    assert verdicts["no end"][0] == "timeout"
    assert (ROOT / MODULE).read_bytes() == before


@pytest.fixture
def copied(tmp_path: Path) -> Copy:
    (tmp_path / "conftest.py").touch()
    (tmp_path / "answer.py").write_text("ANSWER = 4\n")
    test = "from answer import ANSWER\n\ndef test_it() -> None:\n    while ANSWER == 6: pass\n    assert ANSWER == 4\n"
    (tmp_path / "test_answer.py").write_text(test)
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    return Copy(tmp_path)


def test_a_process_fails_does_not_end_or_passes_and_its_files_are_as_before(copied: Copy) -> None:
    path, tests = Path("answer.py"), ["test_answer.py"]
    with copied.changed({path: "ANSWER = \n"}):
        assert copied.verdict(tests, 60) == Verdict("killed", "test_answer.py"), "it cannot be imported"
    with copied.changed({path: "ANSWER = 6\n"}):
        assert copied.verdict(tests, 3).outcome == "timeout"
    assert (copied.folder / path).read_text() == "ANSWER = 4\n"
    assert copied.verdict(tests, 60).outcome == "survived", "no bytecode of a mutant is left"


def test_a_test_that_does_not_exist_kills_nothing(copied: Copy) -> None:
    with pytest.raises(SystemExit, match="pytest ended with"):
        copied.verdict(["test_nosuch.py"], 60)


def test_an_interrupted_run_goes_on_and_one_over_other_files_begins_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, (first, second, _) = tmp_path / "state" / "mutants.jsonl", chosen()
    State(path, as_text=False).judge(first, Verdict("killed", "a::b"))
    again = State(path, as_text=False)
    assert [mutant for mutant in (first, second) if again.is_new(mutant)] == [second]
    assert [str(result).rpartition(": ")[2] for result in again.results] == ["killed by a::b"]
    monkeypatch.setattr("tests.mutants.__main__._digest", lambda: "other files")
    assert State(path, as_text=False).is_new(first)


def test_modules_are_packages_or_files_and_their_own_tests_come_first() -> None:
    (drain,) = modules(["workload.eviction.drain"])
    assert drain in modules(["workload"])
    assert paths_of_tests(drain) == [str(drain), "tests/workload", "tests/pipeline", "tests/status"]
    assert paths_of_tests(MODULE)[:2] == [str(MODULE), TESTS]
    with pytest.raises(SystemExit, match=r"--module nosuch: there is no such package"):
        modules(["nosuch"])


def test_a_line_of_the_output_is_short() -> None:
    line = str(Result("a.py:1", "return", "b" * 500, "c", "survived", "3 tests enter the function"))
    assert line.endswith("… -> c: survived: 3 tests enter the function")
    assert len(line) < 250
