"""The admission policy: which rights it requires of a user, for which fields."""

import re
from pathlib import Path

import pytest

from inference_operator.api.admission_policy import (
    AMOUNTS,
    ENVIRONMENTS,
    GPU_RESOURCE_NAME,
    MAX_SECRETS,
    NEEDS_PODS,
    NEEDS_RESOURCES,
    SECRET_NAMES,
    policy,
)
from inference_operator.api.crd import crd
from inference_operator.cli.main import dump
from inference_operator.manifest import Manifest
from tests.testing.schemas import validate

COMMITTED = Path(__file__).parents[2] / "charts" / "inference-operator" / "files" / "policy.yaml"
SPEC: Manifest = crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
POLICY = policy()[0]["spec"]


def node_of(path: str) -> Manifest:
    node = SPEC
    for step in path.split("."):
        node = node["properties"][step.partition("[")[0]]
        node = node["items"] if "[" in step else node
    return node


def paths_of(node: Manifest, wanted: str, path: str = "") -> set[str]:
    """Every place of the schema where a field of that name can stand."""
    found = {f"{path}.{name}".strip(".") for name in node.get("properties", {}) if name == wanted}
    for name, part in node.get("properties", {}).items():
        found |= paths_of(part.get("items", part), wanted, f"{path}.{name}")
    return found


def test_the_committed_admission_policy_equals_the_generated_policy() -> None:
    assert COMMITTED.read_text() == dump(policy()), "stale: run `make crd`"


@pytest.mark.parametrize("manifest", policy(), ids=lambda one: str(one["kind"]))
def test_the_admission_policy_is_valid(manifest: Manifest) -> None:
    validate(manifest)


@pytest.mark.parametrize(
    "path",
    [
        *NEEDS_PODS,
        *(path for path, _, _ in NEEDS_RESOURCES),
        *ENVIRONMENTS,
        *SECRET_NAMES,
        *AMOUNTS,
        GPU_RESOURCE_NAME,
    ],
)
def test_every_field_that_the_admission_policy_guards_exists_in_the_spec(path: str) -> None:
    assert node_of(path)


def test_every_secret_reference_of_the_spec_is_guarded_by_the_admission_policy() -> None:
    named = paths_of(SPEC, "secretKeyRef")
    guarded = {re.sub(r"\[\d+\]", "", path) + ".valueFrom.secretKeyRef" for path in ENVIRONMENTS}
    assert named == guarded


def test_the_spec_has_no_field_for_a_secret_volume() -> None:
    assert not paths_of(SPEC, "secret")


def test_the_admission_policy_matches_the_resource_without_its_status_and_scale() -> None:
    (rule,) = POLICY["matchConstraints"]["resourceRules"]
    assert rule["resources"] == ["inferencedeployments"]
    assert rule["operations"] == ["CREATE", "UPDATE"]


def test_every_check_of_the_admission_policy_has_a_message_and_all_fit_the_cost_budget() -> None:
    checks = POLICY["validations"]
    others = 3  # the GPU resource, the claim of the model, and many Secrets
    assert len(checks) == len(NEEDS_PODS) + len(NEEDS_RESOURCES) + len(AMOUNTS) + MAX_SECRETS + others
    assert all(check["messageExpression"] and check["reason"] == "Forbidden" for check in checks)
    assert sum("authorizer" in check["expression"] for check in checks) + 1 <= 28
