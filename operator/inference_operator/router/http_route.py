"""The HTTPRoute of Gateway API in front of the main Service."""

from inference_operator.api.router_exposure import HttpRouteSpec, ParentRef
from inference_operator.manifest import HTTP_ROUTE, Manifest
from inference_operator.objects.child import child
from inference_operator.objects.names import ROUTER, service_name
from inference_operator.router.inputs import RouterInputs
from inference_operator.router.service import SERVICE_PORT

GATEWAY_GROUP = "gateway.networking.k8s.io"


def http_route(wanted: HttpRouteSpec, inputs: RouterInputs) -> Manifest:
    """The HTTPRoute: every path goes to the main Service, and a request may take any time.

    It is written with the defaults of the CRD, so that they are no drift (Gateway API v1.4, config/crd/standard).
    """
    name = service_name(inputs.name)
    rule = {
        "matches": [{"path": {"type": "PathPrefix", "value": "/"}}],
        "backendRefs": [{"kind": "Service", "name": name, "port": SERVICE_PORT, "weight": 1}],
        "timeouts": {"request": "0s"},  # no timeout (GEP-1742); many Gateways have one of 15 s
    }
    content = {
        "spec": {
            "parentRefs": [_parent(parent) for parent in wanted.parent_refs],
            **({"hostnames": list(wanted.hostnames)} if wanted.hostnames else {}),
            "rules": [rule],
        }
    }
    return child(HTTP_ROUTE, name, owner=inputs.owner, component=ROUTER, content=content)


def _parent(parent: ParentRef) -> Manifest:
    return {
        "group": GATEWAY_GROUP,
        "kind": "Gateway",
        "name": parent.name,
        **({"namespace": parent.namespace} if parent.namespace else {}),
        **({"sectionName": parent.section_name} if parent.section_name else {}),
    }
