"""The settings of the operator that serves a namespace, as its Deployment has them, and what else plans depend on."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import ValidationError

from inference_operator import __version__
from inference_operator.cli.options import DEFAULT_NAMESPACE, SYSTEM_NAMESPACE
from inference_operator.manifest import Manifest, Ref
from inference_operator.roles.pinned_plan import PinnedPlan
from inference_operator.settings import PREFIX, Settings, setting_errors
from inference_operator.views.node import NodeView
from inference_operator.views.raw import mapping, named, objects

SELECTOR = "app.kubernetes.io/name=inference-operator"
"""Label of the operator's Deployment (charts/inference-operator/templates/_names.tpl)."""
VERSION_LABEL = "app.kubernetes.io/version"
OPERATOR_CONTAINER = "operator"
INSTEAD = f"The defaults of this release are assumed. Set the operator's `{PREFIX}…` variables here to replace them."
_FILES = frozenset({"job_program"})
"""Settings that name a file in the operator's pod."""


@dataclass(frozen=True, slots=True)
class FoundSettings:
    settings: Settings
    notes: tuple[str, ...] = ()
    """Sentences: which right is missing, and what is assumed instead."""


def settings_of(deployments: Sequence[Manifest], namespace: str) -> FoundSettings:
    if found := operator_of(deployments, namespace):
        return _settings(found)
    return FoundSettings(Settings(), (f"No Deployment of an operator for this namespace was found. {INSTEAD}",))


def operator_of(deployments: Sequence[Manifest], namespace: str) -> Manifest | None:
    """The operator among several that serves a namespace; None if none does.

    Whoever may create Deployments can give one the operator's label. So one in the operator's own namespace comes
    first.

    Examples:
        >>> own, other = ({"metadata": {"namespace": one}} for one in (SYSTEM_NAMESPACE, "a"))
        >>> operator_of([other, own], "a") is own
        True
    """
    return min(operators_of(deployments, namespace), key=lambda one: not is_at_home(one), default=None)


def operators_of(deployments: Sequence[Manifest], namespace: str) -> Sequence[Manifest]:
    served = ((one, _settings(one).settings.namespaces) for one in deployments)
    return [one for one, namespaces in served if not namespaces or namespace in namespaces]


def is_at_home(deployment: Manifest) -> bool:
    """Whether a Deployment is in the operator's own namespace, where no tenant can create one."""
    return bool(mapping(deployment, "metadata").get("namespace") == SYSTEM_NAMESPACE)


def _settings(deployment: Manifest) -> FoundSettings:
    pod = mapping(deployment, "spec", "template", "spec")
    container = named(objects(pod, "containers"), OPERATOR_CONTAINER)
    values: dict[str, str] = {}
    notes: list[str] = []
    for variable in objects(container, "env"):
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
    version = str(mapping(deployment, "metadata", "labels").get(VERSION_LABEL, ""))
    if version and version != __version__:
        notes.append(f"The operator is release {version}, and `infd` is {__version__}: it predicts its own decisions.")
    try:
        return FoundSettings(Settings(**values), tuple(notes))  # type: ignore[arg-type]  # as texts, parsed by pydantic
    except ValidationError:
        return FoundSettings(Settings(), (*notes, f"The operator's settings are of another release. {INSTEAD}"))


def errors_of(error: ValueError) -> list[str]:
    """What is wrong with the settings in the environment; nothing for another error."""
    return setting_errors(error) if isinstance(error, ValidationError) else []


@dataclass(frozen=True, slots=True)
class LiveState:
    nodes: Sequence[NodeView] | None = None
    stored_models: Mapping[Ref, Manifest] | None = None
    plans: Mapping[tuple[str, str], Mapping[str, PinnedPlan]] = field(default_factory=dict)
    """Plans of running engines, by namespace and name of their resource, and by role."""
    operators: Sequence[Manifest] = ()

    def with_policy(self, settings: Settings, document: Manifest) -> Settings:
        if not self.operators:
            return settings
        metadata = document.get("metadata") or {}
        own = settings_of(self.operators, metadata.get("namespace") or DEFAULT_NAMESPACE).settings
        return settings.model_copy(update={"policy": own.policy, "cluster_domain": own.cluster_domain})

    def plans_of(self, document: Manifest) -> Mapping[str, PinnedPlan]:
        metadata = document.get("metadata") or {}
        return self.plans.get((metadata.get("namespace") or DEFAULT_NAMESPACE, metadata.get("name") or ""), {})
