"""The settings of the operator that serves a namespace, as its Deployment has them."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import ValidationError

from inference_operator import __version__
from inference_operator.manifest import DEPLOYMENT, Manifest, Ref
from inference_operator.settings import PREFIX, Settings
from inference_operator.views.raw import mapping, objects

if TYPE_CHECKING:
    from inference_operator.kube.cluster import KubeCluster

SELECTOR = "app.kubernetes.io/name=inference-operator"
"""Label of the operator's Deployment (charts/inference-operator/templates/_names.tpl)."""
SYSTEM_NAMESPACE = "inference-operator-system"
"""The namespace that the documentation installs the operator into."""
VERSION_LABEL = "app.kubernetes.io/version"
OPERATOR_CONTAINER = "operator"
_INSTEAD = f"The defaults of this release are assumed. Set the operator's `{PREFIX}…` variables here to replace them."
_FILES = frozenset({"job_program"})
"""Settings that name a file in the operator's pod."""


@dataclass(frozen=True, slots=True)
class FoundSettings:
    """Settings, and what is assumed about them."""

    settings: Settings
    notes: tuple[str, ...] = ()
    """Sentences: which right is missing, and what is assumed instead."""


async def found_settings(cluster: "KubeCluster", namespace: str) -> FoundSettings:
    """The settings of the operator that serves a namespace. Variables of the command's own environment replace them."""
    found = await operators(cluster)
    if found is None:
        right = f"get the Deployment `inference-operator` in `{SYSTEM_NAMESPACE}`"
        return FoundSettings(
            Settings(), (f"You have no right to {right}, which has the operator's settings. {_INSTEAD}",)
        )
    return settings_of(found, namespace)


async def operators(cluster: "KubeCluster") -> Sequence[Manifest] | None:
    """The Deployments of all operators, or of the one in its usual place; None without the right to read it."""
    from inference_operator.controller.cluster import ForbiddenError  # noqa: PLC0415 - see `cli.connection`

    try:
        return [one async for one in cluster.each(DEPLOYMENT, labels=SELECTOR)]
    except ForbiddenError:
        try:
            own = await cluster.get(Ref(DEPLOYMENT, SYSTEM_NAMESPACE, "inference-operator"))
        except ForbiddenError:
            return None
        return [own] if own else []


def settings_of(deployments: Sequence[Manifest], namespace: str) -> FoundSettings:
    """The settings of the one among several operators that serves a namespace.

    Args:
        deployments: those of all operators.
        namespace: of the resource.
    """
    if found := operator_of(deployments, namespace):
        return _settings(found)
    return FoundSettings(Settings(), (f"No Deployment of an operator for this namespace was found. {_INSTEAD}",))


def operator_of(deployments: Sequence[Manifest], namespace: str) -> Manifest | None:
    """The operator among several that serves a namespace; None if none does.

    Whoever may create Deployments can give one the operator's label. So one in the operator's own namespace comes
    first.

    Args:
        deployments: those of all operators.
        namespace: of the resource.

    Examples:
        >>> own, other = ({"metadata": {"namespace": one}} for one in (SYSTEM_NAMESPACE, "a"))
        >>> operator_of([other, own], "a") is own
        True
    """
    return min(operators_of(deployments, namespace), key=lambda one: not is_at_home(one), default=None)


def operators_of(deployments: Sequence[Manifest], namespace: str) -> Sequence[Manifest]:
    """The operators that serve a namespace: there should be one.

    Args:
        deployments: those of all operators.
        namespace: of the resources.
    """
    served = ((one, _settings(one).settings.namespaces) for one in deployments)
    return [one for one, namespaces in served if not namespaces or namespace in namespaces]


def is_at_home(deployment: Manifest) -> bool:
    """Whether a Deployment is in the operator's own namespace, where no tenant can create one."""
    return bool(mapping(deployment, "metadata").get("namespace") == SYSTEM_NAMESPACE)


def _settings(deployment: Manifest) -> FoundSettings:
    pod = mapping(mapping(mapping(deployment, "spec"), "template"), "spec")
    containers = [one for one in objects(pod, "containers") if one.get("name") == OPERATOR_CONTAINER]
    values: dict[str, str] = {}
    notes: list[str] = []
    for variable in (variable for one in containers for variable in objects(one, "env")):
        name = str(variable.get("name", ""))
        field = name.removeprefix(PREFIX).lower()
        if field == name.lower() or field not in Settings.model_fields or name in os.environ:
            continue
        if field in _FILES:
            if variable.get("value"):
                notes.append(f"`{name}` names a file of the operator: the program of Jobs is predicted without it.")
        elif "valueFrom" in variable:
            notes.append(f"The operator's setting `{name}` cannot be read from here. Its default is assumed.")
        else:
            values[field] = str(variable.get("value") or "").replace("$$", "$")
    version = str(mapping(mapping(deployment, "metadata"), "labels").get(VERSION_LABEL, ""))
    if version and version != __version__:
        notes.append(f"The operator is release {version}, and `infd` is {__version__}: it predicts its own decisions.")
    try:
        return FoundSettings(Settings(**values), tuple(notes))  # type: ignore[arg-type]  # as texts, parsed by pydantic
    except ValidationError:
        return FoundSettings(Settings(), (*notes, f"The operator's settings are of another release. {_INSTEAD}"))
