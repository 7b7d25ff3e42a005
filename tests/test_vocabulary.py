"""Public class names are unique in the package."""

import ast
from collections import Counter
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "operator" / "inference_operator"


def duplicate_classes(package: Path) -> set[str]:
    """Names of public classes that several modules of a package define."""
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in sorted(package.rglob("*.py")))
    names = (node.name for tree in trees for node in tree.body if isinstance(node, ast.ClassDef))
    return {name for name, number in Counter(names).items() if number > 1 and not name.startswith("_")}


def test_public_class_names_are_unique_in_the_package() -> None:
    assert not duplicate_classes(PACKAGE)


def test_a_duplicate_public_class_name_is_reported(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("class Queue: ...\nclass _Item: ...\n")
    (tmp_path / "b.py").write_text("class Queue: ...\nclass _Item: ...\n")
    assert duplicate_classes(tmp_path) == {"Queue"}
