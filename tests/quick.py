"""Runs the tests of what changed, within 45 s: `make quick`, or `python -m tests.quick [--base REF] [--built FOLDER]`.

What changed is what differs from the merge base with REF: commits, uncommitted changes and untracked files. Its tests:
1. of a file below `tests/`: the test module itself, that of a snapshot, or all of the folder for its `conftest.py` or
   data; of a module that tests share, those that import it
2. of a file in the package X of the operator: `tests/X`, and the doctests of the module
3. of a Python module: the test modules that import it directly
4. of a page or a sample: `tests/documents`
ruff and the rules of layout see the changed modules. The tests that take longest are left out, so that the rest fits
into the time by the durations of the last `make unit` or `make test`. After the time, tests are skipped. What was left
out is printed, with the command that runs it.

This module is also the pytest plugin that leaves them out.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from e2e.runs import durations
from tests import layout

ROOT = Path(__file__).parents[1]
BASES = ("origin/main", "main")
SECONDS = 45.0
START_SECONDS = 15.0
"""Of these, for linters, and for pytest to import and to collect."""
STOP_SECONDS = 5.0
"""For the last tests and the summary."""
WORKERS, WORKER_SECONDS = 2, 10.0
"""Workers of pytest-xdist, and the seconds of tests from which they are faster than no worker."""
MOST_IMPORTERS = 60
"""Test modules that only import what changed: collecting more of them takes longer than most of their tests."""
OPERATOR = "operator/inference_operator/"
PYTHON_FOLDERS = ("operator", "tests", "e2e", "bench", "generators")


class GitError(Exception):
    """Git cannot say what changed."""


@dataclass(slots=True)
class Selection:
    """What runs, and what is left out; files are relative to the repository."""

    tests: list[str] = field(default_factory=list)
    """Changed tests, then those of the changed packages, then importers."""
    first: set[str] = field(default_factory=set)
    """Of these, the changed ones."""
    modules: list[str] = field(default_factory=list)
    """Changed Python files, for linters."""
    left_out: dict[str, list[str]] = field(default_factory=dict)
    """By the reason, with its command."""

    def leave_out(self, reason: str, files: Iterable[str]) -> None:
        """Add to what is left out."""
        if listed := sorted(files):
            self.left_out.setdefault(reason, []).extend(listed)


def git(root: Path, *arguments: str) -> str:
    """The output of git."""
    command = ["git", *arguments]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, errors="surrogateescape", check=False)
    if done.returncode:
        raise GitError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def merge_base(root: Path, asked: str | None) -> str:
    """The commit to compare with; HEAD where no branch is named main."""
    known = git(
        root, "for-each-ref", "--format=%(refname:short)", "refs/heads/main", "refs/remotes/origin/main"
    ).split()
    base = asked or next((base for base in BASES if base in known), "HEAD")
    return git(root, "merge-base", "HEAD", base).strip()


def changed_files(root: Path, base: str) -> list[str]:
    """Files that differ from a commit, the removed and the untracked ones included."""
    differing = git(root, "diff", "--name-only", "--no-renames", "-z", base, "--")
    untracked = git(root, "ls-files", "--others", "--exclude-standard", "-z")
    return sorted({*differing.split("\0"), *untracked.split("\0")} - {""})


def selection(root: Path, changed: Sequence[str], built: Sequence[str], known: Mapping[str, float]) -> Selection:
    """The tests of the changed files; `known` has the seconds of test files."""
    chosen = Selection(modules=[path for path in changed if path.endswith(".py") and (root / path).is_file()])
    by_place = {path: _tests_of(root, path) for path in changed}
    own = set().union(*by_place.values())
    names = {name for path in changed if (name := dotted(path))}
    imports = {str(path.relative_to(root)): _imported(path, names) for path in _test_modules(root / "tests")}
    importers = {path for path, imported in imports.items() if imported} - own
    elsewhere = {path for path in {*own, *importers} if path.startswith(("e2e/", *built))}
    chosen.first = own.intersection(changed) - elsewhere
    ranked = sorted(importers - elsewhere, key=lambda path: (known.get(path, 0.0), path))
    chosen.tests = [*sorted(chosen.first), *sorted(own - chosen.first - elsewhere), *ranked[:MOST_IMPORTERS]]
    chosen.leave_out("only import what changed; run `make unit`", ranked[MOST_IMPORTERS:])
    chosen.leave_out("need an API server or built commands; run `make test`", _below(elsewhere, "tests/"))
    chosen.leave_out("need a node; run `make e2e`", _below(elsewhere, "e2e/"))
    imported = set().union(*imports.values())
    unknown = [path for path, tests in by_place.items() if not tests and dotted(path) not in imported]
    chosen.leave_out("no test belongs to them by name or import; run `make test`", unknown)
    return chosen


def dotted(path: str) -> str:
    """The name by which a Python file is imported; empty for other files."""
    if not path.endswith(".py") or path.partition("/")[0] not in PYTHON_FOLDERS:
        return ""
    return path.removeprefix("operator/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def beyond(tests: Mapping[str, float], first: set[str], seconds: float) -> list[str]:
    """The tests that do not fit into the seconds, slowest last: those of the files in `first` fit before the others."""
    left_out, total = [], 0.0
    for test in sorted(tests, key=lambda test: (durations.file_of(test) not in first, tests[test])):
        total += tests[test]
        if total > seconds or tests[test] > seconds / WORKERS:
            total -= tests[test]
            left_out.append(test)
    return left_out


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of this plugin."""
    parser.addoption("--left-out", metavar="FILE", help="deselect the tests whose node ids are the lines of FILE")
    parser.addoption("--until", metavar="SECONDS", type=float, help="skip tests from this moment of the epoch on")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the listed tests."""
    path = config.getoption("--left-out")
    listed = set(Path(path).read_text().splitlines()) if path else set()
    left_out = [item for item in items if item.nodeid in listed]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item.nodeid not in listed]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test that would begin too late."""
    until = item.config.getoption("--until")
    if until is not None and time.time() > until:
        pytest.skip("the time is over; run `make test`")


