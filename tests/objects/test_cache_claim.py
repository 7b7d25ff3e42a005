"""The size of the claim that `spec.cache` creates."""

import pytest

from inference_operator.api.cache import CacheSpec
from inference_operator.api.refusal import Refusal
from inference_operator.objects.cache_volume import claim_size
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


@pytest.mark.parametrize(
    ("asked", "model_bytes", "live", "size"),
    [
        (None, 141 * 10**9, None, "142Gi"),
        ("200Gi", 141 * 10**9, None, "200Gi"),
        (None, 141 * 10**9, "300Gi", "300Gi"),
        (None, None, "300Gi", "300Gi"),
    ],
)
def test_a_claim_fits_the_model_and_never_shrinks_by_itself(
    asked: str | None, model_bytes: int | None, live: str | None, size: str
) -> None:
    assert claim_size(CacheSpec(size=asked), model_bytes, live) == size


def test_a_claim_of_unknown_size_is_refused() -> None:
    assert isinstance(claim_size(CacheSpec(), None, None), Refusal)
