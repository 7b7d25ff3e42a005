"""States of resources that clients outside the cluster reach, or that something else than a router serves."""

from collections.abc import Sequence
from dataclasses import replace

from inference_operator.manifest import HTTP_ROUTE, Manifest, Ref
from inference_operator.pipeline.inputs import Inputs
from inference_operator.status.write_results import WriteResult
from tests.status.situations import observed
from tests.testing.builders import SERVICE_OF_ROUTERS, deployment_status, inference_deployment

ROUTE = Ref(HTTP_ROUTE, "default", "qwen")
BALANCED = inference_deployment(router={"service": {"type": "LoadBalancer"}})
ROUTED = inference_deployment(router={"httpRoute": {"parentRefs": [{"name": "gw"}]}})
EXTERNAL = inference_deployment(router={"strategy": "External"})
_ADDRESS: Manifest = {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}
_REFUSED: Manifest = {"parents": [{"conditions": [{"type": "Accepted", "status": "False", "reason": "NoMatch"}]}]}
_SERVING = ("True Serving", "False Settled", "False NotStalled")


def _serving(raw: Manifest) -> Inputs:
    return observed(raw, live=raw, engines=deployment_status(1), routers=deployment_status(2))


def _with_status(situation: Inputs, ref: Ref, status: Manifest) -> Inputs:
    children = {**situation.children, ref: {**situation.children[ref], "status": status}}
    return replace(situation, children=children)


EXPOSURE_STATES: dict[str, tuple[Inputs, Sequence[WriteResult], tuple[str, str, str]]] = {
    "a load balancer without an address": (_serving(BALANCED), [], _SERVING),
    "a load balancer with an address": (_with_status(_serving(BALANCED), SERVICE_OF_ROUTERS, _ADDRESS), [], _SERVING),
    "a route that a Gateway refuses": (_with_status(_serving(ROUTED), ROUTE, _REFUSED), [], _SERVING),
    "a route in a cluster without Gateway API": (
        replace(_serving(ROUTED), unavailable_kinds={HTTP_ROUTE: "the cluster has no httproutes."}),
        [],
        _SERVING,
    ),
    "routed by others": (_serving(EXTERNAL), [], _SERVING),
}
