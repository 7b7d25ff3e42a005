"""NetworkPolicies: which pods may connect to a component. Outgoing connections are not restricted."""

from collections.abc import Sequence

from inference_operator.manifest import NETWORK_POLICY, Manifest, Owner
from inference_operator.objects.child import child
from inference_operator.objects.names import MANAGER, selector_labels
from inference_operator.settings import Settings

OPERATOR_LABELS = {"app.kubernetes.io/name": MANAGER}
"""The label of the operator's pods that the chart sets whatever its release is called."""

NAMESPACE_LABEL = "kubernetes.io/metadata.name"
"""Every namespace carries its name in it (Kubernetes 1.22, admission of namespaces)."""


def network_policy(name: str, component: str, rules: Sequence[Manifest], *, owner: Owner) -> Manifest:
    spec = {
        "podSelector": {"matchLabels": selector_labels(owner.key.name, component)},
        "policyTypes": ["Ingress"],
        "ingress": list(rules),
    }
    return child(NETWORK_POLICY, name, owner=owner, component=component, content={"spec": spec})


def rule(sources: Sequence[Manifest], *ports: int, last: int | None = None) -> Manifest:
    """An ingress rule for TCP ports, the last one up to `last`; without sources everybody may connect."""
    admitted: Manifest = {"from": list(sources)} if sources else {}
    *others, final = ({"protocol": "TCP", "port": port} for port in ports)
    return {**admitted, "ports": [*others, {**final, **({"endPort": last} if last else {})}]}


def metrics_readers(settings: Settings) -> list[Manifest]:
    """The peers that may read metrics: the operator, and the namespaces that the settings name."""
    operator: Manifest = {
        "namespaceSelector": {"matchLabels": {NAMESPACE_LABEL: settings.lease_namespace}},
        "podSelector": {"matchLabels": OPERATOR_LABELS},
    }
    if not settings.metrics_from:
        return [operator]
    labels = dict(label.split("=", 1) for label in settings.metrics_from)
    return [operator, {"namespaceSelector": {"matchLabels": labels}}]
