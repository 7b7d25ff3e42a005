"""The administrator's defaults in the objects of an InferenceDeployment, and what a change of them does."""

import copy
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from inference_operator.api.container import EnvironmentVariable
from inference_operator.api.pod_defaults import EngineDefaults
from inference_operator.api.reasons import Reason
from inference_operator.engines.registry import ENGINES as REGISTRY
from inference_operator.manifest import CONFIG_MAP, DEPLOYMENT, JOB, Manifest
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.outcomes import NeedsInspection, Planned, Refused
from inference_operator.pipeline.validation import default_errors
from inference_operator.settings import PodUsers, Settings
from tests.pipeline.test_children import VARIANTS
from tests.testing.builders import ENGINES, ROUTERS, inference_deployment, inputs, planned
from tests.testing.everything import POD_TEMPLATE, SCHEDULING
from tests.testing.golden import assert_golden
from tests.testing.schemas import validate
from tests.workload.test_pinned_template import SERVES

AFFINITY = {"podAntiAffinity": SCHEDULING["affinity"]["podAntiAffinity"]}
POD_SCHEDULING = {
    **{
        name: value
        for name, value in SCHEDULING.items()
        if name not in ("queueName", "gang", "topologyKey", "nodeSelector")
    },
    "affinity": AFFINITY,
}
"""All but what the node of these tests does not meet."""
SHARED: Manifest = {
    "scheduling": POD_SCHEDULING,
    "podTemplate": POD_TEMPLATE,
    "env": [{"name": "HTTPS_PROXY", "value": "http://proxy.example:3128"}],
    "serviceAccountName": "inference",
    "imagePullSecrets": [{"name": "registry"}],
}
OWNED = Settings.model_validate(
    {
        "common_labels": {"billing": "7"},
        "image_registry": "mirror.example/hub",
        "engine_defaults": {**SHARED, "limitRequestRatio": {"cpu": 2, "memory": 1}},
        "router_defaults": {**SHARED, "resources": {"limits": {"cpu": "500m"}}},
    }
)
UNKNOWN = inference_deployment(source="hf://nobody/unknown")
SURGE = inference_deployment(rollout={"strategy": "Surge"})


def template(result: Planned, ref: Any = ENGINES) -> Manifest:  # noqa: ANN401 - a Ref
    made: Manifest = result.desired[ref]["spec"]["template"]
    return made


def inspection(settings: Settings) -> Manifest:
    result = outcome(inputs(UNKNOWN, settings=settings))
    assert isinstance(result, NeedsInspection)
    (job,) = (manifest for ref, manifest in result.desired.items() if ref.kind == JOB)
    return job


def test_golden_pods_with_every_default(snapshot: SnapshotAssertion) -> None:
    made = planned(inference_deployment(), settings=OWNED).desired
    assert_golden(snapshot, [made[ENGINES]["spec"]["template"], made[ROUTERS]["spec"]["template"]])


@pytest.mark.parametrize("raw", VARIANTS.values(), ids=VARIANTS)
def test_children_with_every_default_are_valid_for_kubernetes(raw: Manifest) -> None:
    for child in planned(raw, settings=OWNED).desired.values():
        validate(copy.deepcopy(child), "1.36")


@pytest.mark.parametrize("raw", [*VARIANTS.values(), UNKNOWN], ids=[*VARIANTS, "inspected"])
def test_common_labels_are_on_every_object_and_pod(raw: Manifest) -> None:
    settings = Settings(common_labels={"billing": "7"}, network_policies=True)
    desired = outcome(inputs(raw, settings=settings)).desired
    assert desired
    for child in desired.values():
        assert child["metadata"]["labels"]["billing"] == "7"
        if child["kind"] in (DEPLOYMENT.name, JOB.name):
            assert child["spec"]["template"]["metadata"]["labels"]["billing"] == "7"
            assert "billing" not in child["spec"].get("selector", {}).get("matchLabels", {})
    known = planned(raw, settings=settings).desired if raw is UNKNOWN else {}
    assert all(one["metadata"]["labels"]["billing"] == "7" for ref, one in known.items() if ref.kind == CONFIG_MAP)


