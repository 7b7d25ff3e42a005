"""Names and labels of child objects."""

import re

from inference_operator.manifest import Manifest
from inference_operator.views.raw import mapping

MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
MANAGER = "inference-operator"
NAME_LABEL = "inference-operator.dev/name"
KIND_LABEL = "inference-operator.dev/kind"
"""On objects and pods of resources of another kind than InferenceDeployment: its name."""
COMPONENT_LABEL = "app.kubernetes.io/component"
ENGINE = "engine"
"""The role that every resource has."""
PREFILL = "prefill"
"""The role of the engines that compute prompts for the others, with `spec.disaggregation`."""
ROUTER = "router"
GATEWAY = "gateway"
"""The pods of a ModelGateway: routers whose engines are the routers of models."""
INSPECTION = "inspection"
DOWNLOAD = "download"
CACHE = "cache"
VERIFICATION = "verification"
ADAPTER = "adapter"
PROGRAM = "program"

MANAGED_SELECTOR = f"{MANAGED_BY_LABEL}={MANAGER}"

_OTHER_COMPONENTS = frozenset({"", ROUTER, GATEWAY, INSPECTION, DOWNLOAD, CACHE, VERIFICATION, ADAPTER, PROGRAM})


def component_of(manifest: Manifest) -> str:
    return str(mapping(manifest, "metadata", "labels").get(COMPONENT_LABEL, ""))


def is_role(component: str) -> bool:
    """Whether the objects of a component belong to a role, whose pods are engines."""
    return component not in _OTHER_COMPONENTS


def answers_clients(component: str) -> bool:
    """Whether the pods of a component are engines to which clients' requests go."""
    return is_role(component) and component != PREFILL


def workload_name(name: str, role: str) -> str:
    """Name of a role's workload, NetworkPolicy and disruption budget."""
    return f"{name}-{role}"


def group_name(name: str, role: str, slot: int) -> str:
    """Name of the StatefulSet of a group: the pods of one engine over several nodes."""
    return f"{workload_name(name, role)}-{slot}"


def slot_of(candidate: str, name: str, role: str) -> int | None:
    """The slot of a group by the name of its StatefulSet; None for any other name."""
    slot = candidate.removeprefix(f"{workload_name(name, role)}-")
    return int(slot) if slot != candidate and _SLOT.fullmatch(slot) else None


def is_workload_name(candidate: str, name: str, role: str) -> bool:
    return candidate == workload_name(name, role) or slot_of(candidate, name, role) is not None


_SLOT = re.compile(r"0|[1-9][0-9]{0,3}")

MAX_NAME_OF_GROUPS = 36
"""Characters of an InferenceDeployment's name whose engines are groups. The StatefulSet controller labels each pod with
the name of its revision: that of the StatefulSet and eleven more characters; 63 is the limit of a label (Kubernetes
1.36, pkg/controller/history/controller_history.go, `ControllerRevisionName`)."""


def members_service_name(name: str, role: str) -> str:
    """Name of the headless Service by which the members of a role's groups find each other."""
    return f"{workload_name(name, role)}-members"


def headless_service_name(name: str, role: str) -> str:
    """Name of a role's headless Service; with the role `engine` the longest name of all children."""
    return workload_name(name, role) if role == PREFILL else f"{name}-{role}s"


def router_name(name: str) -> str:
    """Name of the router Deployment, its configuration, its disruption budget, and its Service for engines."""
    return f"{name}-router"


MAX_NAME_PART = 37
"""Characters of an InferenceDeployment's name in the name of its Job. The Job's pods add six; 63 is the limit."""
_HASH_PART = 8
"""Characters of a hash in the name of a Job."""


_SHORT = {INSPECTION: "model", DOWNLOAD: "cache", VERIFICATION: "sign"}
"""Components whose Jobs and records have another word in their names."""


def job_name(name: str, component: str, content: str, attempt: int) -> str:
    """Name of a Job, with the hash of its content and the number of the attempt.

    Examples:
        >>> job_name("qwen", INSPECTION, "0123456789abcdef", 2), job_name("qwen", ADAPTER, "0123456789abcdef", 1)
        ('qwen-model-01234567-2', 'qwen-adapter-01234567-1')
    """
    return f"{name[:MAX_NAME_PART].rstrip('-')}-{_SHORT.get(component, component)}-{content[:_HASH_PART]}-{attempt}"


def record_name(name: str, component: str, content: str) -> str:
    """Name of the ConfigMap with the result of a Job, with the hash of what was asked for."""
    return f"{name}-{_SHORT.get(component, component)}-{content}"


def cache_claim_name(name: str) -> str:
    return f"{name}-{CACHE}"


def model_list_name(name: str) -> str:
    return f"{name}-models"


def adapter_list_name(name: str) -> str:
    return f"{name}-adapters"


def service_name(name: str) -> str:
    return name


def service_host(service: str, namespace: str, *, cluster_domain: str) -> str:
    return f"{service}.{namespace}.svc.{cluster_domain}"


def selector_labels(name: str, component: str) -> dict[str, str]:
    """The labels that select the pods of a component. They never change, since selectors cannot change."""
    return {COMPONENT_LABEL: component, NAME_LABEL: name}


def labels(name: str, component: str) -> dict[str, str]:
    """All labels of a child and of its pods.

    No label of the InferenceDeployment is copied: a tracking label of Argo CD on a child would make it prune the child.
    """
    return {MANAGED_BY_LABEL: MANAGER, **selector_labels(name, component)}


def selector_text(name: str, component: str, **others: str) -> str:
    """The same selector as text, as `/scale` and `kubectl -l` take it, with other labels."""
    return ",".join(f"{k}={v}" for k, v in sorted({**selector_labels(name, component), **others}.items()))
