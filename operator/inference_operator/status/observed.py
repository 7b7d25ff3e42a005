"""The observation of a round: what was observed after its writes, its decision, and the results of its writes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.api.spec import Spec
from inference_operator.autoscaling.inputs import measured_load
from inference_operator.diagnosis.component import Component, in_engines, is_latest, seen, stays
from inference_operator.diagnosis.diagnoses import Diagnoses, diagnoses
from inference_operator.diagnosis.inputs import DiagnosisInputs
from inference_operator.models.source import ModelSource, model_source
from inference_operator.objects.names import ROUTER
from inference_operator.pipeline.contexts import live_roles, observed_again, role_specs
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.outcomes import NeedsInspection, Outcome, Paused, Planned, Refused
from inference_operator.pipeline.role import Role
from inference_operator.roles.context import LiveRole
from inference_operator.router.security_revision import open_attacks
from inference_operator.sentences import sentences
from inference_operator.sizing.serving import Load
from inference_operator.sizing.shape import Objective
from inference_operator.status.adapters import adapters_of
from inference_operator.status.autoscaling import ScalingObservation, scaling_observation
from inference_operator.status.kv_cache import kv_cache
from inference_operator.status.members import members_due, reported_members
from inference_operator.status.network import network
from inference_operator.status.observation import Observation, RoleObservation
from inference_operator.status.request_path import request_path
from inference_operator.status.sized import capacity
from inference_operator.status.write_results import Conflict, Failed, Rejected, Waiting, WriteResult
from inference_operator.views.engine import EngineView
from inference_operator.views.workload import WorkloadView, combined
from inference_operator.workload.lost_nodes import lost_pods


def observed(inputs: Inputs, outcome: Outcome, results: Sequence[WriteResult]) -> Observation:
    planned = outcome if isinstance(outcome, Planned) else None
    live, routers = _live_roles(inputs, planned), _routers(inputs)
    request, workload = _diagnosis_request(inputs, planned, live), _workload(inputs, live)
    diagnosed = diagnoses(routers, inputs.resource.status.startup, request)
    return Observation(
        key=inputs.resource.key,
        roles=[_role(inputs, role, diagnosed, _load(inputs, planned)) for role in live],
        desired=_desired(inputs, planned, workload, roles=len(live)),
        engines=workload,
        routers=routers.workload,
        fleet_state=outcome.fleet_state,
        engines_outdated=planned.outdated_engines if planned else None,
        routers_outdated=_is_outdated(routers.workload, planned),
        open_attacks=open_attacks(inputs.router_deployment),
        path=request_path(inputs, live[0].role),
        refusal=outcome.refusal if isinstance(outcome, Refused) else None,
        source=_source(inputs),
        inspection=outcome.wait if isinstance(outcome, NeedsInspection) else None,
        model_wait=planned.model_wait if planned else None,
        adapter_wait=next((adapter.wait for adapter in (planned.adapters if planned else ()) if adapter.wait), None),
        model_failure=outcome.model_failure,
        paused=isinstance(outcome, Paused),
        blocked=_obstacle(results),
        failures=[result for result in results if isinstance(result, Failed)],
        problem=diagnosed.problem,
        router_problem=diagnosed.router_problem,
        stall=_stalls(outcome),
        unread=_unread(inputs, live),
        out_of_traffic=_out_of_traffic(live),
        replacing=sum(engine.is_serving for role in live for engine in role.role.engines) < workload.desired,
        notice=planned.notice if planned else "",
        model=outcome.model,
        scaling=_scaling(inputs, outcome, live),
        adapters=adapters_of(inputs, planned, [engine for role in live for engine in role.staying]),
        startup=diagnosed.startup.status,
        lookups=diagnosed.lookups(request),
        due=(*diagnosed.due, *_due(live, outcome, inputs.now)),
        previous=inputs.resource.status,
        now=inputs.now,
    )


def _stalls(outcome: Outcome) -> str:
    """Why stalled engines are deleted; one sentence for all pods of an engine."""
    deletions = (patch.delete for patch in outcome.pods if patch.delete)
    return "; ".join(dict.fromkeys(one.why for one in deletions if one.reason is Reason.ENGINE_STALLED))


@dataclass(frozen=True, slots=True)
class _Live:
    """A role after the writes of this round."""

    role: LiveRole
    decided: Role | None
    staying: Sequence[EngineView]
    component: Component

    @property
    def latest(self) -> Sequence[EngineView]:
        """The engines of the latest template, also those of which pods are being deleted."""
        return [engine for engine in self.role.engines if is_latest(engine, self.role.view)]


def _workload(inputs: Inputs, live: Sequence[_Live]) -> WorkloadView:
    """The workloads of all roles. While there are none, a Job that they wait for has the requested deadline."""
    workload, spec = combined([role.component.workload for role in live]), inputs.resource.spec
    requested = spec.rollout.progress_deadline if isinstance(spec, Spec) else None
    return replace(workload, deadline=requested) if requested and not workload.exists else workload


def _live_roles(inputs: Inputs, planned: Planned | None) -> Sequence[_Live]:
    if planned:
        return [_live(observed_again(inputs, role.context.live), role) for role in planned.roles]
    return [_live(role, None) for role in live_roles(inputs, role_specs(inputs)).values()]


def _live(role: LiveRole, decided: Role | None) -> _Live:
    staying = [engine for engine in role.engines if stays(engine, role.view)]
    pods = [pod for engine in staying for pod in engine.pods]
    engine = decided.context.engine if decided else role.engine
    workload = in_engines(seen(role.view, role.engines), role.engines)
    return _Live(role, decided, staying, Component(role.name, workload, pods, engine))


def _due(live: Sequence[_Live], outcome: Outcome, now: datetime) -> Iterator[datetime]:
    yield from (moment for role in live for moment in members_due(role.latest, now))
    if outcome.recheck_at:
        yield outcome.recheck_at


def _is_outdated(routers: WorkloadView, planned: Planned | None) -> bool:
    """Whether the live routers have another template than the latest; unknown while nothing is decided."""
    latest = planned.latest_router_template if planned else ""
    return bool(latest) and routers.exists and routers.template != latest


def _routers(inputs: Inputs) -> Component:
    pods = inputs.pods_of(ROUTER)
    workload = seen(inputs.routers, pods)
    return Component(ROUTER, workload, [pod for pod in pods if stays(pod, workload)])


def _role(inputs: Inputs, live: _Live, diagnosed: Diagnoses, load: Load) -> RoleObservation:
    decided = live.decided
    pinned = decided.plan if decided else live.role.recorded
    plan = pinned.plan if pinned else None
    return RoleObservation(
        component=live.component,
        engines=live.staying,
        pinned=pinned,
        kv_cache=kv_cache(inputs, live.role.view.template, live.staying, plan),
        network=network(inputs, live.role.view.template, live.component.pods, _network_resource(decided)),
        has_only_groups=bool(live.role.groups) and len(live.role.groups) == len(live.role.workloads),
        rollout=decided.rollout if decided else None,
        rollout_undecided=decided is not None and decided.rollout is None,
        missing_gpu_kind=decided.missing_gpu_kind if decided else "",
        capacity=sentences(*capacity(plan, _objective(inputs), load)) if plan else "",
        gang_backoff=decided.gang_backoff if decided else "",
        lost=_lost(inputs, live.role),
        members=reported_members(
            live.latest,
            plan.parallel.nodes if plan else 1,
            diagnosed,
            lookups=inputs.lookups,
            now=inputs.now,
        ),
        moves=decided is not None and decided.move.moves,
        disk_shortfall=decided.disk_shortfall if decided else "",
    )


def _network_resource(decided: Role | None) -> str | None:
    """The resource of the network devices that the pods of a group request; None without a group."""
    is_group = decided is not None and decided.plan.plan.parallel.nodes > 1
    return decided.context.spec.effective.network.resource if decided and is_group else None


def _lost(inputs: Inputs, role: LiveRole) -> str:
    lost = lost_pods(role.engines, inputs.nodes, inputs.now)
    return sentences(*(pod.sentence(inputs.resource.key.namespace) for pod in lost))


def _objective(inputs: Inputs) -> Objective:
    spec = inputs.resource.spec
    return Objective.requested(spec.autoscaling) if isinstance(spec, Spec) else Objective()


def _load(inputs: Inputs, planned: Planned | None) -> Load:
    """The lengths of requests for which the target is computed; as recorded while nothing is decided."""
    if planned and planned.target:
        return planned.target.load
    return measured_load(inputs.resource.status.autoscaling, None)


def _desired(inputs: Inputs, planned: Planned | None, workload: WorkloadView, *, roles: int) -> int:
    """Engines that should run; those of the live workloads while nothing is changed."""
    spec = inputs.resource.spec
    if planned:
        return sum(role.replicas for role in planned.roles)
    return workload.desired if workload.exists or not isinstance(spec, Spec) else spec.replicas * roles


def _source(inputs: Inputs) -> ModelSource | None:
    spec = inputs.resource.spec
    source = None if isinstance(spec, Refusal) else model_source(spec.model.source)
    return None if isinstance(source, Refusal) else source


def _unread(inputs: Inputs, roles: Sequence[_Live]) -> int:
    """Ready engines whose metrics cannot be read.

    Until each was scraped, as many as before: an operator that has just started knows nothing.
    """
    samples, status = inputs.samples, inputs.resource.status
    ready = [engine.uid for role in roles for engine in role.staying if engine.ready]
    if all(uid in samples.engines or uid in samples.unread for uid in ready):
        return sum(uid in samples.unread for uid in ready)
    before = status.engine.unread_metrics if status.engine else 0
    return min(before, len(ready))


def _out_of_traffic(roles: Sequence[_Live]) -> Sequence[str]:
    engines = (engine for role in roles for engine in role.role.engines)
    return sorted(engine.name for engine in engines if not (engine.traffic or engine.terminating))


def _scaling(inputs: Inputs, outcome: Outcome, roles: Sequence[_Live]) -> ScalingObservation:
    staying = [engine for role in roles for engine in role.staying]
    return scaling_observation(inputs, outcome, roles[0].role, staying)


def _obstacle(results: Sequence[WriteResult]) -> Conflict | Waiting | Rejected | Failed | None:
    """The result that keeps a child from being written. A failed request comes last, because it is repeated."""
    obstacles = (Conflict | Waiting | Rejected, Failed)
    return next((result for kinds in obstacles for result in results if isinstance(result, kinds)), None)


def _diagnosis_request(inputs: Inputs, planned: Planned | None, roles: Sequence[_Live]) -> DiagnosisInputs:
    return DiagnosisInputs(
        namespace=inputs.resource.key.namespace,
        roles={live.component.name: live.component for live in roles},
        lookups=inputs.lookups,
        read_logs=inputs.settings.read_logs,
        nodes_visible=not inputs.settings.namespaces,
        now=inputs.now,
        one_node_claim=planned.one_node_claim if planned else "",
    )
