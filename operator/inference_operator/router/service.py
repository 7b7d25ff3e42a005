"""The main Service, which is the address that clients use, and the Ingress and the HTTPRoute in front of it.

It selects the routers, or with `External` the engines.
"""

from collections.abc import Iterator, Sequence

from inference_operator.api.router_exposure import (
    BASE_MODEL_HEADER,
    HttpRouteSpec,
    InferencePoolSpec,
    IngressSpec,
    ParentRef,
)
from inference_operator.manifest import HTTP_ROUTE, INFERENCE_POOL, INGRESS, SERVICE, Manifest, Owner
from inference_operator.objects.child import child
from inference_operator.objects.names import router_name, selector_labels, service_host, service_name
from inference_operator.router.inputs import RouterInputs
from inference_operator.router.process import METRICS_PORTS, PORT, PREFILL_PORT, TLS_PORT

SERVICE_PORT = 80
TLS_SERVICE_PORT = 443
GATEWAY_GROUP = "gateway.networking.k8s.io"
MAX_MATCHES = 64
"""Matches of a rule of an HTTPRoute (Gateway API v1.4, config/crd/standard)."""

ENGINE_PORT = "http"
"""Name of the port of every engine's API."""

STREAM_SECONDS = 3600
"""How long a stream may be silent, as in the router itself (`timeout server` in haproxy.cfg.j2)."""

STREAM_ANNOTATIONS = {
    "nginx.ingress.kubernetes.io/proxy-body-size": "0",
    "nginx.ingress.kubernetes.io/proxy-buffering": "off",
    "nginx.ingress.kubernetes.io/proxy-read-timeout": str(STREAM_SECONDS),
    "nginx.ingress.kubernetes.io/proxy-send-timeout": str(STREAM_SECONDS),
}
"""Without them ingress-nginx ends an answer after 60 s of silence and refuses bodies above 1 MiB (kubernetes/
ingress-nginx v1.13, docs/user-guide/nginx-configuration/annotations.md and configmap.md). Other controllers ignore
them; docs/how-to/expose.md has theirs."""


def main_service(inputs: RouterInputs) -> Manifest:
    wanted, name = inputs.spec.service, inputs.name
    ports = [_port("http", SERVICE_PORT, PORT)]
    if inputs.spec.tls:
        ports.append(_port("https", TLS_SERVICE_PORT, TLS_PORT))
    if inputs.bypasses_routers:
        targets = {upstream.port for upstream in inputs.upstreams}
        ports = [_port("http", SERVICE_PORT, targets.pop() if len(targets) == 1 else ENGINE_PORT)]
    own = selector_labels(name, inputs.component)
    of_balancer = {"loadBalancerClass": wanted.load_balancer_class} if wanted.load_balancer_class else {}
    spec = {
        "type": wanted.type.value,
        "selector": dict(inputs.engines_selector) if inputs.bypasses_routers else own,
        "ports": ports,
        **of_balancer,
    }
    return child(
        SERVICE,
        service_name(name),
        owner=inputs.owner,
        component=inputs.component,
        content={"spec": spec},
        annotations=wanted.annotations,
        added_labels=wanted.labels,
    )


def peers_service(inputs: RouterInputs) -> Manifest:
    """The headless Service by which routers find each other. One that starts or stops has requests in flight too."""
    spec = {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": selector_labels(inputs.name, inputs.component),
        "ports": [_port(f"metrics-{n}", port, port) for n, port in enumerate(METRICS_PORTS, start=1)],
    }
    return child(SERVICE, inputs.peers_name, owner=inputs.owner, component=inputs.component, content={"spec": spec})


def prompts_service(inputs: RouterInputs) -> Manifest:
    """The Service by which engines send prompts through the routers. Nothing outside the cluster reaches it."""
    spec = {
        "type": "ClusterIP",
        "selector": selector_labels(inputs.name, inputs.component),
        "ports": [_port("prompts", PREFILL_PORT, PREFILL_PORT)],
    }
    name = router_name(inputs.name)
    return child(SERVICE, name, owner=inputs.owner, component=inputs.component, content={"spec": spec})


