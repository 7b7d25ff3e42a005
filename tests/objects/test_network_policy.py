import pytest

from inference_operator.manifest import NETWORK_POLICY, Manifest, Ref
from inference_operator.settings import Settings
from tests.testing.builders import inference_deployment, planned
from tests.testing.schemas import validate

ENGINES, ROUTERS = Ref(NETWORK_POLICY, "default", "qwen-engine"), Ref(NETWORK_POLICY, "default", "qwen-router")
OPERATOR = {
    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "platform"}},
    "podSelector": {"matchLabels": {"app.kubernetes.io/name": "inference-operator"}},
}
MONITORING = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring", "team": "sre"}}}
OWN_ROUTERS = {
    "podSelector": {"matchLabels": {"app.kubernetes.io/component": "router", "inference-operator.dev/name": "qwen"}}
}

KEYS: Manifest = {"keys": {"secretRef": {"name": "users"}}}


def policies(*metrics_from: str, router: Manifest | None = None) -> dict[Ref, Manifest]:
    settings = Settings(network_policies=True, lease_namespace="platform", metrics_from=metrics_from)
    return {
        ref: m
        for ref, m in planned(inference_deployment(router=router or {}), settings=settings).desired.items()
        if ref.kind == NETWORK_POLICY
    }


def admitted(policy: Manifest) -> dict[int, list[Manifest]]:
    """The peers that may connect, by port; an empty list means everybody."""
    rules = policy["spec"]["ingress"]
    return {port["port"]: rule.get("from", []) for rule in rules for port in rule["ports"]}


def test_no_network_policies_exist_without_the_setting() -> None:
    assert not [ref for ref in planned(inference_deployment()).desired if ref.kind == NETWORK_POLICY]


def test_with_api_keys_engines_accept_only_their_routers_and_readers_of_metrics_by_default() -> None:
    settings = Settings(lease_namespace="platform", metrics_from=("kubernetes.io/metadata.name=monitoring", "team=sre"))
    decided = planned(inference_deployment(router=KEYS), settings=settings).desired
    assert [ref for ref in decided if ref.kind == NETWORK_POLICY] == [ENGINES], "routers stay open to all"
    assert admitted(decided[ENGINES]) == {8000: [OWN_ROUTERS, OPERATOR, MONITORING]}
    off = settings.model_copy(update={"network_policies_with_keys": False})
    assert ENGINES not in planned(inference_deployment(router=KEYS), settings=off).desired


def test_engines_accept_only_their_own_routers_and_the_operator() -> None:
    assert admitted(policies()[ENGINES]) == {8000: [OWN_ROUTERS, OPERATOR]}


def test_routers_accept_all_clients_but_metrics_ports_accept_only_the_operator_and_each_other() -> None:
    found = admitted(policies()[ROUTERS])
    assert found.pop(8080) == []
    assert found == {9100: [OPERATOR, OWN_ROUTERS], 9101: [OPERATOR, OWN_ROUTERS]}


@pytest.mark.parametrize("limits", [{}, {"requestsPerMinute": 60}, {"maxConcurrent": 60}], ids=str)
def test_routers_read_each_other_with_and_without_limits_of_users(limits: Manifest) -> None:
    found = admitted(policies(router={"keys": {"secretRef": {"name": "users"}, **limits}})[ROUTERS])
    assert [found[port] for port in (9100, 9101)] == [[OPERATOR, OWN_ROUTERS]] * 2


def test_pods_in_namespaces_of_the_metrics_from_setting_may_read_metrics() -> None:
    labels = ("kubernetes.io/metadata.name=monitoring", "team=sre")
    found = policies(*labels)
    assert admitted(found[ENGINES])[8000] == [OWN_ROUTERS, OPERATOR, MONITORING]
    readers = [OPERATOR, MONITORING, OWN_ROUTERS]
    assert {admitted(found[ROUTERS])[port] == readers for port in (9100, 9101)} == {True}


@pytest.mark.parametrize("ref", [ENGINES, ROUTERS], ids=str)
def test_a_network_policy_restricts_only_ingress(ref: Ref) -> None:
    assert policies()[ref]["spec"]["policyTypes"] == ["Ingress"]


@pytest.mark.parametrize("ref", [ENGINES, ROUTERS], ids=str)
def test_a_network_policy_is_valid_for_kubernetes(ref: Ref) -> None:
    validate(policies()[ref])
