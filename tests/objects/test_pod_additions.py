"""Users' additions to engine pods, and which of them are refused."""

import pytest

from inference_operator.api.pod_defaults import EngineDefaults
from inference_operator.manifest import Manifest
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.outcomes import Refused
from inference_operator.views.pod import TEMPLATE_HASH_ANNOTATION
from tests.testing.builders import ENGINES, ROUTERS, SETTINGS, inference_deployment, inputs, planned
from tests.testing.everything import POD_TEMPLATE

PLAIN = planned(inference_deployment()).desired[ENGINES]["spec"]["template"]
FOLDER: Manifest = {"name": "data", "emptyDir": {}}
SIDECAR: Manifest = {"name": "proxy", "image": "example.com/proxy:1"}


def template(**added: object) -> Manifest:
    found: Manifest = planned(inference_deployment(podTemplate=added)).desired[ENGINES]["spec"]["template"]
    return found


def test_pod_additions_leave_the_operators_own_fields_of_the_template_unchanged() -> None:
    added = template(**POD_TEMPLATE)
    assert PLAIN["metadata"]["labels"].items() <= added["metadata"]["labels"].items()
    own, pod = PLAIN["spec"], added["spec"]
    assert {name for name in own if own[name] != pod[name]} == {"containers", "volumes"}
    assert pod["volumes"][: len(own["volumes"])] == own["volumes"]
    (before,), (after,) = own["containers"], pod["containers"]
    assert {name for name in before if before[name] != after[name]} == {"volumeMounts"}
    assert after["volumeMounts"][: len(before["volumeMounts"])] == before["volumeMounts"]


def test_added_containers_get_the_restricted_security_context_and_sidecars_run_on() -> None:
    added = template(**POD_TEMPLATE)["spec"]["initContainers"]
    assert [one.get("restartPolicy") for one in added] == [None, "Always", "Always"], "init containers come first"
    for container in added:
        assert container["securityContext"] == PLAIN["spec"]["containers"][0]["securityContext"]


def test_account_pull_secrets_and_variables_of_the_pod_template_are_those_of_all_its_pods() -> None:
    added: Manifest = {
        "serviceAccountName": "models",
        "imagePullSecrets": [{"name": "registry"}],
        "envFrom": [{"prefix": "HUB_", "secretRef": {"name": "hub"}}],
    }
    raw = inference_deployment(podTemplate=added, router={"podTemplate": {**added, "serviceAccountName": "routers"}})
    desired = planned(raw).desired
    for ref, account in ((ENGINES, "models"), (ROUTERS, "routers")):
        pod = desired[ref]["spec"]["template"]["spec"]
        assert (pod["serviceAccountName"], pod["imagePullSecrets"]) == (account, [{"name": "registry"}])
        assert pod["automountServiceAccountToken"] is False
        assert all(one["envFrom"] == added["envFrom"] for one in pod["containers"])


def test_a_resource_keeps_its_account_beside_that_of_the_settings() -> None:
    defaults = EngineDefaults.model_validate({"serviceAccountName": "all", "imagePullSecrets": [{"name": "mirror"}]})
    settings = SETTINGS.model_copy(update={"engine_defaults": defaults})
    own = {"serviceAccountName": "own", "imagePullSecrets": [{"name": "registry"}]}
    for asked, account, secrets in (({}, "all", ["mirror"]), (own, "own", ["mirror", "registry"])):
        raw = inference_deployment(podTemplate=asked)
        pod = planned(raw, settings=settings).desired[ENGINES]["spec"]["template"]["spec"]
        assert pod["serviceAccountName"] == account
        assert [one["name"] for one in pod["imagePullSecrets"]] == secrets


