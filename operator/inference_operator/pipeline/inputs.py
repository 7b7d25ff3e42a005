"""Inputs of a decision: the resource, its live children and pods, lookups, samples, nodes and settings."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeAlias

from inference_operator.api.reasons import ConditionType
from inference_operator.api.resource import Resource
from inference_operator.api.spec import Spec
from inference_operator.autoscaling.conflict import ConflictRequest, ScalingConflict, scaling_conflict
from inference_operator.autoscaling.external import external_ref
from inference_operator.autoscaling.external_state import ExternalState, ExternalStateInputs, external_state
from inference_operator.autoscaling.request import ScalingResult
from inference_operator.autoscaling.schedule import Floor, floor_at
from inference_operator.engines.base import Engine
from inference_operator.engines.registry import ENGINES, EngineRegistry
from inference_operator.manifest import CONFIG_MAP, DEPLOYMENT, SERVICE, Kind, Manifest, Owner, Ref
from inference_operator.objects.names import (
    COMPONENT_LABEL,
    ENGINE,
    ROUTER,
    headless_service_name,
    router_name,
    service_name,
    workload_name,
)
from inference_operator.pipeline.roles import RoleRequest, requested_roles
from inference_operator.router.config_map import live_slots
from inference_operator.router.exposure import selects_engines
from inference_operator.router.pinned_router import pinned_slots
from inference_operator.settings import Settings
from inference_operator.views.lookups import LookupResults
from inference_operator.views.node import NodeView
from inference_operator.views.pod import PodView
from inference_operator.views.raw import annotations, mapping
from inference_operator.views.samples import Samples
from inference_operator.views.workload import WORKLOAD_KINDS, WorkloadView, workload_view
from inference_operator.workload.pinned_plan import (
    PLAN_ANNOTATION,
    PinnedPlan,
    completed,
    pinned_plan,
    plan_from_status,
)

RolePolicy: TypeAlias = Callable[[Spec, EngineRegistry], Sequence[RoleRequest]]
"""Which roles a specification needs, and which engine runs each."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """Everything that a decision reads, as last observed. Nothing else is remembered between two decisions."""

    resource: Resource
    children: Mapping[Ref, Manifest]
    """Live objects that the resource owns."""
    pods: Sequence[PodView]
    settings: Settings
    now: datetime
    lookups: LookupResults = field(default_factory=dict)
    """Results of the lookups that earlier decisions requested."""
    samples: Samples = field(default_factory=Samples)
    """Latest samples of the pods' metrics."""
    nodes: Sequence[NodeView] | None = None
    """Nodes with GPUs; None where the operator cannot see nodes."""
    engines: EngineRegistry = ENGINES
    roles: RolePolicy = requested_roles
    jobs: bool = True
    """Whether engines wait for the Jobs of their model, a download or a verification; not where objects are only
    shown."""
    scaling: ScalingResult | None = None
    """The latest decision of autoscaling; None before the first one."""
    unavailable_kinds: Mapping[Kind, str] = field(default_factory=dict)
    """Kinds of children that the operator cannot use in this cluster: why, and the fix, in sentences."""

    @property
    def owner(self) -> Owner:
        """The resource as the owner of its children, with the labels that all of them carry."""
        return replace(self.resource.owner, child_labels=self.settings.common_labels)

    def child(self, ref: Ref) -> Manifest | None:
        """A live child of the resource, or None."""
        return self.children.get(ref)

    @property
    def role_requests(self) -> Sequence[RoleRequest]:
        """The roles that the specification needs; those of the live workloads where it is invalid."""
        spec = self.resource.spec
        if isinstance(spec, Spec):
            return self.roles(spec, self.engines)
        live = [
            self._component(manifest) for ref, manifest in sorted(self.children.items()) if ref.kind in WORKLOAD_KINDS
        ]
        names = [name for name in live if name not in ("", ROUTER)] or [ENGINE]
        return tuple(RoleRequest(name, self.engines.default) for name in names)

    @property
    def first_role(self) -> str:
        """Name of the first role, which requests reach first."""
        return self.role_requests[0].name

    @property
    def engine_pods(self) -> Sequence[PodView]:
        """The pods of all roles."""
        names = {role.name for role in self.role_requests}
        return [pod for pod in self.pods if pod.component in names]

    @property
    def router_slots(self) -> int:
        """HAProxy server slots of the pinned router, else of the live configuration; 0 where there is none."""
        key = self.resource.key
        config = self.child(Ref(CONFIG_MAP, key.namespace, router_name(key.name)))
        return pinned_slots(self.router_deployment) or live_slots(config)

    @property
    def router_deployment(self) -> Manifest | None:
        """The live Deployment of the routers, or None."""
        key = self.resource.key
        return self.child(Ref(DEPLOYMENT, key.namespace, router_name(key.name)))

    @property
    def main_service(self) -> Ref:
        """The Service that clients call."""
        return Ref(SERVICE, self.resource.key.namespace, service_name(self.resource.key.name))

    @property
    def autoscaler(self) -> ExternalState | None:
        """What a HorizontalPodAutoscaler or KEDA does; None if the specification asks for neither."""
        spec = self.resource.spec
        if not isinstance(spec, Spec) or spec.autoscaling is None:
            return None
        ref = external_ref(spec.autoscaling, self.owner)
        return external_state(
            ExternalStateInputs(
                spec=spec.autoscaling,
                owner=self.owner,
                requested=spec.replicas,
                live=self.child(ref) if ref else None,
                unavailable=self.unavailable_kinds,
                prometheus_url=self.settings.prometheus_url,
                now=self.now,
            )
        )

    @property
    def floor(self) -> Floor | None:
        """The fewest engines now; None without autoscaling."""
        spec = self.resource.spec
        return floor_at(spec.autoscaling, self.now) if isinstance(spec, Spec) and spec.autoscaling else None

    @property
    def conflict(self) -> ScalingConflict | None:
        """Whether another autoscaler acts beside the operator; None where the operator does not decide."""
        spec, key = self.resource.spec, self.resource.key
        if not isinstance(spec, Spec) or spec.autoscaling is None:
            return None
        role = self.role_requests[0].name
        before = self.resource.status.condition(ConditionType.SCALING_ACTIVE)
        name, live = workload_name(key.name, role), self.workload(role)
        return scaling_conflict(ConflictRequest(key, spec, name, live, before, self.lookups))

    @property
    def is_direct(self) -> bool:
        """Whether the live main Service selects engines instead of routers."""
        return selects_engines(self.child(self.main_service))

    @property
    def routers(self) -> WorkloadView:
        """The Deployment of the routers, as it is observed."""
        return workload_view(self.router_deployment)

    def workload(self, role: str = ENGINE) -> Manifest | None:
        """The live workload of a role, or None."""
        key = self.resource.key
        refs = (Ref(kind, key.namespace, workload_name(key.name, role)) for kind in WORKLOAD_KINDS)
        return next((live for ref in refs if (live := self.child(ref)) is not None), None)

    def engines_service(self, role: str = ENGINE) -> Manifest | None:
        """The live headless Service of a role, or None."""
        key = self.resource.key
        return self.child(Ref(SERVICE, key.namespace, headless_service_name(key.name, role)))

    def pods_of(self, role: str) -> Sequence[PodView]:
        """The pods of a role."""
        return [pod for pod in self.pods if pod.component == role]

    def pinned_plans(self, role: str = ENGINE) -> Sequence[PinnedPlan]:
        """The plans recorded for a role, the latest decision first.

        There are two records, which differ if one of them was not written: status, for the first role, and the
        annotation of the workload. Status comes first, since an annotation that somebody edited is drift.
        """
        requests = {request.name: request for request in self.role_requests}
        text = annotations(self.workload(role)).get(PLAN_ANNOTATION)
        annotated = pinned_plan(text)
        engine = annotated.engine if annotated else requests[role].engine
        recorded = plan_from_status(self.resource.status, engine=engine) if role == next(iter(requests)) else None
        if recorded and annotated:
            recorded = completed(recorded, annotated)
        plans = [plan for plan in (recorded, annotated) if plan is not None]
        return sorted(plans, key=lambda plan: -plan.plan.decision)

    def engine_of(self, role: str) -> Engine:
        """The engine that runs in a role: the one of its pinned plan, else the requested one."""
        requests = {request.name: request.engine for request in self.role_requests}
        names = [*(plan.engine for plan in self.pinned_plans(role)), requests[role], self.engines.default]
        return next(self.engines[name] for name in names if name in self.engines)

    @staticmethod
    def _component(manifest: Manifest) -> str:
        return str(mapping(mapping(manifest, "metadata"), "labels").get(COMPONENT_LABEL, ""))
