"""Roles as observed, and the context of a decision about one role. Both are made once for each decision."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from inference_operator.api.effective_spec import EffectiveSpec
from inference_operator.api.spec import Spec
from inference_operator.engines.base import Engine
from inference_operator.engines.model_access import HubAccess
from inference_operator.manifest import STATEFUL_SET, Kind, Manifest, Owner
from inference_operator.models.source import ModelSource
from inference_operator.roles.engine_choice import NO_CHOICE, EngineChoice
from inference_operator.roles.pinned_plan import PinnedPlan
from inference_operator.roles.spec import RoleSpec
from inference_operator.settings import Settings
from inference_operator.views.engine import EngineView
from inference_operator.views.lookups import LookupResults
from inference_operator.views.node import NodeView
from inference_operator.views.pod import PodView
from inference_operator.views.workload import WorkloadView


@dataclass(frozen=True, slots=True)
class LiveRole:
    name: str
    engine: Engine
    """The engine that runs in it: that of its latest recorded plan, else the requested one."""
    workloads: Sequence[Manifest]
    view: WorkloadView
    """The same, typed."""
    service: Manifest | None
    engines: Sequence[EngineView]
    recorded: PinnedPlan | None
    has_scale: bool = True

    @property
    def workload(self) -> Manifest | None:
        """The newest object of its workload, which has its records; None without a workload."""
        return next(iter(self.workloads), None)

    @property
    def groups(self) -> Mapping[str, Manifest]:
        """The StatefulSets of its workload by name, the newest first: each is a group."""
        sets = (workload for workload in self.workloads if workload["kind"] == STATEFUL_SET.name)
        return {group["metadata"]["name"]: group for group in sets}

    @property
    def engines_of_groups(self) -> Mapping[str, EngineView]:
        return {engine.leader.group: engine for engine in self.engines if engine.leader.group}

    @property
    def pods(self) -> Sequence[PodView]:
        return [pod for engine in self.engines for pod in engine.pods]


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedContext:
    """What the roles and the Jobs of an InferenceDeployment have in common: model, claim, adapters and router."""

    effective: EffectiveSpec
    """The InferenceDeployment's own specification, with the slots for its adapters."""
    source: ModelSource
    access: HubAccess
    """How Jobs read the model's files: with the user of the engines of the role that has `/scale`."""
    owner: Owner
    settings: Settings

    @property
    def stated(self) -> Spec:
        return self.effective.stated


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleContext:
    spec: RoleSpec
    engine: Engine
    source: ModelSource
    live: LiveRole
    owner: Owner
    settings: Settings
    now: datetime
    lookups: LookupResults
    nodes: Sequence[NodeView] | None
    choice: EngineChoice = NO_CHOICE
    unavailable_kinds: Collection[Kind] = ()
