"""The observation of a round, which the rules of all conditions read, and the verdict that they give."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Literal, TypeAlias

from inference_operator.api.explanations import with_cure
from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.api.router import RouterSpec
from inference_operator.api.spec import Spec
from inference_operator.api.status import NetworkStatus, RoleStatus, StartupStatus, Status
from inference_operator.diagnosis.component import Component, DiagnosisInputs, in_engines, is_latest, seen, stays
from inference_operator.diagnosis.diagnoses import Diagnoses, diagnoses
from inference_operator.diagnosis.group_members import GroupMembers
from inference_operator.diagnosis.pending_causes import rejection_cure
from inference_operator.diagnosis.pod_diagnosis import PodDiagnosis
from inference_operator.diagnosis.startup_progress import sentence
from inference_operator.engines.base import Engine
from inference_operator.jobs.attempts import JobWait
from inference_operator.manifest import CONFIG_MAP, SERVICE, Key, Ref
from inference_operator.objects.names import ROUTER, answers_clients, headless_service_name, router_name
from inference_operator.pipeline.contexts import live_roles, observed_again, role_specs
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.outcomes import NeedsInspection, Outcome, Paused, Planned, Refused
from inference_operator.pipeline.role import Role
from inference_operator.roles.context import LiveRole
from inference_operator.roles.pinned_plan import PinnedPlan
from inference_operator.router.exposure import Exposure, exposures
from inference_operator.sentences import sentences
from inference_operator.sizing.plan import Plan
from inference_operator.status.autoscaling import ScalingObservation, scaling_observation
from inference_operator.status.members import members_due, reported_members
from inference_operator.status.network import network
from inference_operator.status.write_results import Conflict, Failed, Rejected, Waiting, WriteResult
from inference_operator.views.engine import EngineView
from inference_operator.views.workload import WorkloadView, combined
from inference_operator.workload.eviction.lost_nodes import lost_pods
from inference_operator.workload.eviction.obstacles import Lasting
from inference_operator.workload.eviction.rollout import Rollout

ConditionStatus: TypeAlias = Literal["True", "False", "Unknown"]


@dataclass(frozen=True, slots=True)
class ConditionVerdict:
    status: ConditionStatus
    reason: Reason
    message: str


@dataclass(frozen=True)
class RoleObservation:
    live: LiveRole
    decided: Role | None
    """The role as decided in this round; None while nothing is decided."""
    stated: Spec | None
    """Its specification; None if that is invalid."""
    recorded: RoleStatus
    """What the former status says about it."""

    @property
    def name(self) -> str:
        return self.live.name

    @cached_property
    def engines(self) -> Sequence[EngineView]:
        """Its engines that stay: not of an earlier template, and not being deleted."""
        return [engine for engine in self.live.engines if stays(engine, self.live.view)]

    @property
    def latest(self) -> Sequence[EngineView]:
        """The engines of the latest template, also those of which pods are being deleted."""
        return [engine for engine in self.live.engines if is_latest(engine, self.live.view)]

    @cached_property
    def component(self) -> Component:
        """Its workload, counted in engines, and its pods."""
        workload = in_engines(seen(self.live.view, self.live.engines), self.live.engines)
        if self.decided and self.decided.change.refusal:
            workload = replace(workload, rejection=self.decided.change.refusal)
        pods = [pod for engine in self.engines for pod in engine.pods]
        return Component(self.name, workload, pods, self.engine)

    @property
    def engine(self) -> Engine:
        return self.decided.context.engine if self.decided else self.live.engine

    @property
    def pinned(self) -> PinnedPlan | None:
        return self.decided.plan if self.decided else self.live.recorded

    @property
    def plan(self) -> Plan | None:
        return self.pinned.plan if self.pinned else None

    @property
    def rollout(self) -> Rollout | None:
        return self.decided.change.rollout if self.decided else None

    @property
    def has_only_groups(self) -> bool:
        """Whether each of its workloads is a StatefulSet, the pods of one engine."""
        return bool(self.live.groups) and len(self.live.groups) == len(self.live.workloads)


@dataclass(frozen=True)
class Observation:
    """What was observed after the writes of a round, its decision, and the results of its writes."""

    inputs: Inputs
    """With the objects of the results already in it."""
    outcome: Outcome
    results: Sequence[WriteResult]

    @property
    def key(self) -> Key:
        return self.inputs.resource.key

    @property
    def spec(self) -> Spec | None:
        spec = self.inputs.resource.spec
        return spec if isinstance(spec, Spec) else None

    @property
    def previous(self) -> Status:
        return self.inputs.resource.status

    @cached_property
    def planned(self) -> Planned | None:
        return self.outcome if isinstance(self.outcome, Planned) else None

    @cached_property
    def decided_roles(self) -> Sequence[Role]:
        return self.planned.roles if self.planned else ()

    @property
    def paused(self) -> bool:
        return isinstance(self.outcome, Paused)

    @cached_property
    def refusal(self) -> Refusal | None:
        return self.outcome.refusal if isinstance(self.outcome, Refused) else None

    @property
    def inspection(self) -> JobWait | None:
        return self.outcome.wait if isinstance(self.outcome, NeedsInspection) else None

    @property
    def wait(self) -> JobWait | None:
        return self.inspection or (self.planned.model_wait if self.planned else None)

    @property
    def notice(self) -> str:
        return self.planned.notice if self.planned else ""

    @property
    def engines_outdated(self) -> Reason | None:
        """Why a renewal would change engines; None if they are as this release builds them, or nothing is decided."""
        return self.planned.outdated_engines if self.planned else None

    @cached_property
    def roles(self) -> Sequence[RoleObservation]:
        """At least one."""
        if self.planned:
            return [
                self._role(observed_again(self.inputs, role.context.live), role, role.context.spec.stated)
                for role in self.planned.roles
            ]
        specs = role_specs(self.inputs)
        stated = {spec.name: spec.stated for spec in specs}
        return [self._role(live, None, stated.get(name)) for name, live in live_roles(self.inputs, specs).items()]

    def _role(self, live: LiveRole, decided: Role | None, stated: Spec | None) -> RoleObservation:
        return RoleObservation(live, decided, stated, self.previous.of_role(live.name, has_scale=live.has_scale))

    @property
    def scaled_role(self) -> RoleObservation:
        """The role that `/scale` is about; any, where neither specification nor status tells which one."""
        return min(self.roles, key=lambda role: not role.live.has_scale)

    @cached_property
    def staying(self) -> Sequence[EngineView]:
        return [engine for role in self.roles for engine in role.engines]

    @cached_property
    def engines(self) -> WorkloadView:
        """The workloads of all roles. While there are none, a Job that they wait for has the requested deadline."""
        workload = combined([role.component.workload for role in self.roles])
        requested = self.spec.rollout.progress_deadline if self.spec else None
        return replace(workload, deadline=requested) if requested and not workload.exists else workload

    @cached_property
    def desired(self) -> int:
        """Engines that should answer. While nothing is changed, those of the live workload."""
        if self.planned:
            return sum(role.change.wanted for role in self.planned.roles if answers_clients(role.name))
        if self.answering.exists or self.spec is None:
            return self.answering.desired
        return sum(role.stated.replicas for role in self._answering_roles if role.stated)

    @property
    def _answering_roles(self) -> Sequence[RoleObservation]:
        """Those whose engines answer: those for prompts alone answer no client."""
        return [role for role in self.roles if answers_clients(role.name)]

    @cached_property
    def answering(self) -> WorkloadView:
        return combined([role.component.workload for role in self._answering_roles])

    @cached_property
    def router_component(self) -> Component:
        pods = self.inputs.pods_of(ROUTER)
        workload = seen(self.inputs.routers, pods)
        return Component(ROUTER, workload, [pod for pod in pods if stays(pod, workload)])

    @property
    def routers(self) -> WorkloadView:
        return self.router_component.workload

    @property
    def routers_outdated(self) -> bool:
        """Whether this release builds another pod template or configuration than the routers keep."""
        latest = self.planned.router.latest_template if self.planned else ""
        return bool(latest) and self.routers.exists and self.routers.template != latest

    @cached_property
    def connected(self) -> bool:
        """Whether the Services and the router's configuration exist, which requests need."""
        name, namespace = self.key.name, self.key.namespace
        engines = [Ref(SERVICE, namespace, headless_service_name(name, role.name)) for role in self._answering_roles]
        config = [] if self.inputs.bypasses_routers else [Ref(CONFIG_MAP, namespace, router_name(name))]
        return all(ref in self.inputs.children for ref in (self.inputs.main_service, *config, *engines))

    @cached_property
    def exposures(self) -> Sequence[Exposure]:
        router, inputs = self.spec.router if self.spec else RouterSpec(), self.inputs
        return list(exposures(router, inputs.main_service, inputs.children, inputs.unavailable_kinds))

    @cached_property
    def scaling(self) -> Mapping[str, ScalingObservation]:
        targets = self.outcome.targets
        return {
            role.name: scaling_observation(
                self.inputs, role.stated, role.live, role.decided, target=targets.get(role.name), engines=role.engines
            )
            for role in self.roles
        }

    @cached_property
    def blocked(self) -> Conflict | Waiting | Rejected | Failed | None:
        """Why a child could not be written; causes that a user must resolve come before those that pass."""
        obstacles = (Conflict | Waiting | Rejected, Failed)
        return next((result for kinds in obstacles for result in self.results if isinstance(result, kinds)), None)

    @cached_property
    def diagnosis_inputs(self) -> DiagnosisInputs:
        return DiagnosisInputs(
            namespace=self.key.namespace,
            roles={role.name: role.component for role in self.roles},
            lookups=self.inputs.lookups,
            read_logs=self.inputs.settings.read_logs,
            nodes_visible=not self.inputs.settings.namespaces,
            now=self.inputs.now,
            one_node_claim=self.planned.one_node_claim if self.planned else "",
        )

    @cached_property
    def diagnoses(self) -> Diagnoses:
        return diagnoses(self.router_component, self.previous.startup, self.diagnosis_inputs)

    @cached_property
    def problem(self) -> PodDiagnosis | None:
        return self.diagnoses.problem

    @property
    def startup(self) -> StartupStatus | None:
        return self.diagnoses.startup.status

    @property
    def due(self) -> Iterator[datetime]:
        """Times at which some of this changes without an event."""
        yield from self.diagnoses.due
        yield from (moment for role in self.roles for moment in members_due(role.latest, self.inputs.now))
        if self.outcome.due:
            yield self.outcome.due

    @property
    def stall(self) -> str:
        """Why stalled engines are deleted; one sentence for all pods of an engine."""
        deletions = (patch.delete for patch in self.outcome.pods if patch.delete)
        return "; ".join(dict.fromkeys(pod.why for pod in deletions if pod.reason is Reason.ENGINE_STALLED))

    @property
    def out_of_traffic(self) -> Sequence[str]:
        """Names of the engines that get no new requests, because they made no progress; sorted."""
        engines = (engine for role in self.roles for engine in role.live.engines)
        return sorted(engine.name for engine in engines if not (engine.traffic or engine.terminating))

    @property
    def unread(self) -> int:
        return sum(map(self.unread_of, self.roles))

    def unread_of(self, role: RoleObservation) -> int:
        """Those of a role.

        Until each was scraped, as many as before: an operator that has just started knows nothing.
        """
        samples = self.inputs.samples
        ready = [engine.uid for engine in role.engines if engine.ready]
        if all(uid in samples.engines or uid in samples.unread for uid in ready):
            return sum(uid in samples.unread for uid in ready)
        return min(role.recorded.engine.unread_metrics if role.recorded.engine else 0, len(ready))

    @cached_property
    def groups(self) -> Sequence[GroupMembers]:
        """Of each role, the members of the group that is not ready and whose problem or progress is reported."""
        sizes = ((role, role.plan.parallel.nodes if role.plan else 1) for role in self.roles)
        lookups, now = self.inputs.lookups, self.inputs.now
        groups = (reported_members(role.latest, size, self.diagnoses, lookups=lookups, now=now) for role, size in sizes)
        return [members for members in groups if members]

    def network(self, role: RoleObservation) -> NetworkStatus | None:
        """The network between the nodes of a role's engines, once a log has told it."""
        decided = role.decided if role.plan and role.plan.parallel.nodes > 1 else None
        resource = decided.context.spec.effective.network.resource if decided else None
        return network(self.inputs, role.recorded.engine, role.live.view.template, role.component.pods, resource)

    @property
    def members(self) -> str:
        """Sentences about the members of groups that are not ready; empty if there are none."""
        return sentences(*(group.sentence for group in self.groups))

    @property
    def progress(self) -> str:
        """The startup progress in sentences; empty if there is none. A group's begins when all members have joined."""
        waits = any(not group.all_joined for group in self.groups)
        return sentences(self.members, sentence(self.startup) if self.startup and not waits else "")

    @property
    def rollout(self) -> Rollout | None:
        """The rollout of a role, one that replaces engines if there is any."""
        rollouts = [role for role in self.roles if role.rollout]
        return max(rollouts, key=lambda role: role.component.workload.rolling).rollout if rollouts else None

    @property
    def rollout_undecided(self) -> bool:
        """Whether engines wait to be replaced until a lookup shows which GPUs are free."""
        return any(role.change.rollout is None for role in self.decided_roles)

    @property
    def surge_cure(self) -> str:
        """What lets rollouts go on that surge as asked and cannot, in a sentence; empty if nothing needs it."""
        return sentences(*dict.fromkeys(role.change.surge_cure for role in self.decided_roles))

    @property
    def obstacle(self) -> Lasting | None:
        """What holds the rollout of a role, and for which no engine ends; None if nothing does."""
        obstacles = (role.change.obstacle for role in self.decided_roles if role.change.obstacle)
        return min(obstacles, key=lambda obstacle: obstacle.ends, default=None)

    @property
    def missing_gpu_kind(self) -> str:
        return next((kind for role in self.decided_roles if (kind := role.sized.missing_gpu_kind)), "")

    @property
    def complete(self) -> bool:
        """Whether every object that serving needs exists, even if not as desired now."""
        return self.connected and self.answering.exists and (self.inputs.bypasses_routers or self.routers.exists)

    @property
    def serving(self) -> bool:
        """Whether a request would be answered now."""
        return self.connected and self.answering.ready > 0 and self.routable

    @property
    def routable(self) -> bool:
        """Whether a request would reach an engine that is ready."""
        return self.inputs.bypasses_routers or self.routers.ready > 0

    @property
    def at_zero(self) -> bool:
        """Whether no engine should run, by a specification that is valid."""
        return self.desired == 0 and (self.refusal is None or self.answering.exists)

    @property
    def rejected_workload(self) -> WorkloadView | None:
        """A workload whose pods Kubernetes rejects; engines before routers."""
        return next((workload for workload in (self.engines, self.routers) if workload.rejection), None)

    @property
    def rejection(self) -> str:
        workload = self.rejected_workload
        if workload is None:
            return ""
        return with_cure(f"Kubernetes refuses a pod: {workload.rejection}", rejection_cure(workload.rejection))

    @cached_property
    def rolling(self) -> bool:
        return self.engines.rolling or self.routers.rolling

    @cached_property
    def unschedulable(self) -> bool:
        """Whether the pod whose problem matters most waits for a node. It may do so for any time."""
        if self.problem is None:
            return bool(self.gang_backoff)
        return self.problem.reason is Reason.UNSCHEDULABLE

    @cached_property
    def gang_backoff(self) -> str:
        """Sentences about groups that gave their nodes back for others; empty if none did."""
        return sentences(*(role.change.yielding.notice for role in self.decided_roles))

    @cached_property
    def lost(self) -> str:
        """Sentences about pods on nodes that do not answer; empty if there are none."""
        inputs, roles = self.inputs, self.roles
        of_roles = ([*lost_pods(role.live.engines, inputs.nodes, inputs.now)] for role in roles)
        return sentences(*(pod.sentence(self.key.namespace) for lost in of_roles for pod in lost))
