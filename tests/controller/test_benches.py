"""Benches of reconciling measure resources that serve, and none that waits for an inspection of its model."""

from collections import Counter

import pytest

from bench import decide
from bench.many_resources import SPEC, namespace_of
from bench.reconcile import LIMIT, Resources, bare_children
from inference_operator.manifest import CONFIG_MAP, DEPLOYMENT, DISRUPTION_BUDGET, SERVICE


@pytest.mark.parametrize("routers", [1, 2])
def test_the_bare_client_applies_all_children_of_a_resource_and_not_only_the_job_of_an_inspection(routers: int) -> None:
    kinds = Resources(count=1, routers=routers).kinds
    assert kinds == Counter({CONFIG_MAP: 1, SERVICE: 3, DEPLOYMENT: 2, DISRUPTION_BUDGET: 2})


def test_what_the_bare_client_applies_has_no_owner_and_stays_in_its_own_namespace() -> None:
    for child in bare_children(0, SPEC):
        assert child["metadata"]["namespace"] == namespace_of(0, LIMIT)
        assert "ownerReferences" not in child["metadata"]


@pytest.mark.parametrize("name", decide.SPECS)
async def test_the_resources_whose_decisions_are_measured_serve(name: str) -> None:
    figures = decide.measured(name, await decide.serving(decide.SPECS[name]), rounds=1)
    assert all(figure.value > 0 for figure in figures)
