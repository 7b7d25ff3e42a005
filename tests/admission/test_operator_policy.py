"""The admission policies of the operator's own account: what they match, and that they cover its rights."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from inference_operator.admission.operator_policy import (
    REPORTING_CONTROLLER,
    OperatorAccount,
    operator_policies,
)
from inference_operator.cli.output import dump
from inference_operator.controller.cluster import FIELD_MANAGER
from inference_operator.manifest import GROUP, Manifest
from tests.testing.schemas import validate

CHART = Path(__file__).parents[2] / "charts" / "inference-operator"
COMMITTED = CHART / "files" / "operator-policy.yaml"
PLACEHOLDERS = OperatorAccount("OPERATOR_NAMESPACE", "OPERATOR_NAME", "OPERATOR_ACCOUNT", ("POD_ACCOUNTS",))
OPERATOR = OperatorAccount("inference", "models")
POLICIES = operator_policies(OPERATOR)[::2]
OPERATIONS = {"create": "CREATE", "update": "UPDATE", "patch": "UPDATE", "delete": "DELETE"}
"""The operation of an admission request, by the verb of RBAC."""


def granted() -> set[tuple[str, str, str]]:
    """Group, resource and operation of every right to write in the chart's rules, with all values on."""
    text = (CHART / "templates" / "_rules.tpl").read_text()
    lines = re.sub(r"{{.*?}}", "", text, flags=re.DOTALL).splitlines()
    rules = yaml.safe_load("\n".join(line for line in lines if line.startswith(("- ", "  "))))
    return {
        (group, resource, OPERATIONS[verb])
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        if verb in OPERATIONS
    }


def matched() -> set[tuple[str, str, str]]:
    """The same of every request that a policy matches."""
    return {
        (group, resource, operation)
        for policy in POLICIES
        for rule in policy["spec"]["matchConstraints"]["resourceRules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for operation in rule["operations"]
    }


def covers(right: tuple[str, str, str]) -> bool:
    group, resource, operation = right
    main, _, subresource = resource.partition("/")
    return bool({(group, resource, operation), *([(group, f"{main}/*", operation)] if subresource else [])} & matched())


def test_every_right_of_the_operator_to_write_is_limited_by_a_policy() -> None:
    rights = granted()
    assert ("apps", "deployments", "CREATE") in rights
    assert ("networking.k8s.io", "networkpolicies", "DELETE") in rights
    assert ("coordination.k8s.io", "leases", "UPDATE") in rights
    review = ("authorization.k8s.io", "localsubjectaccessreviews", "CREATE")  # a question, of which nothing is stored
    assert {right for right in rights if not covers(right)} == {review}


def test_the_committed_operator_policy_equals_the_generated_policy() -> None:
    assert COMMITTED.read_text() == dump(operator_policies(PLACEHOLDERS)), "stale: run `make crd`"


@pytest.mark.parametrize("manifest", operator_policies(OPERATOR), ids=lambda one: f"{one['kind']}")
def test_the_policies_of_the_operator_are_valid(manifest: Manifest) -> None:
    validate(manifest)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda one: str(one["metadata"]["name"]))
def test_a_policy_of_the_operator_fails_closed_and_matches_nobody_else(policy: dict[str, Any]) -> None:
    spec = policy["spec"]
    assert spec["failurePolicy"] == "Fail"
    user = "request.userInfo.username == 'system:serviceaccount:inference:models'"
    assert spec["matchConditions"] == [{"name": "operator", "expression": user}]
    # With parameters, a missing parameter object would refuse the requests of everybody: they are looked up before the
    # match conditions (k8s.io/apiserver v0.36.3, pkg/admission/plugin/policy/generic/policy_dispatcher.go).
    assert "paramKind" not in spec


@pytest.mark.parametrize("policy", POLICIES, ids=lambda one: str(one["metadata"]["name"]))
def test_a_policy_of_the_operator_names_kinds_and_versions_so_that_its_types_are_checked(
    policy: dict[str, Any],
) -> None:
    for rule in policy["spec"]["matchConstraints"]["resourceRules"]:
        assert "*" not in {*rule["apiGroups"], *rule["apiVersions"]}


def test_every_check_of_the_operators_policies_has_a_message_of_one_line() -> None:
    checks = [check for policy in POLICIES for check in policy["spec"]["validations"]]
    assert len(checks) > len(POLICIES)
    assert all(check["message"].endswith(".") and "\n" not in check["message"] for check in checks)


def test_each_policy_has_a_binding_of_its_own_name_that_denies() -> None:
    both = operator_policies(OPERATOR)
    for policy, binding in zip(both[::2], both[1::2], strict=True):
        assert binding["metadata"] == policy["metadata"]
        assert binding["spec"] == {"policyName": policy["metadata"]["name"], "validationActions": ["Deny"]}


def test_two_operators_share_no_policy() -> None:
    names = [
        {one["metadata"]["name"] for one in operator_policies(OperatorAccount(namespace, name))}
        for namespace, name in (("a", "b"), ("b", "b"), ("a", "c"))
    ]
    assert len(set.union(*names)) == sum(map(len, names))


def test_the_service_accounts_of_the_settings_are_allowed() -> None:
    named = OperatorAccount("inference", "models", pod_accounts=("a", "b"))
    assert "in 'a,b'.split(',')" in dump(operator_policies(named))


def test_the_policy_knows_the_reporting_controller_of_the_operators_events() -> None:
    assert f"{GROUP}/{FIELD_MANAGER}" == REPORTING_CONTROLLER
