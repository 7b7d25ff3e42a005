"""Service types, Ingress, HTTPRoute and `External` on a real API server, with the rights of the chart."""

import json
import time
from typing import Any

import pytest

from e2e.localkube.audit_log import AuditLog
from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually
from tests.testing.gateway_api import http_route_crd, inference_pool_crd
from tests.testing.operated_cluster import optional_kinds
from tests.testing.operator_process import OperatorProcess
from tests.testing.workspace import QUIET_SECONDS, QWEN, Workspace

BALANCED = {
    "type": "LoadBalancer",
    "annotations": {"example.com/internal": "true"},
    "labels": {"team": "search"},
    "loadBalancerClass": "example.com/lb",
}
ROUTED = {
    "parentRefs": [{"name": "gw", "namespace": "gateways", "sectionName": "https"}],
    "hostnames": ["a.example.com"],
}
SECONDS = 60
_CONDITIONS = [
    {"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z"}
    for kind in ("Accepted", "ResolvedRefs")
]
ACCEPTED = {"parents": [{"controllerName": "example.com/gw", "parentRef": {"name": "gw"}, "conditions": _CONDITIONS}]}
"""What a Gateway's controller writes on an object that it serves."""


def set_status(workspace: Workspace, what: str, status: dict[str, Any]) -> None:
    """Write a status as the controller of a cloud or a Gateway does."""
    patch = json.dumps({"status": status})
    workspace.kubectl("patch", what, "qwen", "--subresource=status", "--type=merge", f"--patch={patch}")


def until_external(workspace: Workspace, *urls: str) -> None:
    eventually(
        lambda: workspace.get("infd", "qwen")["status"].get("externalURLs", []) == list(urls),
        seconds=SECONDS,
        what=lambda: f"{urls}: {workspace.get('infd', 'qwen')['status']}",
    )


def assert_quiet(workspace: Workspace, kind: str) -> None:
    """Nobody writes the object of that kind again: what its CRD adds to it is no drift."""
    time.sleep(QUIET_SECONDS)
    version = workspace.get(kind, "qwen")["metadata"]["resourceVersion"]
    time.sleep(QUIET_SECONDS)
    assert workspace.get(kind, "qwen")["metadata"]["resourceVersion"] == version


def component(workspace: Workspace) -> str:
    """What the main Service selects."""
    found: str = workspace.get("service", "qwen")["spec"]["selector"]["app.kubernetes.io/component"]
    return found


def test_a_service_becomes_a_load_balancer_and_a_cluster_ip_again_without_drift(
    qwen: Workspace, audit: AuditLog
) -> None:
    before = qwen.get("service", "qwen")["spec"]["clusterIP"]
    qwen.patch("qwen", {"router": {"service": BALANCED, "tls": {"secretRef": {"name": "llm-tls"}}}})
    qwen.settled("qwen", "Exposed", "False", "AddressPending")
    live = qwen.get("service", "qwen")
    assert live["spec"]["clusterIP"] == before
    assert all(port["nodePort"] for port in live["spec"]["ports"])
    qwen.kubectl("annotate", "service", "qwen", "cloud.example.com/id=lb-1")
    set_status(qwen, "service", {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}})
    until_external(qwen, "https://192.0.2.1/v1")
    qwen.settled("qwen", "Exposed", "True", "Exposed")
    mark = audit.quiet(QUIET_SECONDS, namespace=qwen.namespace)
    qwen.kubectl("annotate", "service", "qwen", "cloud.example.com/id=lb-2", "--overwrite")
    time.sleep(QUIET_SECONDS)
    assert not [write for write in audit.writes(mark, namespace=qwen.namespace) if write.resource == "services"]

    qwen.kubectl("patch", "infd", "qwen", "--type=json", '--patch=[{"op": "remove", "path": "/spec/router"}]')
    eventually(lambda: qwen.get("service", "qwen")["spec"]["type"] == "ClusterIP", seconds=SECONDS, what="ClusterIP")
    live = qwen.get("service", "qwen")
    assert live["spec"]["clusterIP"] == before
    assert "example.com/internal" not in live["metadata"]["annotations"]
    assert live["metadata"]["annotations"]["cloud.example.com/id"] == "lb-2"
    assert not any("nodePort" in port for port in live["spec"]["ports"])
    until_external(qwen)
    assert qwen.condition("qwen", "Exposed") == {}


def test_an_ingress_is_created_reported_restored_and_deleted_with_its_field(qwen: Workspace) -> None:
    qwen.patch("qwen", {"router": {"ingress": {"host": "llm.example.com", "tlsSecretRef": {"name": "llm-tls"}}}})
    qwen.settled("qwen", "Exposed", "False", "AddressPending")
    set_status(qwen, "ingress", {"loadBalancer": {"ingress": [{"hostname": "lb.example.com"}]}})
    until_external(qwen, "https://llm.example.com/v1")
    qwen.kubectl("delete", "ingress", "qwen", "--wait=false")
    qwen.settled("qwen", "Exposed", "False", "AddressPending")
    assert qwen.exists("ingress", "qwen")
    qwen.patch("qwen", {"router": {"ingress": None}})
    eventually(lambda: not qwen.exists("ingress", "qwen"), seconds=SECONDS, what="the Ingress is gone")


