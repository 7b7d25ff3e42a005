"""The rights that a resource requires of its writer, without a cluster."""

from typing import Any

import pytest

from inference_operator.admission.references import references
from inference_operator.admission.rights import MAX_NAMED, required_rights
from inference_operator.engines.registry import ENGINES
from inference_operator.manifest import SECRET, Manifest

OPTIONS = ENGINES.option_classes
PODS = "create pods"


def rights(**spec: Any) -> dict[str, list[str]]:  # noqa: ANN401 - JSON
    asked: Manifest = {"model": {"source": "hf://Qwen/Qwen3-8B"}, **spec}
    return {need.field: [str(right) for right in need.any_of] for need in required_rights(asked, OPTIONS)}


def test_a_plain_resource_requires_no_further_right() -> None:
    engine = {"args": ["--seed=8", "--enforce-eager"], "env": [{"name": "OMP_NUM_THREADS", "value": "8"}]}
    scaled = {"replicas": 2, "autoscaling": {"maxReplicas": 4}, "scheduling": {"nodeSelector": {"a": "b"}}}
    assert rights(engine=engine, **scaled) == {}


@pytest.mark.parametrize(
    ("spec", "field", "any_of"),
    [
        ({"engine": {"image": "a/b:1"}}, "spec.engine.image", [PODS]),
        ({"engine": {"args": ["--middleware", "a.b"]}}, "spec.engine.args: --middleware", [PODS]),
        ({"engine": {"env": [{"name": "LD_PRELOAD", "value": "/a"}]}}, "spec.engine.env: LD_PRELOAD", [PODS]),
        ({"engine": {"multimodal": {"allowedDomains": ["a.b"]}}}, "spec.engine.multimodal.allowedDomains", [PODS]),
        (
            {"engine": {"resources": {"limits": {"devices/kvm": "1"}}}},
            "spec.engine.resources.limits: devices/kvm",
            [PODS],
        ),
        ({"hardware": {"gpu": {"resourceName": "devices/kvm"}}}, "spec.hardware.gpu.resourceName", [PODS]),
        ({"hardware": {"network": {"resource": "rdma/ib"}}}, "spec.hardware.network.resource", [PODS]),
        ({"hardware": {"network": {"ipcLock": True}}}, "spec.hardware.network.ipcLock", [PODS]),
        ({"model": {"source": "hf://a/b", "allowPickle": True}}, "spec.model.allowPickle", [PODS]),
        ({"model": {"source": "s3://abc", "s3": {"endpoint": "http://a"}}}, "spec.model.s3.endpoint", [PODS]),
        ({"podTemplate": {}}, "spec.podTemplate", [PODS]),
        ({"router": {"service": {"type": "NodePort"}}}, "spec.router.service", ["create services"]),
        (
            {"router": {"ingress": {"host": "a.b"}}},
            "spec.router.ingress",
            ["create ingresses.networking.k8s.io"],
        ),
        (
            {"autoscaling": {"maxReplicas": 2, "backend": "KEDA"}},
            "spec.autoscaling.backend: KEDA",
            ["create scaledobjects.keda.sh"],
        ),
        (
            {"scheduling": {"evictionWait": "1h"}},
            "spec.scheduling.evictionWait: more than 30m",
            ["create poddisruptionbudgets.policy"],
        ),
        ({"cache": {}}, "spec.cache", ["create persistentvolumeclaims"]),
        ({"cache": {"size": "1Gi"}}, "spec.cache", ["create persistentvolumeclaims"]),
        (
            {"model": {"source": "pvc://models/a"}},
            "spec.model.source",
            [PODS, "use persistentvolumeclaims/models"],
        ),
        (
            {"model": {"source": "hf://a/b", "tokenSecretRef": {"name": "hub", "key": "token"}}},
            "spec.model.tokenSecretRef.name",
            [PODS, "use secrets/hub", "get secrets/hub"],
        ),
        (
            {"router": {"tls": {"secretRef": {"name": "web"}}}},
            "spec.router.tls.secretRef.name",
            [PODS, "use secrets/web", "get secrets/web"],
        ),
        (
            {"model": {"source": "oci://a/b@sha256:0", "verify": {"configMapRef": {"name": "keys"}}}},
            "spec.model.verify.configMapRef.name",
            [PODS, "use configmaps/keys", "get configmaps/keys"],
        ),
    ],
)
def test_a_part_of_a_resource_requires_one_of_its_rights(spec: Manifest, field: str, any_of: list[str]) -> None:
    assert rights(**spec) == {field: any_of}


def test_the_right_to_get_a_claim_is_never_enough() -> None:
    mounted = [{"name": "a", "persistentVolumeClaim": {"claimName": "models"}}]
    for spec in ({"cache": {"claimName": "models"}}, {"podTemplate": {"volumes": mounted}}):
        assert not any("get" in right for any_of in rights(**spec).values() for right in any_of)


def test_consent_that_is_not_given_requires_nothing() -> None:
    assert rights(model={"source": "hf://a/b", "allowPickle": False}) == {}


def test_the_value_of_an_argument_is_in_no_requirement() -> None:
    hostile = ['{"secret": "canary"}', "--canary canary=1", "--middleware=canary", "-canary'\"canary", "-ncanary"]
    assert rights(engine={"args": ["--canary" + "y" * 99, *hostile]}).keys() == {
        "spec.engine.args: a value",
        "spec.engine.args: --middleware",
    }


def test_more_references_than_a_policy_can_check_require_the_right_to_create_pods() -> None:
    def variable(number: int) -> Manifest:
        ref = {"secretKeyRef": {"name": f"s{number}", "key": "a"}}
        return {"name": "HF_TOKEN", "valueFrom": ref}

    spec = {"model": {"source": "hf://a/b"}, "engine": {"env": [variable(n) for n in range(MAX_NAMED + 1)]}}
    found = [need.any_of for need in required_rights(spec, OPTIONS)]
    assert [len(any_of) for any_of in found] == [3] * MAX_NAMED + [1]


def test_a_reference_has_the_name_of_the_item_that_it_is_of() -> None:
    """A Secret that somebody lent for one item is not lent for another one of the list."""
    key = {"secretKeyRef": {"name": "keys", "key": "k"}}
    sidecar = {"name": "logs", "env": [{"name": "TOKEN", "valueFrom": key}]}
    template = {"volumes": [{"name": "files", "secret": {"secretName": "tls"}}], "sidecars": [sidecar]}
    found = references({"podTemplate": template}, SECRET)
    assert found == ("tls podTemplate.volumes files ", "keys podTemplate.sidecars[0].env TOKEN k")
