"""The setting `policy` in the chart: the operator and the admission policy get the same values."""

import json
from pathlib import Path

import pytest
import yaml

from inference_operator.admission.administrator_policy import PolicyScope, administrator_policy
from inference_operator.admission.administrator_rules import parameters
from inference_operator.api.administrator_policy import AdministratorPolicy
from inference_operator.manifest import Manifest
from inference_operator.settings import PREFIX, Settings
from tests.chart.helm import CHART, NAMESPACE, RELEASE, Helm

PLACEHOLDERS = PolicyScope("OPERATOR_NAMESPACE", "OPERATOR_NAME")
EVERYTHING: Manifest = {
    "modelSources": {
        "allowed": ["hf://Qwen/", "oci://registry.example:5000/m"],
        "message": "Ask 'Ada': \"why\" {{ . }}?",
    },
    "images": {"allowed": ["registry.example/", "docker.io/vllm/vllm-openai"], "digests": True, "message": "é, $(A)"},
    "hubs": {"allowed": ["https://hub.example"], "message": "a: b # c"},
    "s3Endpoints": {"allowed": ["Public", "http://[fd00::1]:9000"], "message": "yes"},
    "signatures": {"key": "-----BEGIN PUBLIC KEY-----\nMFkw\nEw==\n-----END PUBLIC KEY-----\n", "message": "# {{ 1 }}"},
    "gpus": {"most": 1000000, "message": "8"},
    "evictionWait": {"most": "90m", "message": "1h: # no"},
    "autoscalingBackends": {"allowed": ["BuiltIn", "KEDA"], "message": "on"},
}
POLICIES: tuple[Manifest, ...] = (
    {},
    EVERYTHING,
    *({section: rule} for section, rule in EVERYTHING.items()),
    {"images": {"digests": False, "allowed": []}, "gpus": {"most": 0}},
    {"s3Endpoints": {"message": "Ask Ada."}, "signatures": {"message": "Ask Ada."}},
)


def values(tmp_path: Path, policy: Manifest, **others: object) -> Path:
    path = tmp_path / "values.yaml"
    path.write_text(yaml.safe_dump({"settings": {"policy": policy, **others}}))
    return path


@pytest.mark.parametrize("policy", POLICIES, ids=",".join)
def test_the_operator_and_the_admission_policy_get_the_same_values(
    helm: Helm, tmp_path: Path, policy: Manifest
) -> None:
    file = values(tmp_path, policy, clusterDomain="example.com")
    container = helm.one("Deployment", files=[file])["spec"]["template"]["spec"]["containers"][0]
    given = {one["name"]: one["value"] for one in container["env"]}
    settings = Settings(policy=given[f"{PREFIX}POLICY"], cluster_domain=given[f"{PREFIX}CLUSTER_DOMAIN"])
    assert settings.policy == AdministratorPolicy.model_validate(policy)
    found = helm.one("ConfigMap", files=[file])
    assert found["metadata"]["name"] == f"{RELEASE}-policy"
    assert found["data"] == parameters(settings.policy, "example.com")


@pytest.mark.parametrize(
    ("sets", "scope"),
    [
        ((), PolicyScope(NAMESPACE, RELEASE)),
        (("fullnameOverride=models",), PolicyScope(NAMESPACE, "models")),
    ],
)
def test_the_policy_and_its_parameters_are_named_after_the_release(
    helm: Helm, sets: tuple[str, ...], scope: PolicyScope
) -> None:
    others = ("admissionPolicy.create=false", "operatorPolicy.create=false")
    rendered = helm.objects(*others, *sets)
    expected = administrator_policy(scope)
    assert [one for one in rendered if one["kind"] in {one["kind"] for one in expected}] == expected
    reference = expected[1]["spec"]["paramRef"]
    assert any(
        (one["kind"], one["metadata"]["name"]) == ("ConfigMap", reference["name"])
        and one["metadata"]["namespace"] == reference["namespace"]
        for one in rendered
    )


def test_the_parameters_name_the_namespaces_of_the_operator(helm: Helm) -> None:
    found = helm.one("ConfigMap", "scope.namespaces={a,b}")
    assert found["data"] == parameters(AdministratorPolicy(), "cluster.local", ["a", "b"])


def test_the_chart_contains_the_generated_policy_and_can_leave_it_out(helm: Helm) -> None:
    generated = list(yaml.safe_load_all((CHART / "files" / "owner-policy.yaml").read_text()))
    assert generated == administrator_policy(PLACEHOLDERS), "stale: run `make crd`"
    others = ("admissionPolicy.create=false", "operatorPolicy.create=false", "ownerPolicy.create=false")
    assert not {one["kind"] for one in generated} & {one["kind"] for one in helm.objects(*others)}


@pytest.mark.parametrize(
    ("wrong", "path"),
    [
        ({"modelSources": {"allowed": ["gs://bucket"]}}, "modelSources/allowed/0"),
        ({"modelSources": {"allowed": ["oci://registry.example"]}}, "modelSources/allowed/0"),
        ({"modelSources": {"allowed": ["hf://a,hf://b"]}}, "modelSources/allowed/0"),
        ({"images": {"allowed": ["registry.example"]}}, "images/allowed/0"),
        ({"hubs": {"allowed": ["hub.example"]}}, "hubs/allowed/0"),
        ({"s3Endpoints": {"allowed": []}}, "s3Endpoints/allowed"),
        ({"s3Endpoints": {"allowed": ["public"]}}, "s3Endpoints/allowed/0"),
        ({"gpus": {"most": -1}}, "gpus/most"),
        ({"evictionWait": {"most": "1h30m"}}, "evictionWait/most"),
        ({"autoscalingBackends": {"allowed": ["None"]}}, "autoscalingBackends/allowed/0"),
        ({"gpus": {"message": "two\nlines"}}, "gpus/message"),
    ],
)
def test_a_wrong_rule_is_refused_by_the_chart_and_by_the_operator(
    helm: Helm, tmp_path: Path, wrong: Manifest, path: str
) -> None:
    file = values(tmp_path, wrong)
    done = helm.run("template", RELEASE, str(CHART), f"--values={file}")
    assert f"at '/settings/policy/{path}'" in done.stderr
    with pytest.raises(ValueError, match="validation error"):
        Settings(policy=json.dumps(wrong))
