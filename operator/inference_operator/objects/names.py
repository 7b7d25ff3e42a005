"""Names and labels of child objects."""

MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
MANAGER = "inference-operator"
NAME_LABEL = "inference-operator.dev/name"
COMPONENT_LABEL = "app.kubernetes.io/component"
ENGINE = "engine"
"""The role that every resource has."""
ROUTER = "router"
INSPECTION = "inspection"
DOWNLOAD = "download"
CACHE = "cache"
VERIFICATION = "verification"

MANAGED_SELECTOR = f"{MANAGED_BY_LABEL}={MANAGER}"
"""Selects every object that the operator created, and their pods."""


def workload_name(name: str, role: str) -> str:
    """Name of a role's workload, NetworkPolicy and disruption budget.

    Examples:
        >>> workload_name("qwen", ENGINE)
        'qwen-engine'
    """
    return f"{name}-{role}"


def headless_service_name(name: str, role: str) -> str:
    """Name of a role's headless Service; with the role `engine` the longest name of all children.

    Examples:
        >>> headless_service_name("qwen", ENGINE)
        'qwen-engines'
    """
    return f"{name}-{role}s"


def router_name(name: str) -> str:
    """Name of the router Deployment, its configuration and its disruption budget."""
    return f"{name}-router"


MAX_NAME_PART = 37
"""Characters of an InferenceDeployment's name in the name of its Job. The Job's pods add six; 63 is the limit."""
_HASH_PART = 8


def inspection_job_name(name: str, content: str, attempt: int) -> str:
    """Name of the Job that inspects the model, with the hash of its content and the number of the attempt.

    Examples:
        >>> inspection_job_name("qwen", "0123456789abcdef", 2)
        'qwen-model-01234567-2'
    """
    return f"{name[:MAX_NAME_PART].rstrip('-')}-model-{content[:_HASH_PART]}-{attempt}"


def model_config_name(name: str, source: str) -> str:
    """Name of the ConfigMap with the result of the inspection; `source` is the hash of the model's source."""
    return f"{name}-model-{source}"


def download_job_name(name: str, content: str, attempt: int) -> str:
    """Name of the Job that downloads the model to a claim, with the hash of its content and the attempt's number.

    Examples:
        >>> download_job_name("qwen", "0123456789abcdef", 2)
        'qwen-cache-01234567-2'
    """
    return f"{name[:MAX_NAME_PART].rstrip('-')}-cache-{content[:_HASH_PART]}-{attempt}"


def download_config_name(name: str, content: str) -> str:
    """Name of the ConfigMap that records the finished download; `content` is the hash of the request."""
    return f"{name}-cache-{content}"


def verification_job_name(name: str, content: str, attempt: int) -> str:
    """Name of the Job that verifies a signature, with the hash of its content and the attempt's number.

    Examples:
        >>> verification_job_name("qwen", "0123456789abcdef", 2)
        'qwen-sign-01234567-2'
    """
    return f"{name[:MAX_NAME_PART].rstrip('-')}-sign-{content[:_HASH_PART]}-{attempt}"


def verification_config_name(name: str, content: str) -> str:
    """Name of the ConfigMap that records a verified signature; `content` is the hash of the verified image and key."""
    return f"{name}-sign-{content}"


def cache_claim_name(name: str) -> str:
    """Name of the claim that `spec.cache.size` creates."""
    return f"{name}-{CACHE}"


def service_name(name: str) -> str:
    """Name of the Service that users call."""
    return name


def selector_labels(name: str, component: str) -> dict[str, str]:
    """The labels that select the pods of a component. They never change, since selectors cannot change."""
    return {COMPONENT_LABEL: component, NAME_LABEL: name}


def labels(name: str, component: str) -> dict[str, str]:
    """All labels of a child and of its pods.

    No label of the InferenceDeployment is copied: a tracking label of Argo CD on a child would make it prune the child.
    """
    return {MANAGED_BY_LABEL: MANAGER, **selector_labels(name, component)}


def selector_text(name: str, component: str) -> str:
    """The same selector as text, as `/scale` and `kubectl -l` take it.

    Examples:
        >>> selector_text("qwen", ENGINE)
        'app.kubernetes.io/component=engine,inference-operator.dev/name=qwen'
    """
    return ",".join(f"{k}={v}" for k, v in sorted(selector_labels(name, component).items()))
