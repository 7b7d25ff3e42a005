import re
from operator import attrgetter
from pathlib import Path

import pytest

from generators import reasons_reference
from generators.api_reference import Row, rows
from generators.engine_rules import RULES, with_engine_rules
from generators.pages import PAGES, REFERENCE, SCOPE, with_promises
from inference_operator.api.crd import structural_schema
from inference_operator.api.explanations import EXPLANATIONS
from inference_operator.api.reasons import Reason
from inference_operator.api.spec import Spec
from tests.testing.for_each import for_each

PAGE = REFERENCE / "reasons.md"
FIELDS = list(rows(structural_schema(Spec)))
LEAVES = [
    row for row in FIELDS if not any(other.path.startswith((f"{row.path}.", f"{row.path}[]")) for other in FIELDS)
]
REASONS_PAGE = reasons_reference.page().splitlines()
ITEMS = re.compile(r"\[\]|\.affinity\.")


@pytest.mark.parametrize("name", PAGES)
def test_the_committed_reference_page_equals_the_generated_page(name: str) -> None:
    assert (REFERENCE / name).read_text() == PAGES[name](), "stale: run `make crd`"


def test_the_committed_recording_rules_equal_those_of_the_tables_of_series() -> None:
    assert RULES.read_text() == with_engine_rules(RULES.read_text()), "stale: run `make crd`"


def test_the_committed_table_of_faults_equals_that_of_the_promises() -> None:
    assert SCOPE.read_text() == with_promises(SCOPE.read_text()), "stale: run `make crd`"


@for_each(LEAVES, named=attrgetter("path"))
def test_every_field_of_the_reference_describes_the_effect_of_a_change(row: Row) -> None:
    assert re.match(r"(in place|rolling restart|immutable)\b", row.change)


@for_each((row for row in LEAVES if not ITEMS.search(row.path)), named=attrgetter("path"))
def test_every_field_of_the_reference_names_its_default(row: Row) -> None:
    assert row.default


@for_each(Reason)
def test_every_reason_has_a_single_row_in_the_reference(reason: Reason) -> None:
    rows = [line for line in REASONS_PAGE if line.startswith(f"| `{reason}` |")]
    assert rows == [f"| `{reason}` | {EXPLANATIONS[reason].cause} | {EXPLANATIONS[reason].cure} |"]
    assert rows[0].count(" | ") == 2


def test_the_reasons_page_is_at_the_path_that_other_pages_link_to() -> None:
    assert Path(__file__).parents[1] / "docs" / "reference" / "reasons.md" == PAGE
