"""The admission policies of the operator's own account: what they match, and that they cover its rights."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from inference_operator.admission.operator_policy import (
    ACCOUNTS_ANNOTATION,
    GUARDED_KINDS,
    REPORTING_CONTROLLER,
    SYSTEM_NAMESPACES,
    TEXT,
    OperatorAccount,
    operator_policies,
)
from inference_operator.cli.output import dump
from inference_operator.controller.cluster import FIELD_MANAGER
from inference_operator.manifest import (
    CLAIM,
    DEPLOYMENT,
    DISRUPTION_BUDGET,
    GROUP,
    HORIZONTAL_POD_AUTOSCALER,
    INFERENCE_DEPLOYMENT,
    INFERENCE_POOL,
    JOB,
    KIND,
    NETWORK_POLICY,
    POD,
    RESOURCE_KINDS,
    SCALED_OBJECT,
    SECRET,
    SERVICE,
    STATEFUL_SET,
    Kind,
    Manifest,
)
from inference_operator.objects.child import RETAIN_ANNOTATION
from inference_operator.objects.engine_key import KEY_TYPE
from inference_operator.objects.gateway_key import GATEWAY_KEY_TYPE
from inference_operator.objects.names import COMPONENT_LABEL, MANAGED_BY_LABEL, MANAGER, NAME_LABEL
from inference_operator.objects.pod import MEMORY_LOCK
from inference_operator.views.pod import GROUP_LABEL
from tests.testing.schemas import validate
from tests.testing.second_kind import ROSTER

CHART = Path(__file__).parents[2] / "charts" / "inference-operator"
COMMITTED = CHART / "files" / "operator-policy.yaml"
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


def test_the_charts_copy_of_the_operator_policy_is_that_of_the_package() -> None:
    assert COMMITTED.read_text() == TEXT, "stale: run `make crd`"


def test_the_names_in_the_policies_of_the_operator_are_those_of_the_code() -> None:
    """The YAML writes names out, which the code has as constants."""
    parts = [policy["spec"].get(part, []) for policy in POLICIES for part in ("variables", "validations")]
    expressions = " ".join(item["expression"] for part in parts for item in part)
    quoted, keys = (set(re.findall(pattern, expressions)) for pattern in (r"'([^']*)'", r"\[\?'([^']+)'\]"))
    enforced = "pod-security.kubernetes.io/enforce"
    of_objects = {MANAGED_BY_LABEL, COMPONENT_LABEL, NAME_LABEL, RETAIN_ANNOTATION, GROUP_LABEL}
    assert keys == {*of_objects, ACCOUNTS_ANNOTATION, enforced}
    assert {MANAGER, KIND, f"{GROUP}/", REPORTING_CONTROLLER, KEY_TYPE, MEMORY_LOCK, *SYSTEM_NAMESPACES} <= quoted
    assert {name for name in quoted if name.startswith(GROUP)} <= {
        *keys,
        f"{GROUP}/",
        REPORTING_CONTROLLER,
        KEY_TYPE,
        GATEWAY_KEY_TYPE,
    }
    assert {kind.plural for kind in (CLAIM, STATEFUL_SET, JOB)} <= quoted


def test_the_policies_match_the_kinds_of_objects_that_the_operator_makes() -> None:
    by_part = {
        policy["metadata"]["name"].split(".")[0]: [
            (rule["apiGroups"][0], rule["apiVersions"][0], rule["resources"][0])
            for rule in policy["spec"]["matchConstraints"]["resourceRules"]
        ]
        for policy in POLICIES
    }

    def rules(*kinds: Kind) -> list[tuple[str, str, str]]:
        return [
            (kind.api_version.rpartition("/")[0], kind.api_version.rpartition("/")[2], kind.plural) for kind in kinds
        ]

    assert by_part["children"] == rules(*GUARDED_KINDS)
    assert by_part["selectors"] == rules(SERVICE, INFERENCE_POOL, DISRUPTION_BUDGET, NETWORK_POLICY)
    assert by_part["templates"] == rules(DEPLOYMENT, STATEFUL_SET, JOB)
    assert by_part["autoscalers"] == rules(HORIZONTAL_POD_AUTOSCALER, SCALED_OBJECT)
    resources = rules(*RESOURCE_KINDS)
    subresources = [(*resource[:2], f"{resource[2]}/*") for resource in resources]
    assert by_part["resources"] == [*resources, *subresources]
    for part, kind in (("secrets", SECRET), ("services", SERVICE), ("pods", POD)):
        assert by_part[part] == rules(kind)


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


def test_what_an_operator_with_two_kinds_may_do_for_one_it_may_do_for_the_other() -> None:
    both = operator_policies(OperatorAccount("inference", "models", kinds=(INFERENCE_DEPLOYMENT, ROSTER)))[::2]
    checks = [check for policy in both for check in policy["spec"]["validations"]]
    texts = [text for check in checks for text in (check["expression"], check["message"]) if KIND in text]
    assert {"Roster" in text for text in texts if "autoscaler" not in text and "scaleTargetRef" not in text} == {True}
    rules = [rule for policy in both for rule in policy["spec"]["matchConstraints"]["resourceRules"]]
    assert [rule["resources"] for rule in rules if "rosters" in str(rule)] == [["rosters"], ["rosters/*"]]


def test_the_policy_knows_the_reporting_controller_of_the_operators_events() -> None:
    assert f"{GROUP}/{FIELD_MANAGER}" == REPORTING_CONTROLLER