@pytest.mark.parametrize("added", [{"labels": {"a": "b"}}, {"annotations": {"a": "b"}}, {"volumes": [FOLDER]}])
def test_a_pod_addition_changes_the_engine_template_hash_and_not_the_router(added: Manifest) -> None:
    hashes = [one["metadata"]["annotations"][TEMPLATE_HASH_ANNOTATION] for one in (template(**added), PLAIN)]
    assert hashes[0] != hashes[1]
    built = planned(inference_deployment(podTemplate=added)).desired
    assert built[ROUTERS] == planned(inference_deployment()).desired[ROUTERS]


def _volume(name: str) -> Manifest:
    return {"volumes": [{"name": name, "emptyDir": {}}]}


def _mount(path: str) -> Manifest:
    return {"volumes": [FOLDER], "volumeMounts": [{"name": "data", "mountPath": path}]}


def _sidecar(**fields: object) -> Manifest:
    return {"sidecars": [{**SIDECAR, **fields}]}


HIDING = ["/models", "/dev/shm", "/dev", "/", "/home", "/home/vllm/", "/tmp/../dev/./shm", "//tmp"]  # noqa: S108
CONFINEMENT = "container.apparmor.security.beta.kubernetes.io/engine"
LABELS = [
    "inference-operator.dev/name",
    "app.kubernetes.io/component",
    "app.kubernetes.io/managed-by",
    "pod-template-hash",
    "apps.kubernetes.io/pod-index",
    "kueue.x-k8s.io/queue-name",
]
RESERVED: dict[str, Manifest] = {
    **{f"labels[{key}]": {"labels": {key: "x"}} for key in LABELS},
    **{f"annotations[{key}]": {"annotations": {key: "x"}} for key in (TEMPLATE_HASH_ANNOTATION, CONFINEMENT)},
    **{f"volumes[{name}]": _volume(name) for name in ("model", "shm", "tmp", "home-vllm")},
    **{f"volumeMounts[{path}]": _mount(path) for path in HIDING},
    "volumeMounts[/x]": {"volumeMounts": [{"name": "x", "mountPath": "/x"}]},
    "sidecars[engine]": _sidecar(name="engine"),
    "sidecars[proxy].volumeMounts[/x]": _sidecar(volumeMounts=[{"name": "model", "mountPath": "/x"}]),
    "sidecars[proxy].resources.limits[nvidia.com/gpu]": _sidecar(resources={"limits": {"nvidia.com/gpu": 1}}),
    "sidecars[proxy].resources.requests[cpu]": _sidecar(resources={"requests": {"cpu": 2}, "limits": {"cpu": 1}}),
}


@pytest.mark.parametrize(("field", "added"), RESERVED.items(), ids=RESERVED)
def test_a_pod_addition_with_a_name_or_path_reserved_for_the_operator_is_refused_with_its_field(
    field: str, added: Manifest
) -> None:
    result = outcome(inputs(inference_deployment(source="pvc://models", parallelism={"tensor": 1}, podTemplate=added)))
    assert isinstance(result, Refused)
    assert result.refusal.field == f"spec.podTemplate.{field}"
    assert result.refusal.cure.endswith(".")


@pytest.mark.parametrize("path", ["/home/vllm/.cache", "/tmp/x", "/models2", "/dev/shm2", "/data"])  # noqa: S108
def test_a_volume_mount_that_hides_no_path_of_the_operator_is_accepted(path: str) -> None:
    (container,) = template(**_mount(path))["spec"]["containers"]
    assert {"name": "data", "mountPath": path} in container["volumeMounts"]


def test_every_volume_name_and_mount_path_of_the_operator_is_reserved() -> None:
    """The pod is read from the operator, so volumes of later versions are covered."""
    pod = planned(inference_deployment(source="pvc://models", parallelism={"tensor": 1})).desired[ENGINES]["spec"][
        "template"
    ]["spec"]
    for volume, mount in zip(pod["volumes"], pod["containers"][0]["volumeMounts"], strict=True):
        for added in (_volume(volume["name"]), _mount(mount["mountPath"])):
            asked = inference_deployment(source="pvc://models", parallelism={"tensor": 1}, podTemplate=added)
            assert isinstance(outcome(inputs(asked)), Refused)
