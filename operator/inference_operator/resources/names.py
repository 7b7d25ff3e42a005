"""What children are called and how they are found."""

MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
MANAGER = "inference-operator"
NAME_LABEL = "inference-operator.dev/name"
COMPONENT_LABEL = "app.kubernetes.io/component"
ENGINE = "engine"
ROUTER = "router"
INSPECTION = "inspection"

MANAGED_SELECTOR = f"{MANAGED_BY_LABEL}={MANAGER}"
"""Selects every object that any InferenceDeployment brought about."""


def engine_name(name: str) -> str:
    """Name of the engine Deployment and its disruption budget."""
    return f"{name}-engine"


def engines_service_name(name: str) -> str:
    """Name of the headless Service of the engines; the longest of all children."""
    return f"{name}-engines"


def router_name(name: str) -> str:
    """Name of the router Deployment, its configuration and its disruption budget."""
    return f"{name}-router"


MOST_OF_A_NAME = 37
"""Characters of an InferenceDeployment's name in that of a Job: the Job's pods add six to it, and take 63 at most."""
_SHORT = 8


def inspection_job_name(name: str, asked: str, attempt: int) -> str:
    """Name of the Job that inspects the model; what it does and which attempt it is tell Jobs apart.

    Examples:
        >>> inspection_job_name("qwen", "0123456789abcdef", 2)
        'qwen-model-01234567-2'
    """
    return f"{name[:MOST_OF_A_NAME].rstrip('-')}-model-{asked[:_SHORT]}-{attempt}"


def model_config_name(name: str, asked: str) -> str:
    """Name of the ConfigMap with what is known of a model."""
    return f"{name}-model-{asked}"


def service_name(name: str) -> str:
    """Name of the Service that users call."""
    return name


def selector_labels(name: str, component: str) -> dict[str, str]:
    """The labels that select the pods of a component; they never change, because selectors cannot."""
    return {COMPONENT_LABEL: component, NAME_LABEL: name}


def labels(name: str, component: str) -> dict[str, str]:
    """All labels of a child and of its pods.

    Nothing is copied from the InferenceDeployment: a tracking label of Argo CD on a child would have it pruned.
    """
    return {MANAGED_BY_LABEL: MANAGER, **selector_labels(name, component)}


def selector_text(name: str, component: str) -> str:
    """The same selector as text, as `/scale` and `kubectl -l` take it.

    Examples:
        >>> selector_text("qwen", ENGINE)
        'app.kubernetes.io/component=engine,inference-operator.dev/name=qwen'
    """
    return ",".join(f"{k}={v}" for k, v in sorted(selector_labels(name, component).items()))