def ingress(wanted: IngressSpec, inputs: RouterInputs) -> Manifest:
    """The Ingress: every path of one host goes to the main Service."""
    name, tls = service_name(inputs.name), wanted.tls_secret_ref
    backend = {"service": {"name": name, "port": {"number": SERVICE_PORT}}}
    paths = [{"path": "/", "pathType": "Prefix", "backend": backend}]
    spec = {
        **({"ingressClassName": wanted.class_name} if wanted.class_name else {}),
        "rules": [{"host": wanted.host, "http": {"paths": paths}}],
        **({"tls": [{"hosts": [wanted.host], "secretName": tls.name}]} if tls else {}),
    }
    annotations = {**STREAM_ANNOTATIONS, **wanted.annotations}
    return child(
        INGRESS, name, owner=inputs.owner, component=inputs.component, content={"spec": spec}, annotations=annotations
    )


def http_route(wanted: HttpRouteSpec, inputs: RouterInputs) -> Manifest:
    """The HTTPRoute to the main Service; a request may take any time.

    It is written with the defaults of the CRD, so that they are no drift (Gateway API v1.4, config/crd/standard).
    """
    name = service_name(inputs.name)
    target = {
        "backendRefs": [{"kind": "Service", "name": name, "port": SERVICE_PORT, "weight": 1}],
        "timeouts": {"request": "0s"},  # no timeout (GEP-1742); many Gateways have one of 15 s
    }
    spec = {
        "parentRefs": [_parent(parent) for parent in wanted.parent_refs],
        **({"hostnames": list(wanted.hostnames)} if wanted.hostnames else {}),
        "rules": [{**match, **target} for match in _matches(wanted, inputs)],
    }
    return child(HTTP_ROUTE, name, owner=inputs.owner, component=inputs.component, content={"spec": spec})


def inference_pool(wanted: InferencePoolSpec, inputs: RouterInputs) -> Manifest:
    picker = wanted.endpoint_picker_ref
    ports = dict.fromkeys(upstream.port for upstream in inputs.upstreams)
    spec = {
        "selector": {"matchLabels": dict(inputs.engines_selector)},
        "targetPorts": [{"number": port} for port in ports],
        **({"endpointPickerRef": {"name": picker.name, "port": {"number": picker.port}}} if picker else {}),
    }
    return child(
        INFERENCE_POOL,
        service_name(inputs.name),
        owner=inputs.owner,
        component=inputs.component,
        content={"spec": spec},
    )


def _matches(wanted: HttpRouteSpec, inputs: RouterInputs) -> Iterator[Manifest]:
    """Matches and filters of each rule: of the model's path, of its names in a header, or of every path.

    A Gateway prefers the longest path, so that requests below the path of a model never need the header.
    """
    if wanted.path:
        cut = {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/"}
        yield {
            "matches": [{"path": {"type": "PathPrefix", "value": wanted.path}}],
            "filters": [{"type": "URLRewrite", "urlRewrite": {"path": cut}}],
        }
    every: Manifest = {"path": {"type": "PathPrefix", "value": "/"}}
    if wanted.model_header:
        header = {"type": "Exact", "name": wanted.model_header}
        named = [{**every, "headers": [{**header, "value": name}]} for name in _names(wanted, inputs)]
        for first in range(0, len(named), MAX_MATCHES):
            yield {"matches": named[first : first + MAX_MATCHES]}
    elif not wanted.path:
        yield {"matches": [every]}


def _names(wanted: HttpRouteSpec, inputs: RouterInputs) -> Sequence[str]:
    """Values of the header that mean this model."""
    if (wanted.model_header or "").lower() == BASE_MODEL_HEADER.lower():
        return inputs.model_names[:1]
    return list(dict.fromkeys((*inputs.model_names, *inputs.adapter_names)))


def _parent(parent: ParentRef) -> Manifest:
    return {
        "group": GATEWAY_GROUP,
        "kind": "Gateway",
        "name": parent.name,
        **({"namespace": parent.namespace} if parent.namespace else {}),
        **({"sectionName": parent.section_name} if parent.section_name else {}),
    }


def url(owner: Owner, *, cluster_domain: str) -> str:
    """URL of the OpenAI API inside the cluster."""
    host = service_host(service_name(owner.key.name), owner.key.namespace, cluster_domain=cluster_domain)
    return f"http://{host}/v1"


def _port(name: str, port: int, target: int | str) -> Manifest:
    return {"name": name, "port": port, "protocol": "TCP", "targetPort": target}
