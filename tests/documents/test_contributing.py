"""Every file and folder that CONTRIBUTING.md names exists."""

import re
from pathlib import Path

from tests.documents.test_documents import PACKAGE, REPOSITORY

CODE = re.compile(r"`([^`]+)`")
PATH = re.compile(r"[\w.*-]+(?:/[\w.*…-]+)*/?")
ENDINGS = (".py", ".md", ".json", ".yaml", ".tpl", ".txt", ".mod", ".j2", ".lua", "/")
BUILT = {"dist/"}
"""Folders that a command makes."""


def files(path: str) -> list[Path]:
    """The files that a path means: below the package, or below the repository."""
    pattern = path.replace("…", "*").replace("NNNN", "*").rstrip("/")
    return [*PACKAGE.glob(pattern), *REPOSITORY.glob(pattern)]


def test_the_files_that_the_page_names_exist() -> None:
    named = CODE.findall((REPOSITORY / "CONTRIBUTING.md").read_text())
    paths = [path for path in named if PATH.fullmatch(path) and path.endswith(ENDINGS)]
    assert [path for path in paths if path not in BUILT and not files(path)] == []
