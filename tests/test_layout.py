"""The shape of the repository."""

import ast
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import inference_operator

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "operator" / "inference_operator"
CODE = [path for top in ("operator", "e2e", "bench", "tests", "docs") for path in sorted((ROOT / top).rglob("*.py"))]
OPERATOR = [path for path in CODE if path.is_relative_to(PACKAGE)]
MOST_LINES = 300
MOST_LINES_OF_A_FUNCTION = 40
WORDS_OF_VLLM = re.compile(r"vllm:|--max-num-")


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_nothing_hides_the_standard_librarys_operator() -> None:
    assert not (ROOT / "operator" / "__init__.py").exists()
    assert not list(ROOT.glob("operator.py"))
    assert "operator.py" not in {path.name for path in CODE}


def test_only_the_package_is_in_operator() -> None:
    assert [path.name for path in (ROOT / "operator").iterdir() if path.name != "__pycache__"] == [PACKAGE.name]


@pytest.mark.parametrize("path", CODE, ids=name)
def test_a_module_has_one_reason_to_change(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= MOST_LINES


@pytest.mark.parametrize("path", OPERATOR, ids=name)
def test_a_function_fits_a_screen(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            documented = ast.get_docstring(node) or ""
            length = (node.end_lineno or 0) - node.lineno - len(documented.splitlines())
            assert length <= MOST_LINES_OF_A_FUNCTION, f"{node.name} has {length} lines"


@pytest.mark.parametrize("path", [path for path in OPERATOR if "engines" not in path.parts], ids=name)
def test_words_of_vllm_stand_in_engines_only(path: Path) -> None:
    assert not WORDS_OF_VLLM.search(path.read_text())


@pytest.mark.parametrize("path", OPERATOR, ids=name)
def test_there_is_no_room_for_everything(path: Path) -> None:
    assert not {"utils", "util", "helpers", "common", "misc"} & {path.stem, path.parent.name}


def test_what_git_ignores_can_be_no_room() -> None:
    rooms = {path.name for path in PACKAGE.iterdir()}
    for line in (ROOT / ".gitignore").read_text().splitlines():
        if line and not line.startswith(("#", "/")):
            assert line.strip("/") not in rooms - {"__pycache__"}, f"{line}: anchor it with /"


def test_every_room_says_what_it_is_for() -> None:
    for module in pkgutil.walk_packages(inference_operator.__path__, "inference_operator."):
        assert (importlib.import_module(module.name).__doc__ or "").strip(), module.name


@pytest.mark.parametrize("tool", ["cluster", "images", "demo"])
def test_the_clusters_tools_know_nothing_of_the_operator(tool: str) -> None:
    for path in (ROOT / "e2e" / tool).rglob("*.py"):
        assert "inference_operator" not in {
            module.partition(".")[0]
            for node in ast.walk(ast.parse(path.read_text()))
            for module in (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
        }