def test_external_deletes_the_routers_and_comes_back_without_a_gap_in_the_service(qwen: Workspace) -> None:
    address = qwen.get("service", "qwen")["spec"]["clusterIP"]
    qwen.patch("qwen", {"router": {"strategy": "External"}})
    qwen.settled("qwen", "RouterAvailable", "True", "ExternalRouting")
    for kind in ("deployment", "configmap"):
        eventually(lambda gone=kind: not qwen.exists(gone, "qwen-router"), seconds=SECONDS, what=f"no {kind} is left")  # type: ignore[misc]
    assert component(qwen) == "engine"
    qwen.settled("qwen")
    qwen.patch("qwen", {"router": {"strategy": "LeastOutstanding"}})
    qwen.settled("qwen", "RouterAvailable", "True", "Serving")
    eventually(lambda: component(qwen) == "router", seconds=SECONDS, what="the Service selects routers")
    assert qwen.get("service", "qwen")["spec"]["clusterIP"] == address


def test_routers_find_each_other(qwen: Workspace) -> None:
    eventually(lambda: qwen.exists("service", "qwen-routers"), seconds=SECONDS, what="the Service of the routers")
    spec = qwen.get("service", "qwen-routers")["spec"]
    assert (spec["clusterIP"], spec["publishNotReadyAddresses"]) == ("None", True)
    assert spec["selector"]["app.kubernetes.io/component"] == "router"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"router": {"strategy": "External", "tls": {"secretRef": {"name": "a"}}}}, "every other field of `router`"),
        ({"router": {"strategy": "External"}, "replicas": 0}, "no router holds requests at zero"),
        ({"router": {"service": {"loadBalancerClass": "a"}}}, "needs `type: LoadBalancer`"),
        ({"router": {"ingress": {"host": "Not_A_Host"}}}, "spec.router.ingress.host"),
        ({"router": {"httpRoute": {"parentRefs": []}}}, "spec.router.httpRoute.parentRefs"),
    ],
)
def test_the_api_server_refuses_exposure_that_cannot_work(
    workspace: Workspace, spec: dict[str, Any], message: str
) -> None:
    assert message in workspace.refusal("qwen", {**QWEN, **spec})


def test_scaling_an_external_resource_to_zero_is_refused(workspace: Workspace) -> None:
    workspace.create("qwen", {**QWEN, "router": {"strategy": "External"}})
    with pytest.raises(Exception, match="no router holds requests at zero"):
        workspace.kubectl("scale", "infd", "qwen", "--replicas=0")


def test_a_route_waits_for_gateway_api_and_is_created_when_its_crd_comes(
    kubernetes: LocalCluster, operator: OperatorProcess, qwen: Workspace
) -> None:
    qwen.patch("qwen", {"router": {"httpRoute": ROUTED}})
    qwen.settled("qwen", "Exposed", "False", "GatewayApiMissing", saying="Install its CustomResourceDefinition")
    qwen.settled("qwen")
    with optional_kinds(kubernetes, operator, http_route_crd()):
        qwen.settled("qwen", "Exposed", "False", "AddressPending")
        set_status(qwen, "httproute", ACCEPTED)
        until_external(qwen, "https://a.example.com/v1")
        assert_quiet(qwen, "httproute")
        qwen.patch("qwen", {"router": {"httpRoute": None}})
        eventually(lambda: not qwen.exists("httproute", "qwen"), seconds=SECONDS, what="the HTTPRoute is gone")


def test_two_models_share_a_host_name_by_path_and_by_header(
    kubernetes: LocalCluster, operator: OperatorProcess, qwen: Workspace
) -> None:
    """The real CRD accepts the rules, and what it adds to them is no drift."""
    shared = {**ROUTED, "path": "/models/qwen", "modelHeader": "X-Gateway-Model-Name"}
    with optional_kinds(kubernetes, operator, http_route_crd()):
        qwen.patch("qwen", {"router": {"httpRoute": shared}})
        eventually(lambda: qwen.exists("httproute", "qwen"), seconds=SECONDS, what="the HTTPRoute")
        set_status(qwen, "httproute", ACCEPTED)
        until_external(qwen, "https://a.example.com/models/qwen/v1", "https://a.example.com/v1")
        assert_quiet(qwen, "httproute")
        qwen.patch("qwen", {"router": {"httpRoute": None}})
        eventually(lambda: not qwen.exists("httproute", "qwen"), seconds=SECONDS, what="the HTTPRoute is gone")


def test_a_pool_of_engines_comes_with_its_crd_and_goes_with_its_field(
    kubernetes: LocalCluster, operator: OperatorProcess, qwen: Workspace
) -> None:
    picker = {"endpointPickerRef": {"name": "epp"}}
    qwen.patch("qwen", {"router": {"strategy": "External", "inferencePool": picker}})
    qwen.settled("qwen", "Exposed", "False", "GatewayApiMissing", saying="Install its CustomResourceDefinition")
    with optional_kinds(kubernetes, operator, inference_pool_crd()):
        qwen.settled("qwen", "Exposed", "False", "AddressPending")
        set_status(qwen, "inferencepool", ACCEPTED)
        qwen.settled("qwen", "Exposed", "True", "Exposed")
        assert qwen.get("inferencepool", "qwen")["spec"]["endpointPickerRef"]["port"] == {"number": 9002}
        assert_quiet(qwen, "inferencepool")
        qwen.patch("qwen", {"router": {"inferencePool": None}})
        eventually(lambda: not qwen.exists("inferencepool", "qwen"), seconds=SECONDS, what="the InferencePool is gone")
    qwen.patch("qwen", {"router": {"strategy": "LeastOutstanding"}})
    qwen.settled("qwen", "RouterAvailable", "True", "Serving")