def main(arguments: Sequence[str], root: Path = ROOT) -> int:
    """Run linters and tests; returns the exit status."""
    started = time.time()
    parser = argparse.ArgumentParser(prog="python -m tests.quick", description=__doc__.partition("\n")[0])
    parser.add_argument("--base", help=f"compare with the merge base with this (default: {' or '.join(BASES)})")
    parser.add_argument("--built", action="append", default=[], help="a folder of tests that need built commands")
    given = parser.parse_args(arguments)
    try:
        base = merge_base(root, given.base)
        changed = changed_files(root, base)
    except GitError as error:
        parser.error(str(error))
    known = _known_seconds(root)
    files: dict[str, float] = {}
    for test, seconds in known.items():
        files[durations.file_of(test)] = files.get(durations.file_of(test), 0.0) + seconds
    chosen = selection(root, changed, [f"{folder.rstrip('/')}/" for folder in given.built], files)
    print(
        f"{len(changed)} files differ from {base[:12]}; {len(chosen.tests)} files with tests belong to them", flush=True
    )
    passed = [_lint(root, chosen.modules), _test(root, chosen, known, started)]
    chosen.leave_out("linters of all files; run `make check`", ["mypy", "lint-imports"])
    for reason, listed in chosen.left_out.items():
        print(f"Left out: {', '.join(listed[:3])}{f' and {len(listed) - 3} more' if len(listed) > 3 else ''}: {reason}")
    print(f"make quick: {time.time() - started:.0f} s of {SECONDS:.0f} s")
    return 0 if all(passed) else 1


