import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from e2e.runs import durations
from tests import quick

FILES = {
    "operator/inference_operator/scaling/target.py": '"""A module.\n\n>>> 1 + 1\n2\n"""\n',
    "operator/inference_operator/scaling/plain.py": "",
    "operator/inference_operator/amount.py": "",
    "tests/scaling/test_target.py": "from inference_operator.scaling import target\n",
    "tests/scaling/test_other.py": "",
    "tests/scaling/conftest.py": "",
    "tests/test_amount.py": "",
    "tests/pipeline/test_decide.py": "from inference_operator.scaling.target import x\n",
    "tests/pipeline/test_far.py": "from tests.testing.shared import y\n# inference_operator.scaling.target\n",
    "tests/pipeline/__snapshots__/test_decide.ambr": "",
    "tests/testing/shared.py": "from inference_operator.scaling import target\n",
    "tests/apiserver/test_scaling.py": "from inference_operator.scaling import target\n",
    "tests/documents/test_pages.py": "",
    "e2e/test_scaling.py": "",
    "README.md": "",
    "Makefile": "",
    "pytest.ini": "[pytest]\naddopts = -ra\n",
}
DECIDE, FAR, PAGES = (
    f"tests/{name}.py" for name in ("pipeline/test_decide", "pipeline/test_far", "documents/test_pages")
)
TARGET, OTHER = "tests/scaling/test_target.py", "tests/scaling/test_other.py"
API_SERVER, NODE = "tests/apiserver/test_scaling.py", "e2e/test_scaling.py"
MODULE = "operator/inference_operator/scaling/target.py"


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false")
    command = ["git", *identity, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


def write(folder: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a commit on main, and a checked-out branch."""
    write(tmp_path, {**FILES, ".gitignore": "/.reports/\n"})
    git(tmp_path, "init", "--initial-branch=main")
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "--message=First")
    git(tmp_path, "switch", "--create=branch")
    return tmp_path


def changed(repository: Path, base: str | None = None) -> list[str]:
    return quick.changed_files(repository, quick.merge_base(repository, base))


def chosen(*paths: str, folder: Path) -> quick.Selection:
    return quick.selection(folder, paths, ["tests/apiserver/"], {})


def test_commits_edits_removals_and_new_files_since_the_merge_base_count(repository: Path) -> None:
    assert changed(repository) == []
    write(repository, {"committed.py": ""})
    git(repository, "add", "committed.py")
    git(repository, "commit", "--message=Second")
    write(repository, {"README.md": "edited", "new ü.md": "", ".reports/ignored": ""})
    git(repository, "mv", "tests/test_amount.py", "tests/test_amounts.py")
    git(repository, "add", "README.md")
    (repository / "Makefile").unlink()
    paths = ["Makefile", "README.md", "committed.py", "new ü.md", "tests/test_amount.py", "tests/test_amounts.py"]
    assert changed(repository) == paths


def test_what_others_committed_to_main_meanwhile_is_no_change(repository: Path) -> None:
    git(repository, "switch", "main")
    write(repository, {"README.md": "of others"})
    git(repository, "commit", "--all", "--message=Others")
    git(repository, "switch", "branch")
    assert changed(repository) == []
    assert changed(repository, "main") == []


def test_the_main_branch_of_the_remote_precedes_a_local_one_that_is_behind(repository: Path) -> None:
    write(repository, {"pushed.py": ""})
    git(repository, "add", "pushed.py")
    git(repository, "commit", "--message=Pushed")
    git(repository, "update-ref", "refs/remotes/origin/main", "HEAD")
    write(repository, {"mine.py": ""})
    assert changed(repository) == ["mine.py"]
    assert changed(repository, "main") == ["mine.py", "pushed.py"]


def test_without_a_main_branch_only_what_is_not_committed_counts(repository: Path) -> None:
    git(repository, "branch", "--delete", "--force", "main")
    write(repository, {"mine.py": ""})
    assert changed(repository) == ["mine.py"]


@pytest.mark.parametrize("base", ["no-such-branch", "--all", "HEAD~5"])
def test_an_unknown_base_is_an_error_that_names_it(
    repository: Path, base: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        quick.main([f"--base={base}"], repository)
    assert base in capsys.readouterr().err


def test_a_folder_without_git_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        quick.main([], tmp_path)
    assert "not a git repository" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("path", "tests"),
    [
        pytest.param(MODULE, [MODULE, OTHER, TARGET, DECIDE], id="a module: doctests, package, importers"),
        pytest.param("operator/inference_operator/scaling/plain.py", [OTHER, TARGET], id="a module without doctests"),
        pytest.param("operator/inference_operator/scaling/a.j2", [OTHER, TARGET], id="a template of a package"),
        pytest.param("operator/inference_operator/amount.py", ["tests/test_amount.py"], id="a module of no package"),
        pytest.param(DECIDE, [DECIDE], id="a test"),
        pytest.param("tests/testing/shared.py", [FAR], id="a helper"),
        pytest.param("tests/scaling/conftest.py", [OTHER, TARGET], id="a conftest"),
        pytest.param("tests/scaling/data/x.json", [OTHER, TARGET], id="data"),
        pytest.param("tests/pipeline/__snapshots__/test_decide.ambr", [DECIDE], id="a snapshot"),
        pytest.param("tests/pipeline/__snapshots__/test_decide/x.txt", [DECIDE], id="a snapshot in its own file"),
        pytest.param("README.md", [PAGES], id="a page"),
        pytest.param("Makefile", [], id="a file without tests"),
    ],
)
def test_a_changed_file_has_the_tests_of_its_place_and_of_its_importers(
    repository: Path, path: str, tests: list[str]
) -> None:
    assert chosen(path, folder=repository).tests == tests


def test_a_removed_module_still_has_its_tests(repository: Path) -> None:
    (repository / MODULE).unlink()
    selection = chosen(MODULE, folder=repository)
    assert selection.tests == [OTHER, TARGET, DECIDE]
    assert selection.modules == []


def test_tests_of_other_commands_and_files_without_tests_are_left_out_by_name(repository: Path) -> None:
    selection = chosen(MODULE, NODE, "Makefile", "bench/figure.py", API_SERVER, folder=repository)
    assert list(selection.left_out.values()) == [[API_SERVER], [NODE], ["Makefile", "bench/figure.py"]]
    assert [re.findall("`make .*`", reason) for reason in selection.left_out] == [
        ["`make test`"],
        ["`make e2e`"],
        ["`make test`"],
    ]
    assert API_SERVER not in selection.tests
    assert NODE not in selection.tests


def test_the_changed_test_runs_first_and_importers_last(repository: Path) -> None:
    assert chosen(MODULE, TARGET, folder=repository).tests == [MODULE, TARGET, OTHER, DECIDE]


def test_importers_are_bounded_and_the_fastest_stay(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"tests/engines/test_{number}.py" for number in range(4)]
    write(repository, dict.fromkeys(names, "import inference_operator.scaling.target\n"))
    monkeypatch.setattr(quick, "MOST_IMPORTERS", 2)
    seconds = dict(zip(names, (9.0, 1.0, 8.0, 2.0), strict=True)) | {DECIDE: 10.0}
    selection = quick.selection(repository, [MODULE], ["tests/apiserver/"], seconds)
    assert selection.tests == [MODULE, OTHER, TARGET, names[1], names[3]]
    assert sorted([DECIDE, names[0], names[2]]) in selection.left_out.values()


def test_a_test_with_an_error_of_syntax_imports_nothing(repository: Path) -> None:
    write(repository, {FAR: "from inference_operator.scaling.target import (\n"})
    assert FAR not in chosen(MODULE, folder=repository).tests


def test_the_slowest_tests_are_left_out_and_changed_ones_stay() -> None:
    seconds = {"a.py::fast": 1.0, "a.py::slow": 9.0, "b.py::fast": 2.0, "b.py::slow": 8.0, "b.py::alone": 30.0}
    assert quick.beyond(seconds, set(), 100) == []
    assert quick.beyond(seconds, set(), 19) == ["a.py::slow", "b.py::alone"]
    assert quick.beyond(seconds, {"a.py"}, 19) == ["b.py::slow", "b.py::alone"]


def test_a_test_that_alone_takes_longer_than_the_time_is_left_out() -> None:
    assert quick.beyond({"a.py::slow": 11.0}, {"a.py"}, 10.0 * quick.WORKERS) == ["a.py::slow"]


@pytest.fixture
def run(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[[], tuple[int, str]]:
    """The whole command on the repository, without workers of its own."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, (quick.ROOT, quick.ROOT / "operator"))))
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)

    def main() -> tuple[int, str]:
        status = quick.main(["--built=tests/apiserver"], repository)
        return status, capfd.readouterr().out

    return main


def commit_pages(repository: Path, *tests: str, body: str) -> None:
    """Tests on main, with a kept run of them in which the last one is slow, and a page that changed since."""
    write(repository, {PAGES: "\n\n".join(f"def test_{test}() -> None:\n    {body}\n" for test in tests)})
    git(repository, "commit", "--all", "--message=Tests")
    git(repository, "branch", "--force", "main")
    seconds = dict.fromkeys(tests, 0.1) | {tests[-1]: 60.0}
    kept = {f"{PAGES}::test_{test}": durations.Duration(call, 0.0, 0.0) for test, call in seconds.items()}
    durations.keep(durations.Run("unit", 60.1, kept), repository / ".reports")
    write(repository, {"README.md": "changed"})


def test_the_command_runs_them_and_says_what_it_left_out(repository: Path, run: Callable[[], tuple[int, str]]) -> None:
    commit_pages(repository, "fast", "fast_too", "fast_t", body="pass")
    write(repository, {"Makefile": "changed"})
    status, output = run()
    assert status == 0
    assert "2 passed, 1 deselected" in output
    assert f"Left out: {PAGES}::test_fast_t: take longest, by the last run; run `make test`" in output
    assert "Left out: Makefile: no test belongs to them by name or import; run `make test`" in output
    assert "Left out: lint-imports, mypy: linters of all files; run `make check`" in output


def test_a_test_that_fails_fails_the_command_and_is_skipped_after_the_time(
    repository: Path, run: Callable[[], tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_pages(repository, "wrong", "slow", body="raise ValueError")
    assert run()[0] == 1
    monkeypatch.setattr(quick, "STOP_SECONDS", quick.SECONDS)
    status, output = run()
    assert (status, "1 skipped" in output) == (0, True)
    assert "the time is over; run `make test`" in output


def test_a_weakness_of_a_changed_module_fails_the_command(repository: Path, run: Callable[[], tuple[int, str]]) -> None:
    write(repository, {"bench/figure.py": "import os\n"})
    status, output = run()
    assert (status, "F401" in output) == (1, True)


def test_nothing_runs_where_nothing_changed(run: Callable[[], tuple[int, str]]) -> None:
    status, output = run()
    assert (status, output.startswith("0 files differ from ")) == (0, True)
    assert "passed" not in output
