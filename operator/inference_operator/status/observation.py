"""The observation that the rules of all conditions read, and the verdict that they give."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from inference_operator.api.explanations import with_cure
from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.api.status import AdapterStatus, KvCacheStatus, NetworkStatus, StartupStatus, Status
from inference_operator.diagnosis.component import Component
from inference_operator.diagnosis.group_members import GroupMembers
from inference_operator.diagnosis.pending_causes import rejection_cure
from inference_operator.diagnosis.pod_diagnosis import PodDiagnosis
from inference_operator.diagnosis.startup_progress import sentence
from inference_operator.fleet.rollout_slots import FleetState
from inference_operator.jobs.attempts import PodWait
from inference_operator.jobs.result import Failure
from inference_operator.manifest import Key
from inference_operator.models.source import ModelSource
from inference_operator.pipeline.part import ModelWait
from inference_operator.planning.known_model import KnownModel
from inference_operator.roles.pinned_plan import PinnedPlan
from inference_operator.sentences import sentences
from inference_operator.sizing.plan import Plan
from inference_operator.status.autoscaling import ScalingObservation
from inference_operator.status.request_path import RequestPath
from inference_operator.status.write_results import Conflict, Failed, Rejected, Waiting
from inference_operator.views.engine import EngineView
from inference_operator.views.lookups import Lookup
from inference_operator.views.workload import WorkloadView
from inference_operator.workload.rollout import Rollout

ConditionStatus: TypeAlias = Literal["True", "False", "Unknown"]


@dataclass(frozen=True, slots=True)
class ConditionVerdict:
    """The status of a condition and why."""

    status: ConditionStatus
    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class RoleObservation:
    """One role: its plan, its engines and their problems."""

    component: Component
    """Its workload, counted in engines, and its pods."""
    engines: Sequence[EngineView]
    """Its engines that stay: not of an earlier template, and not being deleted."""
    pinned: PinnedPlan | None
    """Its plan: decided in this round, or recorded before."""
    kv_cache: KvCacheStatus | None
    """The KV cache of its engines, once one has reported it."""
    scaling: ScalingObservation
    unread: int
    """Its ready engines whose metrics cannot be read."""
    has_scale: bool
    """Whether `/scale` is about it."""
    network: NetworkStatus | None = None
    """The network between the nodes of an engine, once a log has told it."""
    has_only_groups: bool = False
    """Whether each of its workloads is a StatefulSet, the pods of one engine."""
    rollout: Rollout | None = None
    """The rollout of its engines."""
    rollout_undecided: bool = False
    """Whether its engines wait to be replaced until a lookup shows which GPUs are free."""
    missing_gpu_kind: str = ""
    """The kind of GPU that its plan needs and no node has; empty if a node has it."""
    capacity: str = ""
    """Sentence about the requests that one engine carries; empty if the speed of its GPUs is unknown."""
    gang_backoff: str = ""
    """Sentences about its groups that gave their nodes back for others; empty if none did."""
    lost: str = ""
    """Sentences about its pods on nodes that do not answer; empty if there are none."""
    members: GroupMembers | None = None
    """The members of a group that is not ready: of the one whose problem or progress is reported."""
    moves: bool = False
    """Whether successors start for engines on draining nodes."""
    doubt: str = ""
    """Why this release would refuse the plan that is kept, in a sentence; empty if it would not."""
    disk_shortfall: str = ""
    """Sentence about the nodes, which lack the disk that an engine requests; empty if one has it."""

    @property
    def name(self) -> str:
        return self.component.name

    @property
    def plan(self) -> Plan | None:
        return self.pinned.plan if self.pinned else None


@dataclass(frozen=True, slots=True)
class Observation:
    """The request, everything that runs for it, and the problems of that, after the writes of one round."""

    key: Key
    roles: Sequence[RoleObservation]
    """At least one."""
    desired: int
    """Engines that should run. While nothing is changed, those of the live workload."""
    engines: WorkloadView
    """The workloads of all roles."""
    routers: WorkloadView
    fleet_state: FleetState
    """State of a change of the administrator's settings."""
    engines_outdated: Reason | None
    """Why a renewal would change engines; None if they are as this release builds them, or if nothing is decided."""
    routers_outdated: bool
    """Whether this release builds another pod template or configuration than the routers keep."""
    open_attacks: Sequence[str]
    """Attacks that this release closes and the routers do not."""
    path: RequestPath
    """The path of requests to the engines."""
    refusal: Refusal | None
    source: ModelSource | None
    """The source of the model; None if the specification or the source is invalid."""
    inspection: ModelWait | None
    """Progress of the model's inspection; None if nothing waits for it."""
    model_wait: ModelWait | None
    """Why engines wait for their model; None if they do not."""
    adapter_wait: PodWait | None
    """Why the Job of an adapter does not run; None if none waits."""
    model_failure: Failure | None
    """Why the model's files could not be read; None if they were, or need not be."""
    paused: bool
    blocked: Conflict | Waiting | Rejected | Failed | None
    """Why a child could not be written; causes that a user must resolve come before those that pass."""
    failures: Sequence[Failed]
    problem: PodDiagnosis | None
    """The pod whose problem matters most, and why it does not run."""
    router_problem: PodDiagnosis | None
    """The router pod whose problem matters most, and why it does not run."""
    out_of_traffic: Sequence[str]
    """Names of the engines that get no new requests, because they made no progress; sorted."""
    stall: str
    """The engine that this round found stalled; empty if none."""
    replacing: bool
    """Whether ready engines, without those that are being deleted, are fewer than desired."""
    notice: str
    """Sentences for users about the decision; empty if there are none."""
    model: KnownModel | None
    adapters: Sequence[AdapterStatus]
    startup: StartupStatus | None
    """The start that status reports; None if none is to be reported."""
    lookups: tuple[Lookup, ...]
    """Lookups that tell more."""
    due: tuple[datetime, ...]
    """Times at which some of this changes without an event."""
    previous: Status
    now: datetime

    @property
    def progress(self) -> str:
        """The startup progress in sentences; empty if there is none. A group's begins when all members have joined."""
        waits = any(role.members and not role.members.all_joined for role in self.roles)
        return sentences(self.members, sentence(self.startup) if self.startup and not waits else "")

    @property
    def scaled_role(self) -> RoleObservation:
        """The role that `/scale` is about; any, where neither specification nor status tells which one."""
        return min(self.roles, key=lambda role: not role.has_scale)

    @property
    def unread(self) -> int:
        """Ready engines whose metrics cannot be read."""
        return sum(role.unread for role in self.roles)

    @property
    def rollout(self) -> Rollout | None:
        """The rollout of a role, one that replaces engines if there is any."""
        rollouts = [role for role in self.roles if role.rollout]
        return max(rollouts, key=lambda role: role.component.workload.rolling).rollout if rollouts else None

    @property
    def rollout_undecided(self) -> bool:
        """Whether engines wait to be replaced until a lookup shows which GPUs are free."""
        return any(role.rollout_undecided for role in self.roles)

    @property
    def missing_gpu_kind(self) -> str:
        """A kind of GPU that a plan needs and no node has; empty if there is none."""
        return next((role.missing_gpu_kind for role in self.roles if role.missing_gpu_kind), "")

    @property
    def engine_since(self) -> datetime | None:
        staying = (engine for role in self.roles for engine in role.engines if not engine.failed)
        return min((engine.created for engine in staying if engine.created), default=None)

    @property
    def wait(self) -> ModelWait | None:
        """Why engines wait for a Job; None if they do not."""
        return self.inspection or self.model_wait

    @property
    def complete(self) -> bool:
        """Whether every object that serving needs exists, even if not as desired now."""
        return self.path.connected and self.engines.exists and (self.path.bypasses_routers or self.routers.exists)

    @property
    def serving(self) -> bool:
        """Whether a request would be answered now."""
        return self.path.connected and self.engines.ready > 0 and self.routable

    @property
    def routable(self) -> bool:
        """Whether a request would reach an engine that is ready."""
        return self.path.bypasses_routers or self.routers.ready > 0

    @property
    def at_zero(self) -> bool:
        """Whether no engine should run, by a specification that is valid."""
        return self.desired == 0 and (self.refusal is None or self.engines.exists)

    @property
    def rejected_workload(self) -> WorkloadView | None:
        """A workload whose pods Kubernetes rejects; engines before routers."""
        return next((workload for workload in (self.engines, self.routers) if workload.rejection), None)

    @property
    def rejection(self) -> str:
        """Why Kubernetes rejects a pod, in a sentence; empty if it does not."""
        workload = self.rejected_workload
        if workload is None:
            return ""
        return with_cure(f"Kubernetes refuses a pod: {workload.rejection}", rejection_cure(workload.rejection))

    @property
    def rolling(self) -> bool:
        return self.engines.rolling or self.routers.rolling

    @property
    def unschedulable(self) -> bool:
        """Whether the pod whose problem matters most waits for a node. It may do so for any time."""
        if self.problem is None:
            return bool(self.gang_backoff)
        return self.problem.reason is Reason.UNSCHEDULABLE

    @property
    def gang_backoff(self) -> str:
        """Sentences about groups that gave their nodes back for others; empty if none did."""
        return sentences(*(role.gang_backoff for role in self.roles))

    @property
    def members(self) -> str:
        """Sentences about the members of groups that are not ready; empty if there are none."""
        return sentences(*(role.members.sentence for role in self.roles if role.members))

    @property
    def lost(self) -> str:
        """Sentences about pods on nodes that do not answer; empty if there are none."""
        return sentences(*(role.lost for role in self.roles))
