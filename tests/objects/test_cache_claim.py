"""The size of the claim that `spec.cache` creates."""

import pytest

from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.outcomes import Planned, Refused
from inference_operator.settings import ModelInspection, Settings
from inference_operator.units import GIB
from tests.testing.builders import inference_deployment, inputs, model_known


@pytest.mark.parametrize(("gib", "fits"), [(0, True), (20, True), (20.1, False)])
def test_a_claim_has_room_for_what_the_job_downloads_and_not_only_for_what_engines_load(
    gib: float, *, fits: bool
) -> None:
    """Qwen3-8B has 15.3 GiB of weights. An inspection before this figure existed tells 0."""
    raw = inference_deployment(cache={"size": "30Gi"})
    children = [model_known(raw, download_bytes=int(gib * GIB))]
    found = outcome(inputs(raw, children=children, settings=Settings(model_inspection=ModelInspection.ALWAYS)))
    assert isinstance(found, Planned) == fits
    if not fits:
        assert isinstance(found, Refused)
        assert "`30Gi` is too small: the model has 20.1 GiB" in found.refusal.message
        assert found.refusal.cure == "Set at least `31Gi`, or remove it."
