"""The administrator's defaults: a resource's own value of a key replaces the default."""

from typing import Any

import pytest
from pydantic import ValidationError

from inference_operator.api.pod_defaults import (
    EngineDefaults,
    RouterDefaults,
    with_engine_defaults,
    with_router_defaults,
)
from inference_operator.api.spec import Spec
from inference_operator.objects.api_form import api_form

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


@pytest.mark.parametrize("case", CASES)
def test_scheduling_of_a_resource_replaces_the_defaults_of_the_same_keys(case: str) -> None:
    own, default, expected = CASES[case]
    engines = with_engine_defaults(spec(scheduling=own), EngineDefaults.model_validate({"scheduling": default}))
    routers = with_router_defaults(
        spec(router={"scheduling": own}).router, RouterDefaults.model_validate({"scheduling": default})
    )
    assert api_form(engines.scheduling) == expected
    assert api_form(routers.scheduling) == expected


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

    defaults = EngineDefaults.model_validate({"podTemplate": template("owner"), "env": variables("owner")})
    both = with_engine_defaults(spec(podTemplate=template("own"), engine={"env": variables("own")}), defaults)
    made = both.pod_template
    assert made.labels == {"team": "own", "owner": "yes", "own": "yes"}
    assert [volume.name for volume in made.volumes] == ["owner", "ca", "own"]
    assert made.volumes[1].config_map
    assert made.volumes[1].config_map.name == "own"
    assert [(mount.mount_path, mount.sub_path) for mount in made.volume_mounts] == [("/ca", "own")]
    assert [sidecar.image for sidecar in made.sidecars] == ["own"]
    assert [(one.name, one.value) for one in both.engine.env] == [("OWNER", "1"), ("HF_ENDPOINT", "own"), ("OWN", "1")]


def test_without_defaults_a_specification_stays_as_it_is() -> None:
    asked = spec(scheduling=CASES["affinity"][0], podTemplate={"labels": {"a": "b"}})
    assert with_engine_defaults(asked, EngineDefaults()) == asked
    assert with_router_defaults(asked.router, RouterDefaults()) == asked.router


@pytest.mark.parametrize(
    "wrong",
    [
        {"scheduling": {"queueName": "team-a"}},
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
