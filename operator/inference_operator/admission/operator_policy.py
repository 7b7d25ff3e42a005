"""The ValidatingAdmissionPolicies that bind the operator's own ServiceAccount: `operator-policy.yaml`, filled in."""

from dataclasses import dataclass
from importlib.resources import files

import yaml

from inference_operator.manifest import CHILD_KINDS, GROUP, NETWORK_POLICY, OPTIONAL_KINDS, Manifest
from inference_operator.objects.names import MANAGER

TEXT = files(__package__).joinpath("operator-policy.yaml").read_text(encoding="utf-8")

ACCOUNTS_ANNOTATION = f"{GROUP}/service-accounts"
"""Annotation of a namespace: more ServiceAccounts that the operator may give to pods there, separated by commas. The
operator has no right to write namespaces."""

SYSTEM_NAMESPACES = ("kube-node-lease", "kube-public", "kube-system")
"""Namespaces of Kubernetes itself (documentation of 1.36, Namespaces, "Initial namespaces")."""

GUARDED_KINDS = (*CHILD_KINDS, *OPTIONAL_KINDS, NETWORK_POLICY)
"""Every kind of child object."""

REPORTING_CONTROLLER = f"{GROUP}/{MANAGER}"
"""`reportingController` of the operator's Events."""


@dataclass(frozen=True, slots=True)
class OperatorAccount:
    """An operator: its names, and the ServiceAccounts that its settings name."""

    namespace: str
    """Namespace of the operator, its ServiceAccount and its Lease."""
    name: str
    """Name of its Lease. The policies are named after it too, so that those of two operators differ."""
    account: str = ""
    """Name of its ServiceAccount; empty: the same."""
    pod_accounts: tuple[str, ...] = ()
    """ServiceAccounts that its settings name for pods."""


def operator_policies(operator: OperatorAccount) -> list[Manifest]:
    """The policies of an operator's account with their bindings, for the whole cluster.

    Examples:
        >>> [manifest["metadata"]["name"] for manifest in operator_policies(OperatorAccount("inference", "models"))][:2]
        ['children.inference.models', 'children.inference.models']
    """
    names = {
        "OPERATOR_NAMESPACE": operator.namespace,
        "OPERATOR_NAME": operator.name,
        "OPERATOR_ACCOUNT": operator.account or operator.name,
        "POD_ACCOUNTS": ",".join(operator.pod_accounts),
    }
    text = TEXT
    for placeholder, value in names.items():
        text = text.replace(placeholder, value)
    return list(yaml.safe_load_all(text))
