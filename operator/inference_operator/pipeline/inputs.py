"""Inputs of a decision: the resource, its live children and pods, lookups, samples, nodes and settings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Generic

from typing_extensions import TypeVar

from inference_operator.api.reasons import Reason
from inference_operator.api.resource import AnyResource, Resource
from inference_operator.autoscaling.inputs import ScalingResult
from inference_operator.engines.registry import ENGINES, EngineRegistry
from inference_operator.fleet.rollout_slots import NO_OTHERS, Fleet
from inference_operator.manifest import (
    CONFIG_MAP,
    DEPLOYMENT,
    INFERENCE_DEPLOYMENT,
    SERVICE,
    Kind,
    Manifest,
    Owner,
    Ref,
)
from inference_operator.objects import names
from inference_operator.roles.spec import RolePolicy, requested_roles
from inference_operator.router.exposure import selects_engines
from inference_operator.router.pinned_router import live_slots
from inference_operator.settings import Settings
from inference_operator.views.draining_node import DrainingNode
from inference_operator.views.lookups import LookupResults
from inference_operator.views.node import NodeView
from inference_operator.views.pod import PodView
from inference_operator.views.samples import Samples
from inference_operator.views.workload import WORKLOAD_KINDS, WorkloadView, newest_first, workload_view
from inference_operator.workload.eviction.half_placed import HalfPlaced

_WRITE_FAILS = frozenset({Reason.NAME_CONFLICT, Reason.CHILD_REJECTED, Reason.REQUEST_FAILED})
"""Reasons for which an object of the resource was not written at the last try."""


ResourceT = TypeVar("ResourceT", bound=AnyResource, default=Resource)


@dataclass(frozen=True, slots=True)
class Shared:
    fleet: Fleet = NO_OTHERS
    """How far changes of the owner's settings are at all other resources."""
    half_placed: Sequence[HalfPlaced] = ()
    """The half-placed groups of all InferenceDeployments, if this resource has any."""
    followed: Sequence[AnyResource] = ()
    """The resources of its namespace of the kinds that its own kind follows."""
    followed_services: Mapping[Ref, Manifest] = field(default_factory=dict)
    """Their main Services."""


@dataclass(frozen=True, slots=True)
class Inputs(Generic[ResourceT]):
    """Everything that a decision reads, as last observed. Nothing else is remembered between two decisions."""

    resource: ResourceT
    children: Mapping[Ref, Manifest]
    """Live objects that the resource owns."""
    pods: Sequence[PodView]
    settings: Settings
    now: datetime
    lookups: LookupResults = field(default_factory=dict)
    samples: Samples = field(default_factory=Samples)
    nodes: Sequence[NodeView] | None = None
    """Nodes with GPUs; None where the operator cannot see nodes."""
    leaving: Mapping[str, DrainingNode] | None = field(default_factory=dict)
    """Nodes whose pods must go, by name, with GPUs or without; None where the operator cannot see nodes."""
    engines: EngineRegistry = ENGINES
    roles: RolePolicy = requested_roles
    jobs: bool = True
    """Whether engines wait for the Jobs of their model, a download or a verification; not where objects are only
    shown."""
    scaling: Mapping[str, ScalingResult] = field(default_factory=dict)
    unavailable_kinds: Mapping[Kind, str] = field(default_factory=dict)
    """Kinds of children that the operator cannot use in this cluster: why, and the fix, in sentences."""
    shared: Shared = Shared()

    @property
    def owner(self) -> Owner:
        """The resource as the owner of its children, with the labels that all of them carry."""
        kind = self.resource.key.kind
        own = {} if kind == INFERENCE_DEPLOYMENT else {names.KIND_LABEL: kind.name}
        return replace(self.resource.owner, child_labels={**self.settings.common_labels, **own})

    def child(self, ref: Ref) -> Manifest | None:
        return self.children.get(ref)

    @property
    def can_write(self) -> bool:
        """Whether all objects of the resource were written at the last try."""
        return not any(condition.reason in _WRITE_FAILS for condition in self.resource.status.conditions)

    @property
    def router_slots(self) -> int:
        """HAProxy server slots of the pinned router, else of the live configuration; 0 where there is none."""
        return live_slots(self.router_deployment, self.router_config)

    @property
    def router_config(self) -> Manifest | None:
        key = self.resource.key
        return self.child(Ref(CONFIG_MAP, key.namespace, names.router_name(key.name)))

    @property
    def router_deployment(self) -> Manifest | None:
        key = self.resource.key
        return self.child(Ref(DEPLOYMENT, key.namespace, names.router_name(key.name)))

    @property
    def main_service(self) -> Ref:
        return Ref(SERVICE, self.resource.key.namespace, names.service_name(self.resource.key.name))

    @property
    def bypasses_routers(self) -> bool:
        """Whether the live main Service selects engines instead of routers."""
        return selects_engines(self.child(self.main_service))

    @property
    def routers(self) -> WorkloadView:
        return workload_view(self.router_deployment)

    def workloads(self, role: str) -> Sequence[Manifest]:
        name = self.resource.key.name
        return newest_first(
            live
            for ref, live in self.children.items()
            if ref.kind in WORKLOAD_KINDS and names.is_workload_name(ref.name, name, role)
        )

    def engines_service(self, role: str) -> Manifest | None:
        key = self.resource.key
        return self.child(Ref(SERVICE, key.namespace, names.headless_service_name(key.name, role)))

    def pods_of(self, role: str) -> Sequence[PodView]:
        return [pod for pod in self.pods if pod.component == role]
