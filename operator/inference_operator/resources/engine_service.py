"""The headless Service in whose DNS name the routers find the engines."""

from inference_operator.manifest import SERVICE, Manifest, Owner
from inference_operator.resources.child import child
from inference_operator.resources.engine_deployment import ENGINE_PORT
from inference_operator.resources.names import ENGINE, engines_service_name, selector_labels


def engine_service(*, owner: Owner) -> Manifest:
    """One DNS record for each engine that is ready, and none for the others."""
    name = owner.key.name
    content = {
        "spec": {
            "clusterIP": "None",
            "selector": selector_labels(name, ENGINE),
            "ports": [{"name": "http", "port": ENGINE_PORT, "protocol": "TCP", "targetPort": "http"}],
        }
    }
    return child(SERVICE, engines_service_name(name), owner=owner, component=ENGINE, content=content)


def engines_host(owner: Owner, *, cluster_domain: str) -> str:
    """The DNS name of that Service."""
    return f"{engines_service_name(owner.key.name)}.{owner.key.namespace}.svc.{cluster_domain}"
