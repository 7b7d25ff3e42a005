"""The Service of the router: the address that clients use."""

from inference_operator.manifest import SERVICE, Manifest, Owner
from inference_operator.objects.child import child
from inference_operator.objects.names import ROUTER, selector_labels, service_name
from inference_operator.router.haproxy import PORT

SERVICE_PORT = 80


def router_service(*, owner: Owner) -> Manifest:
    """The Service of the router."""
    name = owner.key.name
    content = {
        "spec": {
            "type": "ClusterIP",
            "selector": selector_labels(name, ROUTER),
            "ports": [{"name": "http", "port": SERVICE_PORT, "protocol": "TCP", "targetPort": PORT}],
        }
    }
    return child(SERVICE, service_name(name), owner=owner, component=ROUTER, content=content)


def url(owner: Owner, *, cluster_domain: str) -> str:
    """URL of the OpenAI API inside the cluster.

    Examples:
        >>> from inference_operator.manifest import Key
        >>> url(Owner(Key("default", "qwen"), "u"), cluster_domain="cluster.local")
        'http://qwen.default.svc.cluster.local/v1'
    """
    return f"http://{service_name(owner.key.name)}.{owner.key.namespace}.svc.{cluster_domain}/v1"
