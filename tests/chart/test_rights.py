import pytest

from inference_operator.manifest import Manifest
from tests.chart.helm import NAMESPACE, RELEASE, Helm

TWO_NAMESPACES = "scope.namespaces={team-a,team-b}"
LEASE = f"{RELEASE}-lease"
SECRET_DOORS = {"secrets", "pods/exec", "pods/attach", "pods/proxy", "serviceaccounts/token"}


def by_kind(objects: list[Manifest], kind: str) -> dict[str, Manifest]:
    return {found["metadata"]["name"]: found for found in objects if found["kind"] == kind}


def test_cluster_and_namespace_scope_grant_the_same_rules_except_for_nodes(helm: Helm) -> None:
    cluster = by_kind(helm.objects(), "ClusterRole")[RELEASE]
    roles = [
        found
        for found in helm.objects(TWO_NAMESPACES)
        if found["kind"] == "Role" and found["metadata"]["name"] == RELEASE
    ]
    assert [role["metadata"]["namespace"] for role in roles] == ["team-a", "team-b"]
    everywhere = [rule for rule in cluster["rules"] if rule["resources"] != ["nodes"]]
    assert len(everywhere) == len(cluster["rules"]) - 1
    assert all(role["rules"] == everywhere for role in roles)


def test_namespace_scope_creates_no_cluster_role_for_the_operator(helm: Helm) -> None:
    objects = helm.objects(TWO_NAMESPACES)
    assert RELEASE not in by_kind(objects, "ClusterRole")
    assert not by_kind(objects, "ClusterRoleBinding")


@pytest.mark.parametrize(("sets", "binding"), [((), "ClusterRoleBinding"), ((TWO_NAMESPACES,), "RoleBinding")])
def test_roles_are_bound_to_the_service_account_of_the_operator_only(
    helm: Helm, sets: tuple[str, ...], binding: str
) -> None:
    bindings = [found for found in helm.objects(*sets) if found["kind"] == binding]
    account = {"kind": "ServiceAccount", "name": RELEASE, "namespace": NAMESPACE}
    assert bindings
    assert all(found["subjects"] == [account] for found in bindings)
    assert {found["roleRef"]["name"] for found in bindings} <= {RELEASE, LEASE}


@pytest.mark.parametrize("sets", [(), (TWO_NAMESPACES,)])
def test_the_operator_may_write_only_the_lease_in_its_own_namespace(helm: Helm, sets: tuple[str, ...]) -> None:
    (role,) = (found for found in helm.objects(*sets) if found["kind"] == "Role" and found["metadata"]["name"] == LEASE)
    assert role["metadata"]["namespace"] == NAMESPACE
    assert [(rule["resources"], rule.get("resourceNames"), rule["verbs"]) for rule in role["rules"]] == [
        (["leases"], None, ["create"]),
        (["leases"], [RELEASE], ["get", "update"]),
    ]


def test_the_operator_has_no_wildcard_rights_and_no_rights_that_give_access_to_secrets(helm: Helm) -> None:
    for rule in by_kind(helm.objects(), "ClusterRole")[RELEASE]["rules"]:
        assert "*" not in {*rule["apiGroups"], *rule["resources"], *rule["verbs"]}
        doors = SECRET_DOORS & set(rule["resources"])
        assert not doors or (doors, rule["verbs"]) == ({"secrets"}, ["create"]), "it can make a Secret, and read none"


def test_the_operator_has_no_right_to_write_specs_of_users(helm: Helm) -> None:
    (rule,) = (
        rule
        for rule in by_kind(helm.objects(), "ClusterRole")[RELEASE]["rules"]
        if "inferencedeployments" in rule["resources"]
    )
    assert not set(rule["verbs"]) - {"get", "list", "watch"}


def test_the_built_in_roles_cover_the_resource_and_leave_status_to_the_operator(helm: Helm) -> None:
    roles = by_kind(helm.objects(), "ClusterRole")
    view, edit = roles[f"{RELEASE}-view"], roles[f"{RELEASE}-edit"]
    aggregate = "rbac.authorization.k8s.io/aggregate-to-"
    assert view["metadata"]["labels"][f"{aggregate}view"] == "true"
    assert {f"{aggregate}edit", f"{aggregate}admin"} <= edit["metadata"]["labels"].keys()
    assert all(set(rule["verbs"]) <= {"get", "list", "watch"} for rule in view["rules"])
    granted = {resource for rule in edit["rules"] for resource in rule["resources"]}
    assert granted == {"inferencedeployments", "inferencedeployments/scale", "modelgateways"}


def test_the_chart_can_leave_out_the_roles_of_users(helm: Helm) -> None:
    assert set(by_kind(helm.objects("userRoles.create=false"), "ClusterRole")) == {RELEASE}


def test_the_right_to_read_logs_follows_the_setting_read_logs(helm: Helm) -> None:
    def resources(*sets: str) -> set[str]:
        rules = by_kind(helm.objects(*sets), "ClusterRole")[RELEASE]["rules"]
        return {resource for rule in rules for resource in rule["resources"]}

    assert resources() - resources("settings.readLogs=false") == {"pods/log"}
