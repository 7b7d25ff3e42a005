"""The administrator's defaults: a resource's own value of a key replaces the default."""

from typing import Any

import pytest
from pydantic import ValidationError

from inference_operator.api.effective_spec import EffectiveSpec, effective_spec
from inference_operator.api.hardware import NetworkSpec
from inference_operator.api.pod_defaults import EngineDefaults, RouterDefaults
from inference_operator.api.spec import Spec
from inference_operator.objects.scheduling import api_form

SPREAD = {"topologyKey": "zone", "maxSkew": 2, "whenUnsatisfiable": "ScheduleAnyway"}
NEAR = {
    "podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": "zone"}
        ]
    }
}
FAR = {"podAntiAffinity": NEAR["podAffinity"]}
CASES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "a default alone": ({}, {"runtimeClassName": "nvidia"}, {"runtimeClassName": "nvidia"}),
    "one value": ({"priorityClassName": "own"}, {"priorityClassName": "default"}, {"priorityClassName": "own"}),
    "labels of nodes": (
        {"nodeSelector": {"pool": "own"}},
        {"nodeSelector": {"pool": "default", "zone": "a"}},
        {"nodeSelector": {"pool": "own", "zone": "a"}},
    ),
    "tolerations": (
        {"tolerations": [{"key": "own", "operator": "Exists"}, {"key": "both", "operator": "Exists"}]},
        {"tolerations": [{"key": "both", "operator": "Exists"}, {"key": "default", "operator": "Exists"}]},
        {"tolerations": [{"key": key, "operator": "Exists"} for key in ("default", "own", "both")]},
    ),
    "topology spread": (
        {"topologySpread": [SPREAD]},
        {"topologySpread": [{**SPREAD, "maxSkew": 1}, {**SPREAD, "topologyKey": "host"}]},
        {"topologySpread": [{**SPREAD, "topologyKey": "host"}, SPREAD]},
    ),
    "affinity": ({"affinity": NEAR}, {"affinity": FAR}, {"affinity": {**NEAR, **FAR}}),
}  # fmt: skip


def spec(**more: object) -> Spec:
    return Spec.model_validate({"model": {"source": "hf://a/b"}, **more})


def over_defaults(stated: Spec, *, engines: object = None, routers: object = None) -> EffectiveSpec:
    return effective_spec(
        stated, EngineDefaults.model_validate(engines or {}), RouterDefaults.model_validate(routers or {})
    )


@pytest.mark.parametrize("case", CASES)
def test_scheduling_of_a_resource_replaces_the_defaults_of_the_same_keys(case: str) -> None:
    own, default, expected = CASES[case]
    engines = over_defaults(spec(scheduling=own), engines={"scheduling": default})
    routers = over_defaults(spec(router={"scheduling": own}), routers={"scheduling": default})
    assert api_form(engines.scheduling) == {**expected, "gang": "Auto"}
    assert api_form(routers.router.scheduling) == expected


def test_parts_of_the_pod_template_and_variables_replace_the_defaults_of_the_same_names() -> None:
    def template(value: str) -> dict[str, Any]:
        return {
            "labels": {"team": value, value: "yes"},
            "volumes": [{"name": "ca", "configMap": {"name": value}}, {"name": value, "emptyDir": {}}],
            "volumeMounts": [{"name": "ca", "mountPath": "/ca", "subPath": value}],
            "sidecars": [{"name": "log", "image": value}],
        }

    def variables(value: str) -> list[dict[str, str]]:
        return [{"name": "HF_ENDPOINT", "value": value}, {"name": value.upper(), "value": "1"}]

    defaults = {"podTemplate": template("default"), "env": variables("default")}
    both = over_defaults(spec(podTemplate=template("own"), engine={"env": variables("own")}), engines=defaults)
    made = both.pod_template
    assert made.labels == {"team": "own", "default": "yes", "own": "yes"}
    assert [volume.name for volume in made.volumes] == ["default", "ca", "own"]
    assert made.volumes[1].config_map
    assert made.volumes[1].config_map.name == "own"
    assert [(mount.mount_path, mount.sub_path) for mount in made.volume_mounts] == [("/ca", "own")]
    assert [sidecar.image for sidecar in made.sidecars] == ["own"]
    assert [(one.name, one.value) for one in both.engine.env] == [
        ("DEFAULT", "1"),
        ("HF_ENDPOINT", "own"),
        ("OWN", "1"),
    ]


def test_the_network_of_a_resource_replaces_the_default_key_by_key() -> None:
    default = {"network": {"resource": "rdma/ib", "count": 8, "interface": "net1", "ipcLock": True}}
    stated = {"resource": "vpc.amazonaws.com/efa", "ipcLock": False}
    assert over_defaults(spec(hardware={"network": stated}), engines=default).network == NetworkSpec(
        resource="vpc.amazonaws.com/efa", count=8, interface="net1", ipcLock=False
    )


def test_without_defaults_a_specification_stays_as_it_is() -> None:
    stated = spec(scheduling=CASES["affinity"][0], podTemplate={"labels": {"a": "b"}})
    expected = EffectiveSpec(
        stated, stated.engine, stated.scheduling, stated.pod_template, stated.router, NetworkSpec()
    )
    assert over_defaults(stated) == expected


@pytest.mark.parametrize(
    "wrong",
    [
        {"scheduling": {"queueName": "team-a"}},
        {"network": {"count": 2}},
        {"limitRequestRatio": {"cpu": 0.5}},
        {"limitRequestRatio": {"nvidia.com/gpu": 1}},
        {"imagePullSecrets": [{"name": "a"}, {"name": "a"}]},
        {"resources": {}},
    ],
    ids=str,
)
def test_a_wrong_default_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        EngineDefaults.model_validate(wrong)
