"""The pinned pod template: serving engines keep it when another operator release would build another one.

Settings that change every engine pod stand for the other release.
"""

import json
from dataclasses import replace

import pytest

from inference_operator.manifest import Manifest
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.outcomes import Planned
from inference_operator.settings import Settings
from inference_operator.views.pod import TEMPLATE_HASH_ANNOTATION, PodView
from inference_operator.views.pod_startup import PodStartup, StartupStage
from inference_operator.workload.pinned_template import ENGINE_PIN
from tests.testing.builders import ENGINES, NOW, SETTINGS, inference_deployment, inputs, planned
from tests.testing.random_specs import Specs

SURGE = {"strategy": "Surge"}
"""This strategy needs no lookup of free GPUs."""
RAW = inference_deployment(rollout=SURGE)
MADE = planned(RAW).desired
LATER = Settings(dns_staleness_seconds=77, image_pull_policy="Always")
"""They change the preStop hook and the image pull policy."""
SPECS = 120

SERVES = PodView(
    "qwen-engine-a",
    "engine",
    NOW,
    ready=True,
    terminating=False,
    failed=False,
    problem=None,
    template=MADE[ENGINES]["spec"]["template"]["metadata"]["annotations"][TEMPLATE_HASH_ANNOTATION],
    traffic=True,
)
BUSY = replace(SERVES, ready=False, start=PodStartup(StartupStage.PROCESS, NOW, None, answered=True))


def later(raw: Manifest, *pods: PodView, engines: Manifest = MADE[ENGINES]) -> Planned:
    """The plan of a later release for the children of an earlier one."""
    children = {**MADE, ENGINES: engines}
    result = outcome(inputs(raw, children=children.values(), pods=pods, settings=LATER))
    assert isinstance(result, Planned)
    return result


def template(result: Planned) -> Manifest:
    made: Manifest = result.desired[ENGINES]["spec"]["template"]
    return made


def inputs_hash(engines: Manifest) -> str:
    kept = ENGINE_PIN.read(engines)
    assert kept
    assert kept.content.template == engines["spec"]["template"]
    return kept.inputs_hash


@pytest.mark.parametrize("pod", [SERVES, BUSY], ids=["ready", "busy"])
def test_serving_engines_keep_their_template_after_an_upgrade_with_a_notice(pod: PodView) -> None:
    result = later(RAW, pod)
    assert template(result) == MADE[ENGINES]["spec"]["template"]
    assert "Engines keep their current pod template" in result.notice
    assert result.desired[ENGINES]["metadata"]["annotations"] == MADE[ENGINES]["metadata"]["annotations"]


@pytest.mark.parametrize(
    "pods",
    [
        (),
        (replace(SERVES, ready=False, start=PodStartup(StartupStage.PROCESS, NOW, None)),),
        (replace(SERVES, terminating=True),),
        (replace(SERVES, template="of another"),),
    ],
    ids=["no pod", "starting", "terminating", "earlier template"],
)
def test_the_new_template_is_used_when_no_engine_serves(pods: tuple[PodView, ...]) -> None:
    result = later(RAW, *pods)
    assert template(result) == template(planned(RAW, settings=LATER)) != MADE[ENGINES]["spec"]["template"]
    assert result.notice == ""


def test_an_edit_of_the_pod_template_takes_the_new_template() -> None:
    edited = inference_deployment(rollout=SURGE, podTemplate={"annotations": {"example.com/renewed": "1"}})
    assert template(later(edited, SERVES)) == template(planned(edited, settings=LATER))


def test_an_edit_of_the_hosts_of_media_takes_the_new_template_and_keeps_the_plan() -> None:
    edited = inference_deployment(rollout=SURGE, engine={"multimodal": {"allowedDomains": ["images.example.com"]}})
    result = later(edited, SERVES)
    assert "images.example.com" in template(result)["spec"]["containers"][0]["args"]
    assert result.plan == planned(RAW).plan


@pytest.mark.parametrize(
    "asked", [{"replicas": 3}, {"router": {"replicas": 3}}, {"rollout": {"strategy": "Replace"}}, {"paused": False}]
)
def test_an_edit_outside_the_pod_template_keeps_the_pinned_template(asked: Manifest) -> None:
    result = later(inference_deployment(**{"rollout": SURGE, **asked}), SERVES)
    assert template(result) == MADE[ENGINES]["spec"]["template"]


def test_a_template_annotation_with_other_whitespace_is_read_and_stays_unchanged() -> None:
    engines = MADE[ENGINES]
    text = json.dumps(json.loads(engines["metadata"]["annotations"][ENGINE_PIN.key]), indent=1)
    annotations = {**engines["metadata"]["annotations"], ENGINE_PIN.key: text}
    result = later(RAW, SERVES, engines={**engines, "metadata": {**engines["metadata"], "annotations": annotations}})
    assert template(result) == engines["spec"]["template"]
    assert result.desired[ENGINES]["metadata"]["annotations"][ENGINE_PIN.key] == text


@pytest.mark.parametrize(
    "text",
    ["", "no JSON", "{}", "[]", "{", '{"template": 1}', "[" * 100_000],
    ids=["empty", "no JSON", "no keys", "a list", "invalid JSON", "no hashes", "deep JSON"],
)
def test_an_invalid_template_annotation_gives_the_new_template(text: str) -> None:
    broken = {**MADE[ENGINES]["metadata"]["annotations"], ENGINE_PIN.key: text}
    engines = {**MADE[ENGINES], "metadata": {**MADE[ENGINES]["metadata"], "annotations": broken}}
    assert template(later(RAW, SERVES, engines=engines)) == template(planned(RAW, settings=LATER))


def test_the_same_release_builds_the_pinned_template_without_a_notice() -> None:
    result = outcome(inputs(RAW, children=MADE.values(), pods=[SERVES], settings=SETTINGS))
    assert isinstance(result, Planned)
    assert (result.desired, result.notice) == (MADE, "")


def test_engines_with_equal_inputs_hashes_have_equal_pod_templates() -> None:
    """Otherwise an edit would have no effect while engines are ready."""
    source, seen = Specs(0), dict[str, Manifest]()
    for _ in range(SPECS):
        spec = source.valid()
        for one in (spec, {**spec, "replicas": 1}, {name: value for name, value in spec.items() if name != "env"}):
            result = outcome(inputs(inference_deployment(source="", **one)))
            if isinstance(result, Planned) and ENGINES in result.desired:
                engines = result.desired[ENGINES]
                assert seen.setdefault(inputs_hash(engines), engines["spec"]["template"]) == engines["spec"]["template"]
    assert len(seen) > 1
