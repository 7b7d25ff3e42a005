"""The tables of the architecture page have each package and each decision record."""

import re

from inference_operator.pipeline.part import Feature
from tests.documents.test_documents import REPOSITORY

PAGE = (REPOSITORY / "docs" / "explanation" / "architecture.md").read_text()
PACKAGE = REPOSITORY / "operator" / "inference_operator"


def test_each_package_has_a_row_that_says_what_it_holds() -> None:
    section = PAGE[PAGE.index("| package | holds |") :].partition("\n\n")[0]
    rows = [name for line in section.splitlines() for name in re.findall(r"`(\w+)`", line.split(" | ")[0])]
    assert sorted(rows) == sorted(path.stem for path in PACKAGE.iterdir() if path.stem[0] != "_" and path.stem != "py")


def test_each_decision_record_has_a_line_in_the_table_of_decisions() -> None:
    section = PAGE[PAGE.index("## 4. Decisions") : PAGE.index("## 5. API")]
    linked = set(re.findall(r"\.\./adr/([\w-]+\.md)", section))
    records = {path.name for path in (REPOSITORY / "docs" / "adr").glob("*.md")}
    assert linked == records - {"0001-record-architecture-decisions.md"}


def test_the_table_of_parts_has_each_feature_in_the_order_in_which_parts_are_added() -> None:
    section = PAGE[PAGE.index("| part | made by") :].partition("\n\n")[0]
    rows = [name for line in section.splitlines()[2:] for name in line.split(" | ")[0].strip("| ").split(", ")]
    assert rows == [feature.value for feature in Feature]
