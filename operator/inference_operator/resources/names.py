"""What children are called and how they are found."""

MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
MANAGER = "inference-operator"
NAME_LABEL = "inference-operator.dev/name"
COMPONENT_LABEL = "app.kubernetes.io/component"
ENGINE = "engine"
ROUTER = "router"

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
