"""The table "to add X, edit Y": the files of each row exist, and only its modules know what the row says is theirs.

The last column of a row names what only its modules know: a symbol, a text, or a module of the operator with a dot in
its name, which only they import. A folder in a row stands for all its modules.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.documents.test_documents import REPOSITORY

PACKAGE = REPOSITORY / "operator" / "inference_operator"
CODE = re.compile(r"`([^`]+)`")
PATH = re.compile(r"[\w.*-]+(?:/[\w.*…-]+)*/?")
ENDINGS = (".py", ".md", ".json", ".yaml", ".tpl", ".txt", ".mod", ".j2", ".lua", "/")


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table."""

    to_add: str
    edit: str
    also: str
    known: str

    @property
    def paths(self) -> list[str]:
        """The files and folders that it names."""
        found = CODE.findall(self.edit + self.also)
        return [path for path in found if PATH.fullmatch(path) and ("/" in path or path.endswith(ENDINGS))]

    @property
    def keys(self) -> list[str]:
        """What only its modules know."""
        return CODE.findall(self.known)


def rows() -> list[Row]:
    section = (REPOSITORY / "CONTRIBUTING.md").read_text().partition("## To add X, edit Y")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")][1:]
    return [Row(*(cell.strip() for cell in line.split("|")[1:-1])) for line in lines]


def found(path: str) -> list[Path]:
    """The files that a path of the table means: below the package, or below a top-level folder."""
    pattern = path.replace("…", "*").replace("NNNN", "*").rstrip("/")
    if (PACKAGE / pattern.partition("/")[0]).exists() or "/" not in pattern:
        return sorted(PACKAGE.glob(pattern)) or sorted(REPOSITORY.glob(pattern))
    return sorted(REPOSITORY.glob(pattern))


@cache
def words(module: Path) -> frozenset[str]:
    """Names, texts and imports of a module; comments and docstrings do not count."""
    tree = ast.parse(module.read_text())
    documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return frozenset(word for node in ast.walk(tree) if id(node) not in documentation for word in _words(node))


def _words(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.keyword(arg=str(name)):
            yield name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.ImportFrom(module=str(module), names=names):
            yield module
            yield from (f"{module}.{alias.name}" for alias in names)
            yield from (alias.name for alias in names)
        case ast.Import(names=names):
            yield from (alias.name for alias in names)
        case _:
            pass


def knows(module: Path, key: str) -> bool:
    whole = re.compile(rf"(?<!\w){re.escape(key)}(?!\w)")
    return any(whole.search(word) for word in words(module))


def modules(row: Row) -> set[Path]:
    """The modules of the operator that a row names."""
    named = {path for name in row.paths for path in found(name)}
    return {module for module in PACKAGE.rglob("*.py") if named & {module, *module.parents}}


def known_in(key: str) -> set[Path]:
    return {module for module in PACKAGE.rglob("*.py") if knows(module, key)}


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.to_add)
def test_the_files_that_a_row_names_exist(row: Row) -> None:
    assert row.paths or CODE.findall(row.edit)
    assert [path for path in row.paths if not found(path)] == []


@pytest.mark.parametrize(
    ("row", "key"),
    [pytest.param(row, key, id=f"{row.to_add}: {key}") for row in rows() for key in row.keys],
)
def test_no_module_beside_those_of_the_row_knows_its_key(row: Row, key: str) -> None:
    knowing, named = known_in(key), modules(row)
    assert knowing & named, f"{key} is unknown"
    assert sorted(str(module.relative_to(PACKAGE)) for module in knowing - named) == []


def test_each_row_that_begins_in_the_operator_has_a_key() -> None:
    inside = [row for row in rows() if any((PACKAGE / path.partition("/")[0]).exists() for path in row.paths[:1])]
    assert [row.to_add for row in inside if not row.keys] == []


def test_the_tests_that_the_page_names_exist() -> None:
    section = (REPOSITORY / "CONTRIBUTING.md").read_text().partition("\n## Tests")[2].partition("\n## ")[0]
    named = [path for path in CODE.findall(section) if path.startswith(("tests/", "e2e/")) and "<" not in path]
    assert len(named) > 60
    assert [path for path in named if not found(path)] == []


def test_a_key_is_found_in_code_and_not_in_documentation(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text('"""About Key."""\n# Key\nfrom a.b import c\ntext = "one Key"\nKeys = 1\n')
    assert knows(module, "Key")
    assert knows(module, "a.b.c")
    assert not knows(module, "About")
