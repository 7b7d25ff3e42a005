"""The ValidatingAdmissionPolicies that bind the operator's own ServiceAccount: `operator-policy.yaml`, filled in."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.resources import files

import yaml

from inference_operator.api.prometheus import PrometheusSettings
from inference_operator.manifest import (
    CHILD_KINDS,
    GROUP,
    NETWORK_POLICY,
    OPTIONAL_KINDS,
    RESOURCE_KINDS,
    Kind,
    Manifest,
)
from inference_operator.objects.names import MANAGER

TEXT = files(__package__).joinpath("operator-policy.yaml").read_text(encoding="utf-8")

ACCOUNTS_ANNOTATION = f"{GROUP}/service-accounts"
"""Annotation of a namespace: more ServiceAccounts that the operator may give to pods there, separated by commas. The
operator has no right to write namespaces."""

SYSTEM_NAMESPACES = ("kube-node-lease", "kube-public", "kube-system")
"""Namespaces of Kubernetes itself (documentation of 1.36, Namespaces, "Initial namespaces")."""

GUARDED_KINDS = (*CHILD_KINDS, *OPTIONAL_KINDS, NETWORK_POLICY)

REPORTING_CONTROLLER = f"{GROUP}/{MANAGER}"


@dataclass(frozen=True, slots=True)
class OperatorAccount:
    namespace: str
    name: str
    """Name of its Lease. The policies are named after it too, so that those of two operators differ."""
    account: str = ""
    """Name of its ServiceAccount; empty: the same."""
    pod_accounts: tuple[str, ...] = ()
    prometheus: PrometheusSettings = field(default_factory=PrometheusSettings)
    """The Prometheus that its settings name for KEDA."""
    kinds: tuple[Kind, ...] = RESOURCE_KINDS
    """The kinds of resources that it reconciles. The file names the shipped ones."""


def operator_policies(operator: OperatorAccount) -> list[Manifest]:
    names = {
        "OPERATOR_NAMESPACE": operator.namespace,
        "OPERATOR_NAME": operator.name,
        "OPERATOR_ACCOUNT": operator.account or operator.name,
        "POD_ACCOUNTS": ",".join(operator.pod_accounts),
        "PROMETHEUS_AUTHENTICATION": operator.prometheus.cluster_trigger_authentication,
        "PROMETHEUS_AUTH_MODES": operator.prometheus.sent_modes,
        "PROMETHEUS_NAMESPACE": operator.prometheus.namespace,
        "PROMETHEUS_URL": operator.prometheus.url,
    }
    text = TEXT
    for placeholder, value in names.items():
        text = text.replace(placeholder, value)
    return list(yaml.safe_load_all(text if operator.kinds == RESOURCE_KINDS else _about(operator.kinds, text)))


def _about(kinds: Sequence[Kind], text: str) -> str:
    """The policies of an operator of other kinds. Autoscalers scale no other kind."""
    shipped = [kind.name for kind in RESOURCE_KINDS]
    text = text.replace(str(shipped), str([kind.name for kind in kinds]))
    text = text.replace(" or ".join(shipped), " or ".join(kind.name for kind in kinds))
    first, *others = (kind.plural for kind in RESOURCE_KINDS)
    text = re.sub(rf"^.*resources: \[\"?(?:{'|'.join(others)}).*\n", "", text, flags=re.MULTILINE)
    rule = re.compile(rf"^.*resources: \[\"?{first}.*\n", re.MULTILINE)
    return rule.sub(lambda line: "".join(line[0].replace(first, kind.plural) for kind in kinds), text)
