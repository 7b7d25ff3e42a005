"""The administrator's defaults of engine and router pods: what the operator's settings give every InferenceDeployment.

They have the form of the spec's own sections. `over` merges a section of a resource with them: the resource's value of
a key replaces the default.
"""

from collections.abc import Mapping
from typing import Annotated, TypeVar

from pydantic import Field, StringConstraints

from inference_operator.api.affinity import Affinity
from inference_operator.api.container import Environment, EnvironmentVariable, ResourcesSpec
from inference_operator.api.hardware import NetworkSpec
from inference_operator.api.pod_template import AddedContainer, Mount, PodTemplateSpec, PullSecret, PullSecrets, Volume
from inference_operator.api.scheduling import PodScheduling, TopologySpread
from inference_operator.api.validation import ObjectName, SpecModel

Ratio = Annotated[float, Field(ge=1, le=100)]
"""A limit divided by its request; Kubernetes allows no limit below the request."""
SizedResource = Annotated[str, StringConstraints(pattern="^(cpu|memory|ephemeral-storage)$")]
"""A resource that sizing requests for an engine."""


class PodDefaults(SpecModel):
    scheduling: PodScheduling = PodScheduling()
    pod_template: PodTemplateSpec = PodTemplateSpec()
    env: Environment = ()
    """Environment variables of the main containers, such as proxies, certificates and `HF_ENDPOINT`."""
    service_account_name: ObjectName | None = None
    """ServiceAccount of the pods. It must exist in every namespace with InferenceDeployments."""
    image_pull_secrets: PullSecrets = ()
    """Pull Secrets of the pods. A Secret that a namespace lacks is ignored by the kubelet."""

    @property
    def template(self) -> PodTemplateSpec:
        fields = {"service_account_name": self.service_account_name, "image_pull_secrets": self.image_pull_secrets}
        return self.pod_template.model_copy(update={name: value for name, value in fields.items() if value})


class EngineDefaults(PodDefaults):
    """Defaults of engine pods, and of the Jobs that inspect models."""

    network: NetworkSpec = NetworkSpec()
    """The network between the pods of an engine over several nodes, as `spec.hardware.network`."""
    limit_request_ratio: dict[SizedResource, Ratio] = Field(default_factory=dict)
    """The limit of a resource divided by its request, which sizing computes. For quotas on limits and LimitRanges."""


class RouterDefaults(PodDefaults):
    resources: ResourcesSpec = ResourcesSpec()
    """Requests and limits of a router pod, as `spec.router.resources`."""


M = TypeVar("M", bound=SpecModel)
_MERGED = (Affinity, PodScheduling, PodTemplateSpec, ResourcesSpec)
"""Models whose fields are merged one by one. Any other model is one value."""
_KEYS: Mapping[type[SpecModel], str] = {
    EnvironmentVariable: "name",
    AddedContainer: "name",
    Mount: "mount_path",
    PullSecret: "name",
    TopologySpread: "topology_key",
    Volume: "name",
}
"""The field that identifies an item of a list. Items of other models, such as tolerations, identify themselves."""


def over(requested: M, default: SpecModel) -> M:
    """A section of a resource over the operator's default of it, key by key."""
    stated = default.model_fields_set
    if not stated:
        return requested
    merged = {name: _merged(getattr(requested, name), getattr(default, name)) for name in stated}
    return requested.model_copy(update=merged)


def variables_over(requested: Environment, default: Environment) -> Environment:
    """A resource's environment variables over the operator's default, by name."""
    return _items(requested, default)


def _merged(requested: object, default: object) -> object:
    if isinstance(requested, _MERGED) and isinstance(default, SpecModel):
        return over(requested, default)
    if isinstance(requested, Mapping) and isinstance(default, Mapping):
        return {**default, **requested}
    if isinstance(requested, tuple) and isinstance(default, tuple):
        return _items(requested, default)
    is_set = bool(requested.model_fields_set) if isinstance(requested, SpecModel) else requested is not None
    return requested if is_set else default


T = TypeVar("T", bound=SpecModel)


def _items(requested: tuple[T, ...], default: tuple[T, ...]) -> tuple[T, ...]:
    names = {_key(item) for item in requested}
    return (*(item for item in default if _key(item) not in names), *requested)


def _key(item: SpecModel) -> object:
    field = _KEYS.get(type(item))
    return getattr(item, field) if field else item
