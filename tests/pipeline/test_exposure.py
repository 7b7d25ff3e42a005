"""Service types, Ingress, HTTPRoute, TLS and `External`: objects, their order and what status says about them."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import timedelta

import pytest

from inference_operator.api.reasons import ConditionType
from inference_operator.api.refusal import Refusal
from inference_operator.api.resource import resource
from inference_operator.api.spec import Spec
from inference_operator.manifest import (
    HTTP_ROUTE,
    INFERENCE_POOL,
    INGRESS,
    NETWORK_POLICY,
    SERVICE,
    Kind,
    Manifest,
    Ref,
)
from inference_operator.objects.gateway_key import GATEWAY_KEY_SECRET
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.outcomes import Planned, Refused
from inference_operator.settings import Settings
from inference_operator.status.report import Report, report
from tests.testing.builders import (
    BUDGET_OF_ROUTERS,
    CONFIG,
    ENGINES,
    NOW,
    ROUTERS,
    SERVICE_OF_ENGINES,
    SERVICE_OF_ROUTERS,
    deployment_status,
    inference_deployment,
    inputs,
    planned,
)

INGRESS_OF_ROUTERS, ROUTE = Ref(INGRESS, "default", "qwen"), Ref(HTTP_ROUTE, "default", "qwen")
POOL = Ref(INFERENCE_POOL, "default", "qwen")
POOLED = {"strategy": "External", "inferencePool": {"endpointPickerRef": {"name": "epp"}}}
SERVICE_OF_PEERS = Ref(SERVICE, "default", "qwen-routers")
OF_ROUTERS = {ROUTERS, CONFIG, SERVICE_OF_PEERS, BUDGET_OF_ROUTERS}
"""Objects without which no router serves, or asks the others, and the budget of the two routers."""
EXTERNAL = inference_deployment(router={"strategy": "External"})
LOAD_BALANCER = {"service": {"type": "LoadBalancer"}}
HTTP_ROUTED = {"httpRoute": {"parentRefs": [{"name": "gw", "sectionName": "https"}], "hostnames": ["llm.example.com"]}}
ACCEPTED = {"parents": [{"conditions": [{"type": "Accepted", "status": "True"}]}]}
OWN = {"type": "SyncedToCloud", "status": "False", "reason": "Waiting"}
REFUSED = {"type": "ResolvedRefs", "status": "False", "reason": "RefNotPermitted", "message": "no grant"}


def live(raw: Manifest, *, ready: int = 1) -> dict[Ref, Manifest]:
    """The objects of a resource that serves; `ready` is that of each Deployment."""
    found = planned(raw).desired
    return {
        ref: {**one, "status": deployment_status(1, ready=ready)} if ref in (ENGINES, ROUTERS) else one
        for ref, one in found.items()
    }


def reported(raw: Manifest, children: Iterable[Manifest], unavailable: Mapping[Kind, str] | None = None) -> Report:
    seen = replace(inputs(raw, children=children), unavailable_kinds=unavailable or {})
    return report(seen, outcome(seen), ())


def condition(result: Report, kind: ConditionType) -> tuple[str, str]:
    found = result.status.condition(kind)
    return ("", "") if found is None else (found.status, found.reason)


def test_a_router_inside_the_cluster_has_no_condition_exposed_and_no_external_url() -> None:
    raw = inference_deployment()
    status = reported(raw, live(raw).values()).status
    assert status.condition(ConditionType.EXPOSED) is None
    assert "externalURLs" not in status.dump()


def test_external_has_no_object_of_a_router_and_its_service_selects_the_engines() -> None:
    desired = planned(EXTERNAL).desired
    assert not OF_ROUTERS & desired.keys()
    service, engines = desired[SERVICE_OF_ROUTERS]["spec"], desired[SERVICE_OF_ENGINES]["spec"]
    assert service["selector"] == engines["selector"]
    assert [(port["port"], port["targetPort"]) for port in service["ports"]] == [(80, 8000)]


def test_external_serves_without_a_router_and_says_where_the_engines_are() -> None:
    result = reported(EXTERNAL, live(EXTERNAL).values())
    assert condition(result, ConditionType.READY) == ("True", "Serving")
    assert condition(result, ConditionType.ROUTER_AVAILABLE) == ("True", "ExternalRouting")
    message = result.status.condition(ConditionType.ROUTER_AVAILABLE)
    assert message
    assert "port 8000" in message.message
    assert "app.kubernetes.io/component=engine,inference-operator.dev/name=qwen" in message.message


def test_the_routers_stay_until_the_live_service_selects_the_engines() -> None:
    children = live(inference_deployment(replicas=2))
    decided = outcome(inputs(EXTERNAL, children=children.values()))
    assert isinstance(decided, Planned)
    assert decided.desired[SERVICE_OF_ROUTERS]["spec"]["selector"]["app.kubernetes.io/component"] == "engine"
    assert {ref: decided.desired[ref] for ref in OF_ROUTERS} == {ref: children[ref] for ref in OF_ROUTERS}
    assert decided.due == NOW + timedelta(seconds=1)
    switched = {**children, SERVICE_OF_ROUTERS: decided.desired[SERVICE_OF_ROUTERS]}
    then = outcome(inputs(EXTERNAL, children=switched.values()))
    assert not OF_ROUTERS & then.desired.keys()
    assert then.due is None


@pytest.mark.parametrize(("ready", "component"), [(0, "engine"), (1, "router")])
def test_after_external_the_service_selects_engines_until_a_router_is_ready(ready: int, component: str) -> None:
    routed = live(inference_deployment(), ready=ready)
    children = {**routed, SERVICE_OF_ROUTERS: live(EXTERNAL)[SERVICE_OF_ROUTERS]}
    desired = planned(inference_deployment(), children=children.values()).desired
    assert desired[SERVICE_OF_ROUTERS]["spec"]["selector"]["app.kubernetes.io/component"] == component
    assert ROUTERS in desired


def test_the_network_policy_of_engines_admits_everybody_until_the_live_service_selects_routers() -> None:
    settings, policy = Settings(network_policies=True), Ref(NETWORK_POLICY, "default", "qwen-engine")
    children = {**live(inference_deployment()), SERVICE_OF_ROUTERS: live(EXTERNAL)[SERVICE_OF_ROUTERS]}
    switching = planned(inference_deployment(), children=children.values(), settings=settings)
    assert switching.desired[SERVICE_OF_ROUTERS]["spec"]["selector"]["app.kubernetes.io/component"] == "router"
    assert "from" not in switching.desired[policy]["spec"]["ingress"][0]
    assert switching.due == NOW + timedelta(seconds=1)


def test_the_network_policy_of_engines_admits_everybody_while_the_service_selects_them() -> None:
    settings = Settings(network_policies=True)
    policy = Ref(NETWORK_POLICY, "default", "qwen-engine")
    assert "from" not in planned(EXTERNAL, settings=settings).desired[policy]["spec"]["ingress"][0]
    assert "from" in planned(inference_deployment(), settings=settings).desired[policy]["spec"]["ingress"][0]


@pytest.mark.parametrize(
    "field",
    [
        {"tls": {"secretRef": {"name": "a"}}},
        {"ingress": {"host": "a.example.com"}},
        LOAD_BALANCER,
        {"replicas": 3},
        {"sessionHeader": "x-user"},
    ],
)
def test_external_refuses_every_other_field_of_the_router(field: Manifest) -> None:
    decided = outcome(inputs(inference_deployment(router={"strategy": "External", **field})))
    assert isinstance(decided, Refused)
    assert "every other field of `router` but `inferencePool` must be removed" in decided.refusal.message


def test_a_pool_of_external_selects_the_engines_in_traffic() -> None:
    desired = planned(inference_deployment(router=POOLED)).desired
    assert desired[POOL]["spec"] == {
        "selector": {"matchLabels": desired[SERVICE_OF_ENGINES]["spec"]["selector"]},
        "targetPorts": [{"number": 8000}],
        "endpointPickerRef": {"name": "epp", "port": {"number": 9002}},
    }
    alone = planned(inference_deployment(router={"strategy": "External", "inferencePool": {}})).desired
    assert "endpointPickerRef" not in alone[POOL]["spec"]


def test_a_pool_beside_routers_is_refused() -> None:
    refused = resource(inference_deployment(router={"inferencePool": {}})).spec
    assert isinstance(refused, Refusal)
    assert "`inferencePool` needs `strategy: External`" in refused.message


def test_a_pool_stays_while_its_kind_cannot_be_listed() -> None:
    raw = inference_deployment(router=POOLED)
    children = live(raw)
    missing = {INFERENCE_POOL: "no right to list it."}
    seen = replace(inputs(raw, children=children.values()), unavailable_kinds=missing)
    decided = outcome(seen)
    assert decided.desired[POOL] == children[POOL]
    found = report(seen, decided, ()).status.condition(ConditionType.EXPOSED)
    assert found
    assert (found.reason, found.message) == (
        "GatewayApiMissing",
        "`spec.router.inferencePool` has no effect: no right to list it.",
    )


def test_external_refuses_zero_replicas() -> None:
    decided = outcome(inputs(inference_deployment(router={"strategy": "External"}, replicas=0)))
    assert isinstance(decided, Refused)
    assert "no router holds requests at zero" in decided.refusal.message


def test_external_is_accepted_alone() -> None:
    assert isinstance(resource(EXTERNAL).spec, Spec)


@pytest.mark.parametrize(
    ("router", "path"),
    [
        ({"service": {"annotations": {"inference-operator.dev/plan": "x"}}}, "spec.router.service.annotations"),
        ({"service": {"labels": {"app.kubernetes.io/component": "x"}}}, "spec.router.service.labels"),
        ({"ingress": {"host": "a", "annotations": {"inference-operator.dev/a": ""}}}, "spec.router.ingress"),
    ],
)
def test_keys_of_the_operator_are_refused_on_exposed_objects(router: Manifest, path: str) -> None:
    decided = outcome(inputs(inference_deployment(router=router)))
    assert isinstance(decided, Refused)
    assert path in decided.refusal.message


def test_tls_adds_port_443_and_mounts_the_secret_in_both_processes() -> None:
    desired = planned(inference_deployment(router={"tls": {"secretRef": {"name": "llm-tls"}}})).desired
    ports = desired[SERVICE_OF_ROUTERS]["spec"]["ports"]
    assert [(port["port"], port["targetPort"]) for port in ports] == [(80, 8080), (443, 8443)]
    pod = desired[ROUTERS]["spec"]["template"]["spec"]
    secrets = {volume["secret"]["secretName"]: volume for volume in pod["volumes"] if "secret" in volume}
    assert secrets.keys() == {"llm-tls", GATEWAY_KEY_SECRET}
    volume = secrets["llm-tls"]
    for container in pod["containers"]:
        assert volume["name"] in {mount["name"] for mount in container["volumeMounts"]}
    assert set(desired[CONFIG]["data"]) == {
        *("haproxy.cfg", "metrics.lua", "hold.lua", "entry.lua", "peers.lua"),
        *("gateway_key.lua", "gateway_key.map", "fairness.map", "tls.lua"),
    }


def test_the_annotations_of_a_user_replace_those_that_the_operator_sets_on_an_ingress() -> None:
    timeout = "nginx.ingress.kubernetes.io/proxy-read-timeout"
    wanted = {"host": "llm.example.com", "annotations": {timeout: "60"}}
    desired = planned(inference_deployment(router={"ingress": wanted})).desired
    annotations = desired[INGRESS_OF_ROUTERS]["metadata"]["annotations"]
    assert annotations[timeout] == "60"
    assert annotations["nginx.ingress.kubernetes.io/proxy-send-timeout"] == "3600"


def test_an_http_route_has_no_timeout_and_the_gateways_it_names() -> None:
    route = planned(inference_deployment(router=HTTP_ROUTED)).desired[ROUTE]["spec"]
    assert route["parentRefs"] == [
        {"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "gw", "sectionName": "https"}
    ]
    assert route["rules"][0]["timeouts"] == {"request": "0s"}
    assert route["rules"][0]["backendRefs"][0]["port"] == 80


def route_rules(spec: Manifest, **route: object) -> list[Manifest]:
    wanted = {**HTTP_ROUTED["httpRoute"], **route}
    desired = planned(inference_deployment(**spec, router={"httpRoute": wanted})).desired
    return list(desired[ROUTE]["spec"]["rules"])


def headers_of(rule: Manifest) -> list[str]:
    return [header["value"] for match in rule["matches"] for header in match["headers"]]


def test_a_route_by_path_removes_it_and_takes_nothing_else() -> None:
    (rule,) = route_rules({}, path="/models/qwen")
    assert rule["matches"] == [{"path": {"type": "PathPrefix", "value": "/models/qwen"}}]
    assert rule["filters"] == [
        {"type": "URLRewrite", "urlRewrite": {"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/"}}}
    ]
    assert rule["timeouts"] == {"request": "0s"}


def test_a_route_by_header_takes_all_names_of_the_model_and_of_its_adapters() -> None:
    adapters = [{"name": f"a{n}", "source": f"hf://org/a{n}"} for n in range(64)]
    model = {**inference_deployment()["spec"]["model"], "adapters": adapters}
    rules = route_rules({"model": model, "cache": {"size": "100Gi"}}, modelHeader="X-Gateway-Model-Name")
    assert [len(rule["matches"]) for rule in rules] == [64, 2]
    names = [name for rule in rules for name in headers_of(rule)]
    assert names == ["qwen", "Qwen/Qwen3-8B", *(adapter["name"] for adapter in adapters)]
    assert all("filters" not in rule for rule in rules)
    (alone,) = route_rules({"model": model, "cache": {"size": "100Gi"}}, modelHeader="x-gateway-base-model-name")
    assert headers_of(alone) == ["qwen"]


def test_a_route_by_path_and_header_has_a_rule_of_each() -> None:
    by_path, by_header = route_rules({}, path="/models/qwen", modelHeader="X-Gateway-Model-Name")
    assert "headers" not in by_path["matches"][0]
    assert headers_of(by_header) == ["qwen", "Qwen/Qwen3-8B"]


@pytest.mark.parametrize(
    "path", ["/", "models/qwen", "/models/qwen/", "/models//qwen", "/../qwen", "/v1", "/v1/qwen", "/a%2fb"]
)
def test_a_path_that_no_gateway_could_remove_is_refused(path: str) -> None:
    refused = resource(inference_deployment(router={"httpRoute": {**HTTP_ROUTED["httpRoute"], "path": path}})).spec
    assert isinstance(refused, Refusal)
    assert "spec.router.httpRoute.path" in refused.message


def test_without_gateway_api_there_is_no_route_and_the_condition_names_the_fix() -> None:
    raw = inference_deployment(router=HTTP_ROUTED)
    missing = {HTTP_ROUTE: "the cluster has no httproutes. Install its CustomResourceDefinition."}
    seen = replace(inputs(raw, children=live(inference_deployment()).values()), unavailable_kinds=missing)
    decided = outcome(seen)
    assert ROUTE not in decided.desired
    result = report(seen, decided, ())
    found = result.status.condition(ConditionType.EXPOSED)
    assert found
    assert (found.status, found.reason) == ("False", "GatewayApiMissing")
    assert "Install its CustomResourceDefinition" in found.message
    assert condition(result, ConditionType.READY) == ("True", "Serving")


def test_a_default_service_keeps_no_field_of_a_load_balancer() -> None:
    service = planned(inference_deployment()).desired[SERVICE_OF_ROUTERS]
    assert service["spec"].keys() == {"type", "selector", "ports"}


ADDRESSES: dict[str, tuple[Manifest, Ref, Manifest, tuple[str, str], list[str]]] = {
    "a load balancer without address": (LOAD_BALANCER, SERVICE_OF_ROUTERS, {}, ("False", "AddressPending"), []),
    "a load balancer with IPv4": (
        LOAD_BALANCER,
        SERVICE_OF_ROUTERS,
        {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}},
        ("True", "Exposed"),
        ["http://192.0.2.1/v1"],
    ),
    "a load balancer with IPv6 and TLS": (
        {**LOAD_BALANCER, "tls": {"secretRef": {"name": "a"}}},
        SERVICE_OF_ROUTERS,
        {"loadBalancer": {"ingress": [{"ip": "2001:db8::1"}, {"hostname": "lb.example.com"}]}},
        ("True", "Exposed"),
        ["https://[2001:db8::1]/v1", "https://lb.example.com/v1"],
    ),
    "an Ingress without address": (
        {"ingress": {"host": "llm.example.com"}},
        INGRESS_OF_ROUTERS,
        {},
        ("False", "AddressPending"),
        [],
    ),
    "an Ingress with TLS": (
        {"ingress": {"host": "llm.example.com", "tlsSecretRef": {"name": "a"}}},
        INGRESS_OF_ROUTERS,
        {"loadBalancer": {"ingress": [{"hostname": "lb"}]}},
        ("True", "Exposed"),
        ["https://llm.example.com/v1"],
    ),
    "a route that no Gateway has seen": (HTTP_ROUTED, ROUTE, {}, ("False", "AddressPending"), []),
    "a route that a Gateway accepts": (
        HTTP_ROUTED,
        ROUTE,
        ACCEPTED,
        ("True", "Exposed"),
        ["https://llm.example.com/v1"],
    ),
    "a route that a Gateway refuses": (
        HTTP_ROUTED,
        ROUTE,
        {"parents": [{"conditions": [REFUSED]}]},
        ("False", "RouteNotAccepted"),
        [],
    ),
    "an accepted route with a False condition of the controller's own": (
        HTTP_ROUTED,
        ROUTE,
        {"parents": [{"conditions": [*ACCEPTED["parents"][0]["conditions"], OWN]}]},
        ("True", "Exposed"),
        ["https://llm.example.com/v1"],
    ),
    "an accepted route by path": (
        {"httpRoute": {**HTTP_ROUTED["httpRoute"], "path": "/models/qwen"}},
        ROUTE,
        ACCEPTED,
        ("True", "Exposed"),
        ["https://llm.example.com/models/qwen/v1"],
    ),
    "an accepted route by path and header": (
        {"httpRoute": {**HTTP_ROUTED["httpRoute"], "path": "/models/qwen", "modelHeader": "x-model"}},
        ROUTE,
        ACCEPTED,
        ("True", "Exposed"),
        ["https://llm.example.com/models/qwen/v1", "https://llm.example.com/v1"],
    ),
    "a pool that no Gateway uses": (POOLED, POOL, {}, ("False", "AddressPending"), []),
    "a pool that a Gateway uses": (POOLED, POOL, ACCEPTED, ("True", "Exposed"), []),
    "a pool that a Gateway refuses": (
        POOLED,
        POOL,
        {"parents": [{"conditions": [REFUSED]}]},
        ("False", "RouteNotAccepted"),
        [],
    ),
    "a pattern of an Ingress": (
        {"ingress": {"host": "*.example.com"}},
        INGRESS_OF_ROUTERS,
        {"loadBalancer": {"ingress": [{"hostname": "lb"}]}},
        ("True", "Exposed"),
        [],
    ),
    "a pattern beside a host name of a route": (
        {"httpRoute": {"parentRefs": [{"name": "gw"}], "hostnames": ["*.example.com", "llm.example.com"]}},
        ROUTE,
        ACCEPTED,
        ("True", "Exposed"),
        ["http://llm.example.com/v1"],
    ),
}


@pytest.mark.parametrize(("router", "ref", "status", "wanted", "urls"), ADDRESSES.values(), ids=ADDRESSES)
def test_status_shows_the_external_urls(
    router: Manifest, ref: Ref, status: Manifest, wanted: tuple[str, str], urls: list[str]
) -> None:
    raw = inference_deployment(router=router)
    children = live(raw)
    children[ref] = {**children[ref], "status": status}
    result = reported(raw, children.values())
    assert condition(result, ConditionType.EXPOSED) == wanted
    assert list(result.status.external_urls) == urls
    assert condition(result, ConditionType.READY) == ("True", "Serving")


@pytest.mark.parametrize(
    ("generation", "wanted"), [(3, ("False", "RouteNotAccepted")), (4, ("False", "AddressPending"))]
)
def test_a_refusal_of_a_route_counts_for_the_generation_that_it_names(generation: int, wanted: tuple[str, str]) -> None:
    raw = inference_deployment(router=HTTP_ROUTED)
    children = live(raw)
    route, refused = children[ROUTE], {**REFUSED, "observedGeneration": 3}
    meta = {**route["metadata"], "generation": generation}
    children[ROUTE] = {**route, "metadata": meta, "status": {"parents": [{"conditions": [refused]}]}}
    assert condition(reported(raw, children.values()), ConditionType.EXPOSED) == wanted


def test_a_pattern_is_named_in_the_condition() -> None:
    raw = inference_deployment(router={"ingress": {"host": "*.example.com"}})
    children = live(raw)
    status = {"loadBalancer": {"ingress": [{"hostname": "lb"}]}}
    children[INGRESS_OF_ROUTERS] = {**children[INGRESS_OF_ROUTERS], "status": status}
    found = reported(raw, children.values()).status.condition(ConditionType.EXPOSED)
    assert found
    assert "`*.example.com` stands for many names" in found.message


def test_a_node_port_is_named_in_the_condition() -> None:
    raw = inference_deployment(router={"service": {"type": "NodePort"}})
    children = live(raw)
    service = children[SERVICE_OF_ROUTERS]
    ports = [{**port, "nodePort": 31234} for port in service["spec"]["ports"]]
    children[SERVICE_OF_ROUTERS] = {**service, "spec": {**service["spec"], "ports": ports}}
    found = reported(raw, children.values()).status.condition(ConditionType.EXPOSED)
    assert found
    assert "31234" in found.message


def test_engines_have_the_name_of_the_clusters_own_domain() -> None:
    desired = planned(inference_deployment(), settings=Settings(cluster_domain="corp.example")).desired
    assert "qwen-engines.default.svc.corp.example:8000" in desired[CONFIG]["data"]["haproxy.cfg"]


def test_a_live_route_stays_while_its_kind_cannot_be_listed() -> None:
    raw = inference_deployment(router=HTTP_ROUTED)
    children = live(raw)
    seen = replace(inputs(raw, children=children.values()), unavailable_kinds={HTTP_ROUTE: "no right to list it."})
    decided = outcome(seen)
    assert isinstance(decided, Planned)
    assert decided.desired[ROUTE] == children[ROUTE]
