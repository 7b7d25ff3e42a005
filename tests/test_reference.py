from collections.abc import Callable
from pathlib import Path

import pytest

from docs.generate import REFERENCE, arguments, reasons
from inference_operator.api.reasons import EXPLANATIONS, Reason

PAGE = REFERENCE / "reasons.md"


@pytest.mark.parametrize(("name", "page"), [("reasons", reasons), ("arguments", arguments)])
def test_the_committed_page_is_the_generated_one(name: str, page: Callable[[], str]) -> None:
    assert (REFERENCE / f"{name}.md").read_text() == page(), "stale: run `make crd`"


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_has_one_row(reason: Reason) -> None:
    rows = [line for line in reasons().splitlines() if line.startswith(f"| `{reason}` |")]
    assert rows == [f"| `{reason}` | {EXPLANATIONS[reason].cause} | {EXPLANATIONS[reason].cure} |"]
    assert rows[0].count(" | ") == 2


def test_it_stands_where_the_other_pages_look_for_it() -> None:
    assert Path(__file__).parents[1] / "docs" / "reference" / "reasons.md" == PAGE
