"""Roles: groups of engine pods with one plan and one workload each. Today every resource has one, "engine"."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from inference_operator.api.spec import Spec
from inference_operator.engines.base import Engine
from inference_operator.engines.process import EngineProcess
from inference_operator.engines.registry import EngineRegistry
from inference_operator.manifest import Manifest, Ref
from inference_operator.objects.names import ENGINE
from inference_operator.views.lookups import Lookup
from inference_operator.views.pod import PodView
from inference_operator.workload.pinned_plan import PinnedPlan
from inference_operator.workload.rollout import Rollout


@dataclass(frozen=True, slots=True)
class RoleRequest:
    """A role that a specification needs."""

    name: str
    """Name of the role: the component label of its objects and the name of its container."""
    engine: str
    """Name of the engine that runs it, as the registry has it."""


@dataclass(frozen=True, slots=True)
class Role:
    """One role as decided."""

    name: str
    engine: Engine
    plan: PinnedPlan
    process: EngineProcess
    workload: Manifest
    """The desired Deployment."""
    pods: Sequence[PodView]
    """Live pods of the role."""
    rollout: Rollout | None
    """How its pods are replaced; None until the lookup that decides it has a result."""
    objects: dict[Ref, Manifest]
    """All desired objects of the role, the workload included."""
    replicas: int = 1
    """Engines that are wanted; the workload may have fewer where nodes limit them."""
    notice: str = ""
    """What users should know about the decision; empty if nothing."""
    missing_gpu_kind: str = ""
    """The kind of GPU that the plan needs and no node has; empty if a node has it."""
    disk_shortfall: str = ""
    """Which nodes lack the disk that an engine requests, in a sentence; empty if one has it."""
    lookups: tuple[Lookup, ...] = ()
    recheck_at: datetime | None = None
    """When the role has to be decided again without an event."""


def requested_roles(_spec: Spec, engines: EngineRegistry) -> tuple[RoleRequest, ...]:
    """The roles of a specification. The router sends requests to the first one."""
    return (RoleRequest(ENGINE, engines.default),)
