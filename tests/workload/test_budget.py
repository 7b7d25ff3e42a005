"""How many pods a disruption budget keeps: the table of all cases."""

from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_operator.workload.eviction.budget import Disruption


@dataclass(frozen=True)
class Case:
    name: str
    keeps: int | None
    disruption: Disruption


def decided(name: str, keeps: int | None, **fields: object) -> Case:
    return Case(name, keeps, Disruption(**{"wanted": 1, **fields}))  # type: ignore[arg-type]


def undecided(name: str, keeps: int | None, **fields: object) -> Case:
    return decided(f"undecided: {name}", keeps, **{"existing": 1, **fields})


CASES = (
    decided("the only engine, which may go", None, serving=(1,)),
    decided("several engines", None, wanted=3, serving=(1, 1, 1)),
    decided("the only engine is kept", 1, serving=(1,), refuses=True),
    decided("the only engine starts", 1, refuses=True),
    decided("the only group is kept", 4, planned_pods=4, serving=(4,), refuses=True),
    decided("the only group is kept until its smaller successor serves", 4, serving=(4,), refuses=True),
    decided("the only engine is kept while a larger successor starts", 4, planned_pods=4, serving=(1,), refuses=True),
    decided("the only engine moves", 1, serving=(1,), leaves=True, refuses=True),
    decided("three engines move", 3, wanted=3, serving=(1, 1, 1), leaves=True, refuses=True),
    decided("the only group moves", 7, planned_pods=4, serving=(4,), leaves=True, refuses=True),
    decided("two groups move", 11, wanted=2, planned_pods=4, serving=(4, 4), leaves=True, refuses=True),
    decided("nothing is awaited for the only engine", 0, serving=(1,), leaves=True),
    decided("nothing is awaited, and its successor serves", 1, serving=(1, 1), leaves=True),
    decided("nothing is awaited for three engines", 2, wanted=3, serving=(1, 1, 1), leaves=True),
    decided("nothing is awaited, and one of three serves", 2, wanted=3, serving=(1,), leaves=True),
    decided("nothing is awaited for the only group", 3, planned_pods=4, serving=(4,), leaves=True),
    decided("nothing is awaited for engines of two sizes", 4, planned_pods=4, serving=(1, 4), leaves=True),
    undecided("nothing leaves, and no budget stands", None, serving=(1,), refuses=True),
    undecided("nothing leaves, and the budget of the only one stays", 1, serving=(1,), refuses=True, kept=1),
    undecided("a budget of a move stays", 7, serving=(4,), refuses=True, kept=7),
    undecided("the switch ends the budget", None, serving=(1,), kept=1),
    undecided("the only one leaves", 0, serving=(1,), leaves=True, refuses=True, kept=1),
    undecided("the only group leaves", 3, serving=(4,), leaves=True, refuses=True, kept=4),
    undecided("nothing serves, so all may go", 0, leaves=True, refuses=True, kept=1),
    undecided("two of three exist", 1, wanted=3, existing=2, serving=(1, 1), leaves=True, kept=3),
    undecided("a temporary one still serves", 1, existing=2, serving=(1, 1), leaves=True, kept=1),
    undecided("none is wanted, and one still serves", 0, wanted=0, serving=(1,), leaves=True, kept=1),
    undecided("several were kept", None, wanted=2, existing=2, serving=(1, 1), refuses=True, kept=3),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_law_of_budgets(case: Case) -> None:
    assert case.disruption.keeps == case.keeps


SIZES = st.sampled_from([1, 2, 4])
DISRUPTIONS = st.builds(
    Disruption,
    wanted=st.integers(1, 4),
    planned_pods=SIZES,
    serving=st.lists(SIZES, max_size=5).map(tuple),
    leaves=st.booleans(),
    refuses=st.booleans(),
    existing=st.none(),
    kept=st.none(),
)


@given(DISRUPTIONS)
def test_a_drain_ends_where_nothing_is_refused_and_takes_one_pod_at_a_time(disruption: Disruption) -> None:
    healthy = sum(disruption.serving)
    keeps = replace(disruption, leaves=True, refuses=False).keeps
    assert keeps is not None
    assert healthy - keeps <= 1, "with one pod its whole group ends"
    enough = healthy >= disruption.wanted * min(disruption.serving, default=disruption.planned_pods)
    assert not (healthy and enough) or healthy - keeps == 1, "no drain waits for what nobody awaits"


@given(DISRUPTIONS)
def test_a_refused_eviction_takes_no_pod_of_the_engines_that_are_wanted(disruption: Disruption) -> None:
    keeps = replace(disruption, refuses=True).keeps
    pods = max([disruption.planned_pods, *disruption.serving])
    assert keeps is not None
    assert keeps >= disruption.wanted * pods


@given(DISRUPTIONS, st.integers(0, 5), st.integers(0, 8))
def test_where_nothing_is_decided_a_leaving_node_opens_every_budget(
    disruption: Disruption, existing: int, kept: int
) -> None:
    opened = replace(disruption, leaves=True, existing=existing, kept=kept)
    assert opened.keeps == replace(opened, refuses=False, kept=None).keeps
