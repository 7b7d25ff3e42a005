"""The Ingress in front of the main Service."""

from inference_operator.api.router_exposure import IngressSpec
from inference_operator.manifest import INGRESS, Manifest
from inference_operator.objects.child import child
from inference_operator.objects.names import ROUTER, service_name
from inference_operator.router.inputs import RouterInputs
from inference_operator.router.service import SERVICE_PORT

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


def ingress(wanted: IngressSpec, inputs: RouterInputs) -> Manifest:
    """The Ingress: every path of one host goes to the main Service."""
    name, tls = service_name(inputs.name), wanted.tls_secret_ref
    backend = {"service": {"name": name, "port": {"number": SERVICE_PORT}}}
    paths = [{"path": "/", "pathType": "Prefix", "backend": backend}]
    content = {
        "spec": {
            **({"ingressClassName": wanted.class_name} if wanted.class_name else {}),
            "rules": [{"host": wanted.host, "http": {"paths": paths}}],
            **({"tls": [{"hosts": [wanted.host], "secretName": tls.name}]} if tls else {}),
        }
    }
    annotations = {**STREAM_ANNOTATIONS, **wanted.annotations}
    return child(INGRESS, name, owner=inputs.owner, component=ROUTER, content=content, annotations=annotations)
