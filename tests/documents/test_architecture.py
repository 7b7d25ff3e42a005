"""The architecture page: its size, and that its tables have each layer, each package and each decision record."""

import re
import tomllib

import inference_operator
from tests.documents.test_documents import REPOSITORY

PAGE = (REPOSITORY / "docs" / "explanation" / "architecture.md").read_text()
PACKAGE = REPOSITORY / "operator" / "inference_operator"
MOST_LINES, WIDEST = 300, 160
GROUP = re.compile(r"^\| \d+\. [^|]+ \| (`.+`) \| [^|`]+ \|$", re.MULTILINE)
GROUP_IN_CODE = re.compile(r"^\d+\. [^:]+: (.+(?:\n   .+)*)$", re.MULTILINE)


def layers() -> list[str]:
    """The layers of the import contract, from the top to the lowest."""
    contracts = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (contract,) = [contract for contract in contracts if contract["type"] == "layers"]
    return list(contract["layers"])


def test_the_page_can_be_read_in_one_sitting() -> None:
    lines = PAGE.splitlines()
    assert len(lines) <= MOST_LINES
    assert [line for line in lines if len(line) > WIDEST] == []


def test_the_table_of_packages_has_the_layers_of_the_import_contract_in_their_order() -> None:
    shown = [layer.strip("`").replace("\\|", "|") for group in GROUP.findall(PAGE) for layer in group.split(" > ")]
    assert shown == layers()
    assert len(GROUP.findall(PAGE)) == 8


def test_the_docstring_of_the_package_lists_the_same_layers() -> None:
    groups = GROUP_IN_CODE.findall(inference_operator.__doc__ or "")
    assert [layer for group in groups for layer in " ".join(group.split()).split(" > ")] == layers()


def test_each_package_has_a_row_that_says_what_it_holds() -> None:
    section = PAGE[PAGE.index("| package | holds |") :].partition("\n\n")[0]
    rows = [name for line in section.splitlines() for name in re.findall(r"`(\w+)`", line.split(" | ")[0])]
    assert sorted(rows) == sorted(path.stem for path in PACKAGE.iterdir() if path.stem[0] != "_" and path.stem != "py")


def test_each_decision_record_has_a_line_in_the_table_of_decisions() -> None:
    section = PAGE[PAGE.index("## 4. Decisions") : PAGE.index("## 5. API")]
    linked = set(re.findall(r"\.\./adr/([\w-]+\.md)", section))
    records = {path.name for path in (REPOSITORY / "docs" / "adr").glob("*.md")}
    assert linked == records - {"0001-record-architecture-decisions.md"}
