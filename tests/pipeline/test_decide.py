"""Decisions of the pipeline, and when a pinned plan is replaced."""

import copy
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from inference_operator.api.reasons import Reason
from inference_operator.manifest import Manifest
from inference_operator.objects.names import ENGINE
from inference_operator.pipeline.contexts import live_roles, role_specs
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.outcomes import Paused, Planned, Refused
from inference_operator.roles.pinned_plan import PLAN_ANNOTATION, PinnedPlan
from inference_operator.settings import Settings
from inference_operator.views.pod import PodProblem, PodView
from tests.testing.builders import CONFIG, ENGINES, NOW, ROUTERS, SETTINGS, inference_deployment, inputs, planned
from tests.testing.everything import POD_TEMPLATE, SCHEDULING
from tests.testing.golden import TEXTS, assert_golden

LATER = Settings(gpu_engine_image="docker.io/vllm/vllm-openai:v9.9.9", cpu_engine_image="example.com/cpu:9")
RAW = inference_deployment()
MADE = planned(RAW).desired
TINY = {"args": ["--enforce-eager"], "maxModelLen": 512, "dtype": "float32"}

GOLDEN = {
    "hub": RAW,
    "cpu-oci": inference_deployment(
        source="oci://localhost/inference-operator/tiny-llama:1",
        hardware={"device": "CPU"},
        engine={
            **TINY,
            "env": [
                {"name": "VLLM_LOGGING_LEVEL", "value": "DEBUG"},
                {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hugging-face", "key": "token"}}},
            ],
            "resources": {"requests": {"cpu": "500m"}, "limits": {"memory": "4Gi"}},
        },
        router={"replicas": 1},
    ),
    "claim": inference_deployment(
        model={"source": "pvc://models/qwen3-8b", "servedName": "qwen3-8b"}, parallelism={"tensor": 1}
    ),
    "tensor-8": inference_deployment(
        source="hf://meta-llama/Llama-3.3-70B-Instruct", parallelism={"tensor": 8}, replicas=2
    ),
    "scheduled": inference_deployment(scheduling=SCHEDULING, parallelism={"tensor": 1}),
    "pod-template": inference_deployment(podTemplate=POD_TEMPLATE),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_golden(name: str, snapshot: SnapshotAssertion) -> None:
    assert_golden(snapshot, planned(GOLDEN[name]).desired.values())


def test_each_long_text_of_golden_manifests_is_named() -> None:
    snapshots = [*Path(__file__).parent.glob("__snapshots__/*/*.yaml"), *TEXTS.iterdir()]
    named = {name for path in snapshots for name in re.findall(r"golden_texts/([\w.-]+)", path.read_text())}
    assert {path.name for path in TEXTS.iterdir()} == named


def with_annotation(text: str) -> list[Manifest]:
    children = copy.deepcopy(dict(MADE))
    children[ENGINES]["metadata"]["annotations"][PLAN_ANNOTATION.key] = text
    return list(children.values())


def recorded(given: Inputs) -> PinnedPlan | None:
    return live_roles(given, role_specs(given))[ENGINE].recorded


def test_the_pinned_plan_is_recorded_in_the_annotation_alone() -> None:
    decided = planned(RAW).plan
    assert PLAN_ANNOTATION.read(MADE[ENGINES]) == decided
    assert decided.image == SETTINGS.gpu_engine_image
    assert recorded(inputs(RAW, children=MADE.values())) == decided
    assert recorded(inputs(RAW)) is None


@pytest.mark.parametrize(
    "edited",
    [
        lambda plan: replace(plan, plan=replace(plan.plan, cpu="64")),
        lambda plan: replace(plan, image="evil/vllm:1"),
        lambda plan: replace(
            plan, plan=replace(plan.plan, resource="example.com/gpu", parallel=replace(plan.plan.parallel, tensor=8))
        ),
    ],
    ids=["cpu", "image", "resource and tensor"],
)
def test_an_edited_plan_annotation_is_not_read_and_is_repaired(edited: Callable[[PinnedPlan], PinnedPlan]) -> None:
    made = planned(RAW).plan
    document = {
        **json.loads(PLAN_ANNOTATION.write(edited(made))),
        "hash": json.loads(PLAN_ANNOTATION.write(made))["hash"],
    }
    children = with_annotation(json.dumps(document))
    assert recorded(inputs(RAW, children=children)) is None
    assert planned(RAW, children=children).desired == MADE


def test_a_new_operator_release_changes_no_running_engine() -> None:
    result = planned(RAW, children=MADE.values(), settings=LATER)
    assert result.desired == MADE
    assert LATER.gpu_engine_image in result.notice
    assert SETTINGS.gpu_engine_image in result.notice


def test_a_version_with_known_advisories_is_named_as_long_as_it_runs() -> None:
    older = Settings(gpu_engine_image="docker.io/vllm/vllm-openai:v0.13.0")
    first = planned(RAW, settings=older)
    assert first.advisories.startswith("vLLM 0.13.0 has ")
    assert first.notice == first.advisories
    kept = planned(RAW, children=first.desired.values())
    assert first.advisories in kept.notice
    assert planned(RAW).advisories == ""


@pytest.mark.parametrize("text", ["", "{}", "null", "[]", '{"asked": 1}', MADE[ENGINES]["metadata"]["name"]])
def test_an_invalid_plan_annotation_is_repaired(text: str) -> None:
    assert planned(RAW, children=with_annotation(text)).desired == MADE


def test_without_a_recorded_plan_the_defaults_of_the_release_are_used() -> None:
    result = planned(RAW, children=with_annotation("broken"), settings=LATER)
    assert result.plan.image == LATER.gpu_engine_image
    assert result.notice == ""


@pytest.mark.parametrize(
    "asked",
    [
        inference_deployment(source="hf://Qwen/Qwen3-32B"),
        inference_deployment(parallelism={"tensor": 2}),
        inference_deployment(hardware={"device": "CPU"}),
        inference_deployment(engine={"image": "example.com/vllm:1"}),
    ],
    ids=["model", "tensor", "device", "image"],
)
def test_an_edit_of_an_input_of_the_plan_makes_a_new_plan(asked: Manifest) -> None:
    result = planned(asked, children=MADE.values(), settings=LATER)
    anew = planned(asked, settings=LATER)
    assert (result.plan, result.desired, result.notice) == (anew.plan, anew.desired, "")
    assert result.plan.image in (LATER.gpu_engine_image, LATER.cpu_engine_image, "example.com/vllm:1")


@pytest.mark.parametrize(
    "asked",
    [
        inference_deployment(replicas=3),
        inference_deployment(router={"replicas": 4}),
        inference_deployment(engine={"args": ["--seed=4096"]}),
        inference_deployment(model={"source": "hf://Qwen/Qwen3-8B", "servedName": "q"}),
    ],
    ids=["replicas", "routers", "arguments", "served name"],
)
def test_an_edit_of_other_fields_keeps_the_pinned_plan(asked: Manifest) -> None:
    assert planned(asked, children=MADE.values(), settings=LATER).plan == planned(RAW).plan


def pod_view(*, ready: bool = False, problem: PodProblem | None = None) -> PodView:
    return PodView("qwen-engine-a", "engine", NOW, ready=ready, terminating=False, failed=False, problem=problem)


NO_NODE = PodProblem(Reason.UNSCHEDULABLE, "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.")


@pytest.mark.parametrize(
    ("pods", "stands"),
    [
        ([], True),
        ([pod_view()], True),
        ([pod_view(ready=True)], True),
        ([pod_view(problem=PodProblem(Reason.IMAGE_PULL_FAILED, "not found"))], True),
        ([pod_view(problem=NO_NODE)], False),
        ([pod_view(problem=NO_NODE), pod_view(ready=True)], True),
    ],
)
def test_a_pinned_plan_is_dropped_only_when_every_engine_is_unschedulable(pods: list[PodView], *, stands: bool) -> None:
    result = outcome(inputs(RAW, children=MADE.values(), pods=pods, settings=LATER))
    assert isinstance(result, Planned)
    assert (result.plan.image == SETTINGS.gpu_engine_image) is stands


def test_the_server_slots_of_the_live_router_configuration_are_kept() -> None:
    stated = {"strategy": "LeastOutstanding"}
    wide = planned(inference_deployment(replicas=40, router=stated)).desired
    result = planned(inference_deployment(replicas=1, router=stated), children=wide.values())
    assert result.desired[CONFIG] == wide[CONFIG]
    assert result.desired[ROUTERS] == wide[ROUTERS]


@pytest.mark.parametrize("text", ["", "-1", "many", "1e9", "9" * 5000, "٣٢"])
def test_an_invalid_server_slots_annotation_is_computed_again(text: str) -> None:
    children = copy.deepcopy(dict(MADE))
    children[CONFIG]["metadata"]["annotations"]["inference-operator.dev/slots"] = text
    assert planned(RAW, children=children.values()).desired == MADE


REFUSED = {
    "unreadable": (inference_deployment(replicas="many"), Reason.INVALID_SPEC),
    "reserved name": (inference_deployment(name="vllm"), Reason.INVALID_SPEC),
    "unknown scheme": (inference_deployment(source="gs://bucket/qwen"), Reason.INVALID_MODEL_SOURCE),
    "managed argument": (inference_deployment(engine={"args": ["--port=1"]}), Reason.MANAGED_ARGUMENT),
    "managed variable": (
        inference_deployment(engine={"env": [{"name": "HOME", "value": "/"}]}),
        Reason.MANAGED_ARGUMENT,
    ),
    "GPUs by hand": (
        inference_deployment(engine={"resources": {"limits": {"nvidia.com/gpu": 2}}}),
        Reason.MANAGED_ARGUMENT,
    ),
    "request above limit": (
        inference_deployment(engine={"resources": {"requests": {"cpu": 2}, "limits": {"cpu": 1}}}),
        Reason.INVALID_SPEC,
    ),
}


@pytest.mark.parametrize(("raw", "reason"), REFUSED.values(), ids=REFUSED)
def test_a_refused_specification_keeps_the_live_children(raw: Manifest, reason: Reason) -> None:
    result = outcome(inputs(raw, children=MADE.values()))
    assert isinstance(result, Refused)
    assert result.refusal.reason is reason
    assert result.desired == MADE
    nothing = outcome(inputs(raw))
    assert isinstance(nothing, Refused)
    assert nothing.desired == {}


EDITS: list[Manifest] = [{}, {"replicas": 9}, {"parallelism": {"tensor": 2}}, {"engine": {"args": ["--port=1"]}}]


@pytest.mark.parametrize("edit", EDITS)
def test_a_paused_resource_keeps_its_children_as_they_are(edit: Manifest) -> None:
    raw = inference_deployment(**edit, paused=True)
    damaged = {ref: child for ref, child in MADE.items() if ref != ROUTERS}
    for children in (MADE, damaged, {}):
        result = outcome(inputs(raw, children=children.values(), settings=LATER))
        assert isinstance(result, Paused)
        assert (result.desired, result.lookups, result.pods) == (children, (), ())


def test_the_plan_annotation_is_plain_json() -> None:
    text = json.loads(MADE[ENGINES]["metadata"]["annotations"][PLAN_ANNOTATION.key])
    assert text["plan"]["tensor_parallel_size"] == 1
    assert text["image"] == SETTINGS.gpu_engine_image


def test_cluster_domain_and_dns_staleness_come_from_settings() -> None:
    settings = Settings(cluster_domain="corp.example", dns_staleness_seconds=40)
    desired = planned(RAW, settings=settings).desired
    assert "qwen-engines.default.svc.corp.example:8000" in desired[CONFIG]["data"]["haproxy.cfg"]
    pod = desired[ENGINES]["spec"]["template"]["spec"]
    assert pod["containers"][0]["lifecycle"]["preStop"]["exec"]["command"][6] == "40"
    assert pod["terminationGracePeriodSeconds"] == 360


@pytest.mark.parametrize(
    ("asked", "startup", "deadline"),
    [
        ({}, 1800, 2100),
        ({"startupTimeout": "1h"}, 3600, 3900),
        ({"rollout": {"progressDeadline": "45m"}}, 1800, 2700),
        ({"rollout": {"progressDeadline": "5m"}, "startupTimeout": "61s"}, 62, 300),
    ],
)
def test_startup_timeout_and_progress_deadline_are_set_in_the_startup_probe_and_deployments(
    asked: Manifest, startup: int, deadline: int
) -> None:
    desired = planned(inference_deployment(**asked)).desired
    probe = desired[ENGINES]["spec"]["template"]["spec"]["containers"][0]["startupProbe"]
    assert probe["failureThreshold"] * probe["periodSeconds"] == startup
    assert {desired[ref]["spec"]["progressDeadlineSeconds"] for ref in (ENGINES, ROUTERS)} == {deadline}


def test_a_stored_resource_with_unknown_fields_is_refused_and_its_engines_serve_on() -> None:
    serving = planned(inference_deployment()).desired
    stored = inference_deployment(cache={"pvc": "models"}, router={"maxWait": "5m", "keys": {"secretName": "keys"}})
    result = outcome(inputs(stored, children=serving.values()))
    assert isinstance(result, Refused)
    assert result.desired == serving
    for field in ("cache.pvc", "router.maxWait", "router.keys.secretName", "router.keys.secretRef"):
        assert f" spec.{field}: is " in result.refusal.message


@pytest.mark.parametrize(
    ("argument", "field"),
    [
        ('--speculative-config={"method":"ngram","num_speculative_tokens":4}', "spec.engine.speculative"),
        ("--spec-method=ngram", "spec.engine.speculative"),
        ("-sc.method=ngram", "spec.engine.speculative"),
        ("--kv-offloading-size=64", "spec.engine.kvOffload"),
    ],
)
def test_an_argument_that_became_a_field_is_refused_with_it_and_the_engines_serve_on(argument: str, field: str) -> None:
    serving = planned(inference_deployment()).desired
    result = outcome(inputs(inference_deployment(engine={"args": [argument]}), children=serving.values()))
    assert isinstance(result, Refused)
    assert result.desired == serving
    assert f"Use `{field}`" in result.refusal.message
