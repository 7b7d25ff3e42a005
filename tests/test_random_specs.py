"""Random specs: valid ones become valid objects or are refused with a reason; invalid ones are refused."""

from collections import Counter

import pytest

from inference_operator.manifest import Manifest
from inference_operator.objects.child import content_hash, manifest_hash
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.outcomes import NeedsInspection, Paused, Planned, Refused
from tests.testing.builders import inference_deployment, inputs, model_known
from tests.testing.random_specs import Specs
from tests.testing.schemas import validate

VALID, SPOILED = 300, 500


def asked(spec: Manifest) -> Manifest:
    return {**inference_deployment(), "spec": spec}


def test_valid_random_specs_give_children_that_are_valid_for_kubernetes() -> None:
    source, found = Specs(seed=1), Counter[str]()
    for _ in range(VALID):
        result = outcome(inputs(asked(source.valid())))
        found[type(result).__name__] += 1
        assert not isinstance(result, Refused) or result.refusal.message
        for child in result.desired.values():
            validate(child)
            assert content_hash(child) == manifest_hash(child)
    assert found["Planned"] > VALID / 5, found


def test_random_specs_whose_prompts_are_computed_apart_are_not_refused_for_that() -> None:
    source, found = Specs(seed=2), Counter[str]()
    for _ in range(20):
        apart = source.valid_disaggregation()
        result = outcome(inputs(asked(apart), children=(model_known(asked(apart), commit="0" * 40),)))
        found[type(result).__name__] += 1
        assert not isinstance(result, Refused) or "disaggregation" not in result.refusal.message, apart
    assert found["Planned"] >= 5, found


@pytest.mark.parametrize("seed", range(4))
def test_most_invalid_random_specs_are_refused_and_no_random_spec_raises(seed: int) -> None:
    source, refused = Specs(seed), 0
    for _ in range(SPOILED // 4):
        result = outcome(inputs(asked(source.spoiled())))
        assert isinstance(result, Planned | Refused | NeedsInspection | Paused)
        if isinstance(result, Refused):
            assert all(one.field.startswith("spec") for one in result.refusal.mistakes)
            assert "\n" not in result.refusal.message
            refused += 1
    assert refused > SPOILED // 4 * 0.8


def test_random_specs_of_the_same_seed_are_equal() -> None:
    one, other = Specs(seed=3), Specs(seed=3)
    assert [one.any() for _ in range(20)] == [other.any() for _ in range(20)]