def _lint(root: Path, modules: Sequence[str]) -> bool:
    if not modules:
        return True
    ruff = [[sys.executable, "-m", "ruff", *words] for words in (("check",), ("format", "--check"))]
    done = [subprocess.run([*words, "--quiet", "--force-exclude", *modules], cwd=root, check=False) for words in ruff]
    if any(process.returncode for process in done):
        return False
    parsed = [layout.Module(root / path) for path in modules if path.startswith(PYTHON_FOLDERS)]
    operator = [module for module in parsed if module.path.is_relative_to(layout.PACKAGE)]
    errors = list(layout.errors(operator, [module for module in parsed if module not in operator]))
    print(*(f"error: {error}" for error in errors), sep="\n", end="\n" if errors else "", flush=True)
    return not errors


def _test(root: Path, chosen: Selection, known: Mapping[str, float], started: float) -> bool:
    if not chosen.tests:
        return True
    seconds = {test: taken for test, taken in known.items() if durations.file_of(test) in set(chosen.tests)}
    slow = beyond(seconds, chosen.first, (SECONDS - START_SECONDS) * WORKERS)
    expected = sum(seconds.values()) - sum(seconds[test] for test in slow)
    workers = 0 if seconds and expected < WORKER_SECONDS else WORKERS
    with tempfile.NamedTemporaryFile("w") as listed:
        listed.write("\n".join(slow))
        listed.flush()
        options = [
            "-m",
            "not full",
            "--snapshot-warn-unused",
            "-n",
            str(workers),
            "--dist",
            "worksteal",
            f"--left-out={listed.name}",
        ]
        until = f"--until={started + SECONDS - STOP_SECONDS}"
        words = [sys.executable, "-m", "pytest", "-q", "-p", "tests.quick", *options, until, *chosen.tests]
        status = subprocess.run(words, cwd=root, check=False).returncode
    chosen.leave_out("take longest, by the last run; run `make test`", slow)
    return status in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}


def _known_seconds(root: Path) -> dict[str, float]:
    """Of each test, from the kept runs."""
    folder = root / durations.FOLDER.name
    runs = [run for name in ("unit", "pure") for run in durations.kept(name, folder)]
    return {test: duration.call + duration.fixtures for test, duration in durations.best(runs).items()}


def _tests_of(root: Path, path: str) -> set[str]:
    """The files with tests that belong to a file by its place."""
    file = root / path
    place = path.removeprefix(OPERATOR).removeprefix("tests/").split("/")
    tests: list[Path] = []
    if path.startswith(OPERATOR):
        tests = [*_test_modules(root / "tests" / place[0]), root / "tests" / f"test_{place[0]}", file]
    elif path.startswith("tests/") and "__snapshots__" in place:
        owner, _, snapshot = path.partition("/__snapshots__/")
        tests = [root / owner / f"{re.split('[/.]', snapshot)[0]}.py"]
    elif path.startswith(("tests/", "e2e/")) and file.suffix == ".py" and file.name != "conftest.py":
        tests = [file]
    elif path.startswith("tests/") and len(place) > 1:
        tests = _test_modules(file.parent if file.name == "conftest.py" else root / "tests" / place[0])
    elif path.endswith(".md") or path.startswith(("docs/", "manifests/samples/")):
        tests = _test_modules(root / "tests" / "documents")
    return {str(test.relative_to(root)) for test in tests if _has_tests(test)}


def _has_tests(file: Path) -> bool:
    return file.suffix == ".py" and file.is_file() and (file.name.startswith("test_") or ">>> " in file.read_text())


def _test_modules(folder: Path) -> list[Path]:
    return sorted(folder.rglob("test_*.py"))


def _imported(path: Path, names: set[str]) -> set[str]:
    """Those of the modules that a module imports; only a text with the last part of a name is parsed."""
    text = path.read_text()
    if not any(name.rpartition(".")[2] in text for name in names):
        return set()
    try:
        return names.intersection(layout.Module(path).imports())
    except SyntaxError:
        return set()  # ruff reports it


def _below(paths: Iterable[str], folder: str) -> list[str]:
    return [path for path in paths if path.startswith(folder)]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
