"""Engines of an earlier release: in the owner's window, and by the user's edit."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from inference_operator.api.pod_template import RENEWED_ANNOTATION
from inference_operator.api.reasons import Reason
from inference_operator.fleet.rollout_slots import TURN_ANNOTATION, Fleet, FleetState
from inference_operator.manifest import Manifest, Ref
from inference_operator.objects.names import ENGINE
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.inputs import Shared
from inference_operator.pipeline.outcomes import Planned
from inference_operator.pipeline.renewal import renewal_due
from inference_operator.settings import Settings
from inference_operator.views.pod import PodView, pod_template_hash
from tests.testing.builders import ENGINES, NOW, SETTINGS, deployment_status, inference_deployment, inputs, planned


def settled(desired: Mapping[Ref, Manifest]) -> dict[Ref, Manifest]:
    """The objects with a Deployment of engines that has reached its template."""
    engines = desired[ENGINES]
    meta = {**engines["metadata"], "generation": 1}
    return {**desired, ENGINES: {**engines, "metadata": meta, "status": deployment_status(1)}}


RAW = inference_deployment()
MADE = settled(planned(RAW).desired)
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
    result = outcome(replace(observed, shared=Shared(fleet)) if fleet else observed)
    assert isinstance(result, Planned), result
    return result


@pytest.mark.parametrize("settings", [later(), OPEN, later(renewal=CLOSED)], ids=["pinned", "never open", "closed"])
def test_engines_keep_what_they_have_outside_of_the_window(settings: Settings) -> None:
    result = decided(settings)
    assert result.desired == planned(RAW).desired
    assert result.fleet_state is FleetState.DONE
    assert "v9.9.9" in result.notice
    assert ("The operator renews them from" in result.notice) is (settings.rollouts.renewal is not None)


def test_they_get_the_image_of_the_release_and_keep_their_sizes_in_the_window() -> None:
    settings = later(renewal=WINDOW)
    result = decided(settings)
    assert image(result) == settings.gpu_engine_image
    assert result.plan.plan == planned(RAW).plan.plan
    assert TURN_ANNOTATION.key in result.desired[ENGINES]["metadata"]["annotations"]
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
    assert result.desired == planned(RAW).desired
    assert result.fleet_state is FleetState.WAITING


def test_an_edit_of_the_user_in_the_window_is_no_turn_of_the_owner() -> None:
    edited = inference_deployment(engine={"args": ["--enforce-eager"]})
    for fleet in (Fleet(), Fleet(is_stopped=True)):
        observed = inputs(edited, children=MADE.values(), settings=later(renewal=WINDOW))
        result = outcome(replace(observed, shared=Shared(fleet)))
        assert isinstance(result, Planned)
        assert TURN_ANNOTATION.key not in result.desired[ENGINES]["metadata"]["annotations"]
        assert result.fleet_state is FleetState.DONE


def test_nothing_is_renewed_while_a_rollout_is_under_way() -> None:
    rolling = {**MADE[ENGINES], "status": deployment_status(2, updated=1, ready=1)}
    observed = inputs(RAW, children={**MADE, ENGINES: rolling}.values(), settings=later(renewal=WINDOW))
    result = outcome(observed)
    assert isinstance(result, Planned)
    assert image(result) == MADE[ENGINES]["spec"]["template"]["spec"]["containers"][0]["image"]


def test_an_image_that_cannot_run_the_specification_renews_nothing() -> None:
    asked = inference_deployment(engine={"args": ["--no-such-argument"]})
    allowed = Settings(gpu_engine_image="example.com/own:1", allowed_arguments=["--no-such-argument"])
    made = settled(planned(asked, settings=allowed).desired)
    known = Settings(
        gpu_engine_image=SETTINGS.gpu_engine_image,
        allowed_arguments=["--no-such-argument"],
        rollouts={"renewal": WINDOW},
    )
    result = outcome(inputs(asked, children=made.values(), settings=known))
    assert isinstance(result, Planned), result
    assert image(result) == "example.com/own:1"
    assert result.fleet_state is FleetState.DONE


def test_a_renewal_follows_the_settings_also_after_the_window() -> None:
    bad = decided(later(renewal=WINDOW))
    reverted = Settings(gpu_engine_image=SETTINGS.gpu_engine_image, rollouts={"renewal": CLOSED})
    result = outcome(inputs(RAW, children=bad.desired.values(), settings=reverted))
    assert isinstance(result, Planned)
    assert image(result) == SETTINGS.gpu_engine_image


def test_it_is_due_when_the_window_opens_and_when_it_closes() -> None:
    for window in (CLOSED, WINDOW):
        assert renewal_due(later(renewal=window), NOW) == SOON.replace(second=0, microsecond=0)


@pytest.mark.parametrize(
    "wrong",
    [{"start": "0 2 * * *"}, {"start": "0 2 * *", "end": "0 5 * * *"}, {**WINDOW, "timeZone": "Mars/Olympus"}],
    ids=["no end", "four fields", "no zone"],
)
def test_a_wrong_window_is_an_error_in_the_settings(wrong: Manifest) -> None:
    with pytest.raises(ValueError, match="validation error"):
        later(renewal=wrong)


# A renewal that the user asks for


def asked(value: str) -> Manifest:
    """The resource after the edit of `infd renew`."""
    return inference_deployment(podTemplate={"annotations": {RENEWED_ANNOTATION: value}})


def test_what_engines_keep_is_outdated_and_the_notice_names_the_command() -> None:
    result = decided(later())
    assert result.outdated_engines is Reason.ENGINES_OUTDATED
    assert "To renew engines one by one, run `infd renew --engines -n default qwen`." in result.notice
    assert planned(RAW).outdated_engines is None


def test_an_image_with_known_vulnerabilities_is_so_only_where_a_renewal_brings_another_one() -> None:
    old = Settings(gpu_engine_image="docker.io/vllm/vllm-openai:v0.30.0")
    made = settled(planned(RAW, settings=old).desired)
    result = outcome(inputs(RAW, children=made.values(), settings=SETTINGS))
    assert isinstance(result, Planned)
    assert result.outdated_engines is Reason.ENGINES_VULNERABLE
    again = outcome(inputs(RAW, children=made.values(), settings=old))
    assert isinstance(again, Planned)
    assert (again.outdated_engines, bool(again.advisories)) == (None, True)


def test_the_edit_of_a_renewal_brings_image_and_template_of_this_release_to_a_serving_engine_and_keeps_its_sizes() -> (
    None
):
    surge = {"strategy": "Surge"}
    raw = inference_deployment(rollout=surge)
    edited = inference_deployment(rollout=surge, podTemplate={"annotations": {RENEWED_ANNOTATION: "7"}})
    made = settled(planned(raw).desired)
    template = pod_template_hash(made[ENGINES]["spec"]["template"]["metadata"])
    engine = PodView("qwen-engine-a", ENGINE, NOW, ready=True, terminating=False, failed=False, problem=None)
    pods = [replace(engine, template=template)]
    added = {"podTemplate": {"annotations": {"example.com/later": "yes"}}}
    settings = Settings(gpu_engine_image="docker.io/vllm/vllm-openai:v9.9.9", engine_defaults=added)
    kept = outcome(inputs(raw, children=made.values(), pods=pods, settings=settings))
    assert kept.desired[ENGINES] == planned(raw).desired[ENGINES]

    result = outcome(inputs(edited, children=made.values(), pods=pods, settings=settings))
    assert isinstance(result, Planned)
    assert result.desired[ENGINES]["spec"]["template"]["metadata"]["annotations"]["example.com/later"] == "yes"
    assert image(result) == settings.gpu_engine_image
    assert result.plan.plan == planned(raw).plan.plan
    assert TURN_ANNOTATION.key not in result.desired[ENGINES]["metadata"]["annotations"]
    assert (result.outdated_engines, result.notice) == (None, "")


def test_a_renewal_is_one_and_the_next_release_is_kept_out_again_until_the_next_edit() -> None:
    renewed = settled(outcome(inputs(asked("7"), children=MADE.values(), settings=later())).desired)
    newest = Settings(gpu_engine_image="docker.io/vllm/vllm-openai:v10.0.0")
    for value, expected in (("7", later().gpu_engine_image), ("9", newest.gpu_engine_image)):
        result = outcome(inputs(asked(value), children=renewed.values(), settings=newest))
        assert isinstance(result, Planned)
        assert image(result) == expected


def test_another_annotation_of_pods_brings_no_other_image() -> None:
    edited = inference_deployment(podTemplate={"annotations": {"example.com/a": "b"}})
    result = outcome(inputs(edited, children=MADE.values(), settings=later()))
    assert isinstance(result, Planned)
    assert image(result) == image(planned(RAW))
