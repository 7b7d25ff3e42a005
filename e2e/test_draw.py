"""Whole public configs with options on kinds of GPU, drawn at random: plan and vLLM refuse the same ones."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from e2e.engines import draw, vllm_options
from inference_operator.manifest import Manifest

PAIRS, MANY = 750, 5000
LEAST_REFUSED, LEAST_HITS = 0.3, 10
LEAST_AGREEMENT = 0.99
MOST_UNTOLD = 0.03
"""Share of pairs about which the stand-ins tell nothing."""


class Drawn(NamedTuple):
    """Pairs with what vLLM says of each."""

    pairs: Sequence[draw.Pair]
    results: Sequence[Manifest]


def compared(count: int, folder: Path) -> Drawn:
    """So many pairs."""
    pairs = draw.drawn(count, folder / "models")
    return Drawn(pairs, vllm_options.derived([pair.given for pair in pairs], folder, tables=False)["derived"])


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Drawn:
    return compared(PAIRS, tmp_path_factory.mktemp("draw"))


def check_refusals(drawn: Drawn) -> None:
    """VLLM refuses many pairs, each rule of it many of them, and no refusal is of an unknown rule."""
    errors = [result["error"] for result in drawn.results if "error" in result]
    told = [error for error in errors if not draw.CANNOT.search(error)]
    assert len(errors) - len(told) <= MOST_UNTOLD * len(drawn.pairs), set(errors) - set(told)
    assert len(told) >= LEAST_REFUSED * len(drawn.pairs)
    hits = Counter(map(draw.rule_of, told))
    assert not hits[""], [error for error in told if not draw.rule_of(error)]
    assert {rule: hits[rule] for rule in draw.RULES if hits[rule] < LEAST_HITS} == {}


def check_agreement(drawn: Drawn) -> set[str]:
    """Every difference is listed, and few pairs are refused by vLLM alone; the reasons of those that are."""
    listed, reasons, missed = draw.known(), set(), []
    for pair, said in draw.differences(drawn.pairs, drawn.results):
        line = f"{pair.name}: {said}"
        found = [reason for pattern, reason in listed.items() if pattern.search(line)]
        reasons |= {*found}
        if not found:
            missed.append(line)
        elif not pair.refusal:
            missed.append(found[0])
    new = [line for line in missed if line not in listed.values()]
    assert not new, new
    assert 1 - len(missed) / len(drawn.pairs) >= LEAST_AGREEMENT, Counter(missed)
    return reasons


def test_every_rule_of_vllm_refuses_some_pairs(few: Drawn) -> None:
    check_refusals(few)


def test_plan_and_vllm_agree_about_pairs_drawn_at_random(few: Drawn) -> None:
    check_agreement(few)


@pytest.mark.full
def test_plan_and_vllm_agree_about_many_pairs_and_every_listed_difference_is_there(tmp_path: Path) -> None:
    drawn = compared(MANY, tmp_path)
    check_refusals(drawn)
    assert check_agreement(drawn) == {*draw.known().values()}, "remove the lines of the others"
