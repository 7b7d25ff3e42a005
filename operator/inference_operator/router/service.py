"""The main Service: the address that clients use. It selects the routers, or with `External` the engines."""

from inference_operator.manifest import SERVICE, Manifest, Owner
from inference_operator.objects.child import child
from inference_operator.objects.names import (
    ROUTER,
    headless_service_name,
    selector_labels,
    service_host,
    service_name,
)
from inference_operator.router.inputs import RouterInputs
from inference_operator.router.process import METRICS_PORTS, PORT, TLS_PORT

SERVICE_PORT = 80
TLS_SERVICE_PORT = 443


def main_service(inputs: RouterInputs) -> Manifest:
    wanted, name = inputs.spec.service, inputs.name
    ports = [_port("http", SERVICE_PORT, PORT)]
    if inputs.spec.tls:
        ports.append(_port("https", TLS_SERVICE_PORT, TLS_PORT))
    if inputs.bypasses_routers:
        ports = [_port("http", SERVICE_PORT, inputs.upstreams[0].port)]
    of_balancer = {"loadBalancerClass": wanted.load_balancer_class} if wanted.load_balancer_class else {}
    content = {
        "spec": {
            "type": wanted.type.value,
            "selector": dict(inputs.engines_selector) if inputs.bypasses_routers else selector_labels(name, ROUTER),
            "ports": ports,
            **of_balancer,
        }
    }
    return child(
        SERVICE,
        service_name(name),
        owner=inputs.owner,
        component=ROUTER,
        content=content,
        annotations=wanted.annotations,
        added_labels=wanted.labels,
    )


def peers_service(inputs: RouterInputs) -> Manifest:
    """The headless Service by which routers find each other. One that starts or stops has requests in flight too."""
    content = {
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": selector_labels(inputs.name, ROUTER),
            "ports": [_port(f"metrics-{n}", port, port) for n, port in enumerate(METRICS_PORTS, start=1)],
        }
    }
    name = headless_service_name(inputs.name, ROUTER)
    return child(SERVICE, name, owner=inputs.owner, component=ROUTER, content=content)


def url(owner: Owner, *, cluster_domain: str) -> str:
    """URL of the OpenAI API inside the cluster.

    Examples:
        >>> from inference_operator.manifest import Key
        >>> url(Owner(Key("default", "qwen"), "u"), cluster_domain="cluster.local")
        'http://qwen.default.svc.cluster.local/v1'
    """
    host = service_host(service_name(owner.key.name), owner.key.namespace, cluster_domain=cluster_domain)
    return f"http://{host}/v1"


def _port(name: str, port: int, target: int) -> Manifest:
    return {"name": name, "port": port, "protocol": "TCP", "targetPort": target}