def test_the_platform_may_choose_user_and_groups_of_every_pod() -> None:
    settings = Settings(pod_users=PodUsers.FROM_PLATFORM)
    result = planned(inference_deployment(), settings=settings)
    pods = [
        template(result)["spec"],
        template(result, ROUTERS)["spec"],
        inspection(settings)["spec"]["template"]["spec"],
    ]
    for made in pods:
        assert made["securityContext"] == {
            "runAsNonRoot": True,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        assert not [one for one in made["containers"] if {"runAsUser", "runAsGroup"} & one["securityContext"].keys()]


def test_a_default_that_leads_engines_away_from_their_claim_is_refused_and_said_to_be_the_owners() -> None:
    default = EnvironmentVariable(name="HF_HUB_OFFLINE", value="1")
    owned = Settings(engine_defaults=EngineDefaults(env=(default,)))
    cached = outcome(inputs(inference_deployment(cache={"size": "40Gi"}), settings=owned))
    assert isinstance(cached, Refused)
    assert cached.refusal.message == (
        "spec.engine.env[HF_HUB_OFFLINE]: `HF_HUB_OFFLINE` is managed by the operator with `spec.cache`. It comes from"
        " the operator's setting `engineDefaults`. Remove it, or remove `spec.cache`."
    )
    assert isinstance(outcome(inputs(inference_deployment(), settings=owned)), Planned)


def test_engines_send_their_spans_to_the_collector_of_the_settings() -> None:
    owned = Settings(traces_endpoint="http://otel.monitoring:4317")
    container = template(planned(inference_deployment(), settings=owned))["spec"]["containers"][0]
    assert "--otlp-traces-endpoint=http://otel.monitoring:4317" in container["args"]


def test_a_change_of_defaults_keeps_serving_engines_with_a_notice_and_replaces_routers() -> None:
    before = planned(SURGE).desired
    result = outcome(inputs(SURGE, children=before.values(), pods=(SERVES,), settings=OWNED))
    assert isinstance(result, Planned)
    assert template(result) == before[ENGINES]["spec"]["template"]
    assert "Engines keep their current pod template" in result.notice
    assert "default is `mirror.example/hub/vllm/vllm-openai" in result.notice
    assert (
        template(result, ROUTERS)
        == template(planned(SURGE, settings=OWNED), ROUTERS)
        != before[ROUTERS]["spec"]["template"]
    )
    idle = outcome(inputs(SURGE, children=before.values(), settings=OWNED))
    assert isinstance(idle, Planned)
    assert template(idle)["spec"]["serviceAccountName"] == "inference"


@pytest.mark.parametrize("raw", VARIANTS.values(), ids=VARIANTS)
def test_a_change_of_defaults_keeps_the_pinned_plan(raw: Manifest) -> None:
    before = planned(raw)
    after = planned(raw, children=before.desired.values(), settings=OWNED)
    assert [role.plan for role in after.roles] == [role.plan for role in before.roles]


def test_default_node_constraints_limit_the_gpus_that_a_model_is_sized_for() -> None:
    elsewhere = Settings.model_validate(
        {"capacity": "Fixed", "engine_defaults": {"scheduling": {"nodeSelector": {"pool": "b"}}}}
    )
    refused = outcome(inputs(inference_deployment(), settings=elsewhere))
    assert isinstance(refused, Refused)
    assert refused.refusal.reason is Reason.NO_SUITABLE_GPU
    assert refused.refusal.cure.endswith("The operator's setting `engineDefaults` limits the nodes as well.")
    own = inference_deployment(scheduling={"nodeSelector": {"pool": "b"}})
    for_itself = outcome(inputs(own, settings=Settings.model_validate({"capacity": "Fixed"})))
    assert isinstance(for_itself, Refused)
    assert "engineDefaults" not in for_itself.refusal.message


def test_an_inspection_job_has_the_engines_access_and_no_gpu_constraints() -> None:
    job = inspection(OWNED)
    made = job["spec"]["template"]["spec"]
    assert made["serviceAccountName"] == "inference"
    assert made["imagePullSecrets"] == [{"name": "registry"}]
    assert {"name": "HTTPS_PROXY", "value": "http://proxy.example:3128"} in made["containers"][0]["env"]
    assert made["containers"][0]["image"].startswith("mirror.example/hub/")
    assert job["spec"]["template"]["metadata"]["labels"]["team"] == "search"
    assert [toleration["key"] for toleration in made["tolerations"]][1:] == ["dedicated", "spot"]
    assert not {"affinity", "topologySpreadConstraints", "initContainers"} & made.keys()
    assert made["nodeSelector"] == {"kubernetes.io/os": "linux"}
    assert made["runtimeClassName"] == OWNED.router_defaults.scheduling.runtime_class_name
    only_engines = Settings.model_validate({"engine_defaults": {"scheduling": {"runtimeClassName": "nvidia"}}})
    assert "runtimeClassName" not in inspection(only_engines)["spec"]["template"]["spec"]


def test_a_resources_own_router_section_replaces_the_defaults_of_routers() -> None:
    own = {"scheduling": {"runtimeClassName": "own"}, "podTemplate": {"labels": {"team": "own"}}}
    made = template(planned(inference_deployment(router=own), settings=OWNED), ROUTERS)
    assert made["spec"]["runtimeClassName"] == "own"
    assert (made["metadata"]["labels"]["team"], made["metadata"]["labels"]["cost-centre"]) == ("own", "42")


def test_the_router_section_does_not_change_engines() -> None:
    plain, own = inference_deployment(), inference_deployment(router={"scheduling": {"runtimeClassName": "own"}})
    assert template(planned(own)) == template(planned(plain))
    assert template(planned(own), ROUTERS) != template(planned(plain), ROUTERS)


def test_routers_prefer_different_nodes_unless_a_constraint_names_the_node() -> None:
    def keys(spread: list[Manifest]) -> list[tuple[str, str]]:
        asked = inference_deployment(router={"scheduling": {"topologySpread": spread}})
        made = template(planned(asked), ROUTERS)["spec"]["topologySpreadConstraints"]
        return [(one["topologyKey"], one["whenUnsatisfiable"]) for one in made]

    host = "kubernetes.io/hostname"
    assert keys([{"topologyKey": "zone"}]) == [(host, "ScheduleAnyway"), ("zone", "ScheduleAnyway")]
    assert keys([{"topologyKey": host, "whenUnsatisfiable": "DoNotSchedule"}]) == [(host, "DoNotSchedule")]


@pytest.mark.parametrize(
    ("part", "field"),
    [
        ({"labels": {"app.kubernetes.io/component": "x"}}, "labels[app.kubernetes.io/component]"),
        ({"volumes": [{"name": "config", "emptyDir": {}}]}, "volumes[config]"),
        ({"volumes": [{"name": "run-2", "emptyDir": {}}]}, "volumes[run-2]"),
        ({"sidecars": [{"name": "haproxy-1", "image": "a"}]}, "sidecars[haproxy-1]"),
        ({"volumeMounts": [{"name": "nosuch", "mountPath": "/a"}]}, "volumeMounts[/a]"),
    ],
)
def test_an_addition_to_routers_that_would_replace_a_part_of_the_operator_is_refused(
    part: Manifest, field: str
) -> None:
    result = outcome(inputs(inference_deployment(router={"podTemplate": part})))
    refusal = getattr(result, "refusal", None)
    assert refusal is not None
    assert refusal.field == f"spec.router.podTemplate.{field}"


@pytest.mark.parametrize(
    ("settings", "start"),
    [
        ({"common_labels": {"pod-template-hash": "x"}}, "COMMON_LABELS: labels[pod-template-hash]: "),
        (
            {"engine_defaults": {"podTemplate": {"volumes": [{"name": "shm", "emptyDir": {}}]}}},
            "ENGINE_DEFAULTS: podTemplate.volumes[shm]: ",
        ),
        (
            {"router_defaults": {"podTemplate": {"annotations": {"inference-operator.dev/a": "x"}}}},
            "ROUTER_DEFAULTS: podTemplate.annotations[inference-operator.dev/a]: ",
        ),
        (
            {"router_defaults": {"resources": {"requests": {"cpu": 2}, "limits": {"cpu": 1}}}},
            "ROUTER_DEFAULTS: resources.requests[cpu]: ",
        ),
        (
            {"router_defaults": {"env": [{"name": "METRICS_PORT", "value": "1"}]}},
            "ROUTER_DEFAULTS: env[METRICS_PORT]: ",
        ),
        ({"router_defaults": {"env": [{"name": "POD_IPS", "value": "1"}]}}, "ROUTER_DEFAULTS: env[POD_IPS]: "),
        (
            {"router_defaults": {"resources": {"limits": {"example.com/nic": 1}}}},
            "ROUTER_DEFAULTS: resources.limits[example.com/nic]: ",
        ),
        ({"engine_defaults": {"env": [{"name": "VLLM_PORT", "value": "1"}]}}, "ENGINE_DEFAULTS: env[VLLM_PORT]: "),
    ],
)
def test_a_default_that_is_reserved_for_the_operator_is_an_error_at_the_start(settings: Manifest, start: str) -> None:
    (error,) = default_errors(Settings.model_validate(settings), REGISTRY)
    assert error.startswith(f"INFERENCE_OPERATOR_{start}")
    assert not [*default_errors(OWNED, REGISTRY)]


def test_the_owner_may_set_variables_that_users_may_not() -> None:
    linker = {"env": [{"name": "LD_LIBRARY_PATH", "value": "/usr/local/nvidia/lib64"}]}
    assert not [*default_errors(Settings.model_validate({"engine_defaults": linker}), REGISTRY)]


def test_a_limit_of_a_router_below_the_default_request_is_refused() -> None:
    settings = Settings.model_validate({"router_defaults": {"resources": {"requests": {"cpu": 2}}}})
    result = outcome(inputs(inference_deployment(router={"resources": {"limits": {"cpu": "1"}}}), settings=settings))
    assert isinstance(result, Refused)
    assert result.refusal.message.startswith("spec.router.resources.requests[cpu]: `2` is more than the limit `1`.")


def test_local_volumes_of_the_operator_do_not_keep_a_node_and_those_of_users_do() -> None:
    key = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
    asked = inference_deployment(podTemplate={"volumes": [{"name": "data", "emptyDir": {}}]})
    result = planned(asked)
    assert template(result)["metadata"]["annotations"][key] == "home-vllm,tmp,shm"
    assert template(result, ROUTERS)["metadata"]["annotations"][key] == "run-1,run-2"
    own = planned(inference_deployment(podTemplate={"annotations": {key: "tmp,data"}}))
    assert template(own)["metadata"]["annotations"][key] == "tmp,data"
