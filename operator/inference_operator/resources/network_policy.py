"""The NetworkPolicies of engines and routers: who may reach what. Where packets go is not restricted."""

from inference_operator.manifest import NETWORK_POLICY, Manifest, Owner
from inference_operator.resources.child import child
from inference_operator.resources.engine_deployment import ENGINE_PORT
from inference_operator.resources.names import ENGINE, MANAGER, ROUTER, engine_name, router_name, selector_labels
from inference_operator.router.haproxy import METRICS_PORTS, PORT
from inference_operator.settings import Settings

OPERATOR_LABELS = {"app.kubernetes.io/name": MANAGER}
"""The label of the operator's pods that the chart sets whatever its release is called."""

NAMESPACE_LABEL = "kubernetes.io/metadata.name"
"""Every namespace carries its name in it (Kubernetes 1.22, admission of namespaces)."""


def engine_policy(*, owner: Owner, settings: Settings) -> Manifest:
    """Engines answer their own routers, the operator, and who may read metrics, which have no port of their own.

    Everything else that an engine listens on, such as what its processes tell each other, has no authentication.
    """
    routers: Manifest = {"podSelector": {"matchLabels": selector_labels(owner.key.name, ROUTER)}}
    rules = [_rule([routers, *_readers(settings)], ENGINE_PORT)]
    return _policy(engine_name(owner.key.name), ENGINE, rules, owner)


def router_policy(*, owner: Owner, settings: Settings) -> Manifest:
    """Routers answer everybody on the port of the API, as a Service does; their metrics are for those who read them."""
    rules: list[Manifest] = [{"ports": [_port(PORT)]}, _rule(_readers(settings), *METRICS_PORTS)]
    return _policy(router_name(owner.key.name), ROUTER, rules, owner)


def _policy(name: str, component: str, rules: list[Manifest], owner: Owner) -> Manifest:
    content = {
        "spec": {
            "podSelector": {"matchLabels": selector_labels(owner.key.name, component)},
            "policyTypes": ["Ingress"],
            "ingress": rules,
        }
    }
    return child(NETWORK_POLICY, name, owner=owner, component=component, content=content)


def _rule(sources: list[Manifest], *ports: int) -> Manifest:
    return {"from": sources, "ports": [_port(port) for port in ports]}


def _port(number: int) -> Manifest:
    return {"protocol": "TCP", "port": number}


def _readers(settings: Settings) -> list[Manifest]:
    operator: Manifest = {
        "namespaceSelector": {"matchLabels": {NAMESPACE_LABEL: settings.lease_namespace}},
        "podSelector": {"matchLabels": OPERATOR_LABELS},
    }
    if not settings.metrics_from:
        return [operator]
    labels = dict(label.split("=", 1) for label in settings.metrics_from)
    return [operator, {"namespaceSelector": {"matchLabels": labels}}]
