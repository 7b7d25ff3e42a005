"""The policies for writers: valid, committed, within the cost budget, and of the fields that exist."""

import re
from pathlib import Path

import pytest

from inference_operator.admission.references import name_fields
from inference_operator.admission.rights import AMOUNTS, CONSENTS, NEEDS_PODS, NEEDS_RESOURCES
from inference_operator.admission.writer_policy import CHILDREN, writer_policies
from inference_operator.api.crd import crd
from inference_operator.cli.output import dump
from inference_operator.engines.registry import ENGINES
from inference_operator.manifest import GROUP, PLURAL, Key, Manifest, Owner
from inference_operator.objects.engine_key import key_secret_name
from inference_operator.objects.names import MANAGED_BY_LABEL, MANAGER
from tests.testing.schemas import validate

COMMITTED = Path(__file__).parents[2] / "charts" / "inference-operator" / "files" / "policy.yaml"
SPEC: Manifest = crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
POLICIES = writer_policies(ENGINES.option_classes)
AUTHORIZER_CHECKS = 28
"""The cost budget of a policy divided by the cost of an authorizer check (Kubernetes 1.36, apiserver,
pkg/apis/cel/config.go and pkg/cel/library/cost.go)."""


def leaves(node: Manifest, path: str = "") -> set[str]:
    """The paths of all strings below `spec`."""
    if "items" in node:
        return leaves(node["items"], f"{path}[]")
    if "properties" in node:
        fields = node["properties"].items()
        return {leaf for name, part in fields for leaf in leaves(part, f"{path}.{name}".strip("."))}
    return {path} if node.get("type") == "string" else set()


def test_the_committed_policies_equal_the_generated_policies() -> None:
    assert COMMITTED.read_text() == dump(POLICIES), "stale: run `make crd`"


@pytest.mark.parametrize("manifest", POLICIES, ids=lambda one: f"{one['kind']}-{one['metadata']['name']}")
def test_the_policies_are_valid(manifest: Manifest) -> None:
    validate(manifest)


def test_each_field_whose_name_tells_of_a_secret_config_map_or_claim_is_marked_as_the_name_of_one() -> None:
    named = {leaf for leaf in leaves(SPEC) if re.search("secret|configmap|claim|pvc", leaf, re.IGNORECASE)}
    marked = {field.path for field in name_fields() if not field.name_of.scheme}
    assert marked == {leaf for leaf in named if not leaf.endswith((".key", ".path"))}


def test_sources_of_models_and_adapters_are_marked_as_names_of_claims() -> None:
    found = {field.path: field.name_of.scheme for field in name_fields() if field.name_of.scheme}
    assert found == {"model.source": "pvc://", "model.adapters[].source": "pvc://"}


def test_the_names_in_the_policies_of_children_are_those_of_the_code() -> None:
    name = key_secret_name(Owner(Key("models", "qwen"), "0f8e3b1c-6d4a-4c58-9c2e-8a7d2f1b5e60"))
    quoted = set(re.findall(r"'([^']*)'", "\n".join(line for line in CHILDREN.splitlines() if line[:1] != "#")))
    (form,) = {text for text in quoted if text.startswith("-")}
    assert re.search(form, name)
    for honest in ("search-engine-key-prod", "engine-key-0f8e3b1c-old", "jet-engine-key-0f8e3b1c2", "qwen-engine-keys"):
        assert not re.search(form, honest)
    assert {MANAGED_BY_LABEL, MANAGER, GROUP, PLURAL} <= quoted


def test_each_marked_field_stands_in_a_policy() -> None:
    variables = [manifest["spec"].get("variables", []) for manifest in POLICIES]
    expressions = [variable["expression"] for policy in variables for variable in policy]
    for field in name_fields():
        for text in (field.cel("object"), field.cel("oldObject")):
            assert any(text in expression for expression in expressions), field.path


@pytest.mark.parametrize(
    "path", [*NEEDS_PODS, *CONSENTS, *(path for path, _, _ in NEEDS_RESOURCES), *AMOUNTS, "hardware.gpu.resourceName"]
)
def test_each_field_that_the_policies_check_exists(path: str) -> None:
    node = SPEC
    for step in path.split("."):
        node = node["properties"][step]
    assert node


def test_the_policies_apply_to_the_resource_without_its_status_and_scale() -> None:
    policies = [manifest for manifest in POLICIES if manifest["kind"] == "ValidatingAdmissionPolicy"]
    rules = [rule for policy in policies for rule in policy["spec"]["matchConstraints"]["resourceRules"]]
    of_children = [["secrets"], ["configmaps"]]
    assert [rule["resources"] for rule in rules] == [["inferencedeployments"]] * 4 + [["modelgateways"]] + of_children
    for policy, rule in zip(policies, rules, strict=True):
        assert rule["operations"] == ["CREATE", "UPDATE"]
        assert policy["spec"]["failurePolicy"] == "Fail"


def test_each_check_has_a_message_and_the_authorizer_checks_of_a_policy_fit_its_budget() -> None:
    for policy in (one["spec"] for one in POLICIES if one["kind"] == "ValidatingAdmissionPolicy"):
        parts = [*policy["variables"], *policy["validations"]]
        assert sum(part["expression"].count(".allowed()") for part in parts) < AUTHORIZER_CHECKS
        for check in policy["validations"]:
            assert check.get("messageExpression") or check["message"].endswith(".")
            assert check["reason"] == "Forbidden"
            assert check["expression"].count(".allowed()") <= 2, "the limit of one expression"


def test_each_policy_is_bound_to_deny() -> None:
    bound = {one["spec"]["policyName"]: one["spec"] for one in POLICIES if one["kind"].endswith("Binding")}
    named = {one["metadata"]["name"] for one in POLICIES if one["kind"] == "ValidatingAdmissionPolicy"}
    assert set(bound) == named
    assert all(one["validationActions"] == ["Deny"] for one in bound.values())
