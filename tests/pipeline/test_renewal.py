"""Engines of an earlier release in the owner's window."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from inference_operator.fleet.brake import Fleet, FleetState
from inference_operator.fleet.turn import TURN_ANNOTATION
from inference_operator.manifest import Manifest
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.outcomes import Planned
from inference_operator.settings import Settings
from tests.testing.builders import ENGINES, NOW, inference_deployment, inputs, planned

RAW = inference_deployment()
MADE = planned(RAW).desired
SOON = NOW + timedelta(hours=2)


def later(**rollouts: Any) -> Settings:  # noqa: ANN401 - JSON
    """The settings of a later release."""
    return Settings(gpu_engine_image="docker.io/vllm/vllm-openai:v9.9.9", rollouts=rollouts)


OPEN = later(renewal={"start": "* * * * *", "end": f"{SOON:%M %H} * * *"})
"""A window that opens each minute would never be open: its next start always comes first. So this one is closed."""
WINDOW = {"start": f"{SOON - timedelta(hours=4):%M %H} * * *", "end": f"{SOON:%M %H} * * *"}
CLOSED = {"start": f"{SOON:%M %H} * * *", "end": f"{SOON + timedelta(hours=1):%M %H} * * *"}


def image(result: Planned) -> str:
    found: str = result.desired[ENGINES]["spec"]["template"]["spec"]["containers"][0]["image"]
    return found


def decided(settings: Settings, fleet: Fleet | None = None) -> Planned:
    """What is decided about an engine of the earlier release."""
    observed = inputs(RAW, children=MADE.values(), settings=settings)
    result = outcome(replace(observed, fleet=fleet) if fleet else observed)
    assert isinstance(result, Planned), result
    return result


@pytest.mark.parametrize("settings", [later(), OPEN, later(renewal=CLOSED)], ids=["pinned", "never open", "closed"])
def test_engines_keep_what_they_have_outside_of_the_window(settings: Settings) -> None:
    result = decided(settings)
    assert result.desired == MADE
    assert result.fleet_state is FleetState.DONE
    assert "v9.9.9" in result.notice
    assert ("The operator renews them from" in result.notice) is (settings.rollouts.renewal is not None)


def test_they_get_the_image_of_the_release_and_keep_their_sizes_in_the_window() -> None:
    settings = later(renewal=WINDOW)
    result = decided(settings)
    assert image(result) == settings.gpu_engine_image
    assert result.plan.plan == planned(RAW).plan.plan
    assert TURN_ANNOTATION in result.desired[ENGINES]["metadata"]["annotations"]
    assert result.fleet_state is FleetState.ROLLING
    assert result.notice == ""
    again = outcome(inputs(RAW, children=result.desired.values(), settings=settings))
    assert isinstance(again, Planned)
    assert image(again) == settings.gpu_engine_image
    assert again.plan == result.plan


def test_the_new_image_stays_after_the_window() -> None:
    result = decided(later(renewal=WINDOW))
    after = outcome(inputs(RAW, children=result.desired.values(), settings=later(renewal=CLOSED)))
    assert isinstance(after, Planned)
    assert image(after) == image(result)


@pytest.mark.parametrize("fleet", [Fleet(is_stopped=True), Fleet(rolling=10)], ids=["stopped", "enough are rolling"])
def test_they_wait_in_the_window_while_the_brake_holds_them(fleet: Fleet) -> None:
    result = decided(later(renewal=WINDOW), fleet)
    assert result.desired == MADE
    assert result.fleet_state is FleetState.WAITING


def test_it_is_decided_again_when_the_window_opens_and_when_it_closes() -> None:
    for window, due in ((CLOSED, SOON), (WINDOW, SOON)):
        recheck = decided(later(renewal=window), Fleet(is_stopped=True)).recheck_at
        assert recheck is not None
        assert recheck <= due.replace(second=0, microsecond=0)


@pytest.mark.parametrize(
    "wrong",
    [{"start": "0 2 * * *"}, {"start": "0 2 * *", "end": "0 5 * * *"}, {**WINDOW, "timeZone": "Mars/Olympus"}],
    ids=["no end", "four fields", "no zone"],
)
def test_a_wrong_window_is_an_error_in_the_settings(wrong: Manifest) -> None:
    with pytest.raises(ValueError, match="validation error"):
        later(renewal=wrong)
