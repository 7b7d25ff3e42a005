"""The observation of a round: what was observed after its writes, its decision, and the results of its writes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.api.spec import Spec
from inference_operator.api.status import EngineStatus
from inference_operator.autoscaling.inputs import measured_load
from inference_operator.autoscaling.target import Target
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
from inference_operator.sizing.shape import Objective
from inference_operator.status.adapters import adapters_of
from inference_operator.status.autoscaling import scaling_observation
from inference_operator.status.kv_cache import kv_cache
from inference_operator.status.members import members_due, reported_members
from inference_operator.status.network import network
from inference_operator.status.observation import Observation, RoleObservation
from inference_operator.status.request_path import request_path
from inference_operator.status.sized import capacity
from inference_operator.status.write_results import Conflict, Failed, Rejected, Waiting, WriteResult
from inference_operator.views.engine import EngineView
from inference_operator.views.samples import Samples
from inference_operator.views.workload import WorkloadView, combined
from inference_operator.workload.lost_nodes import lost_pods


def observed(inputs: Inputs, outcome: Outcome, results: Sequence[WriteResult]) -> Observation:
    planned = outcome if isinstance(outcome, Planned) else None
    live, routers = _live_roles(inputs, planned), _routers(inputs)
    request, workload = _diagnosis_request(inputs, planned, live), _workload(inputs, live)
    diagnosed = diagnoses(routers, inputs.resource.status.startup, request)
    return Observation(
        key=inputs.resource.key,
        roles=[_role(inputs, role, diagnosed, outcome.targets.get(role.role.name)) for role in live],
        desired=_desired(inputs, planned, workload, live),
        engines=workload,
        routers=routers.workload,
        fleet_state=outcome.fleet_state,
        engines_outdated=planned.outdated_engines if planned else None,
        routers_outdated=_is_outdated(routers.workload, planned),
        open_attacks=open_attacks(inputs.router_deployment),
        path=request_path(inputs, [role.role for role in live]),
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
        out_of_traffic=_out_of_traffic(live),
        replacing=sum(engine.is_serving for role in live for engine in role.role.engines) < workload.desired,
        notice=planned.notice if planned else "",
        model=outcome.model,
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
    stated: Spec | None
    """Its specification; None if that is invalid."""
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
        return [
            _live(observed_again(inputs, role.context.live), role, role.context.spec.stated) for role in planned.roles
        ]
    specs = role_specs(inputs)
    stated = {role.name: role.stated for role in specs}
    return [_live(role, None, stated.get(role.name)) for role in live_roles(inputs, specs).values()]


def _live(role: LiveRole, decided: Role | None, stated: Spec | None) -> _Live:
    staying = [engine for engine in role.engines if stays(engine, role.view)]
    pods = [pod for engine in staying for pod in engine.pods]
    engine = decided.context.engine if decided else role.engine
    workload = in_engines(seen(role.view, role.engines), role.engines)
    return _Live(role, decided, stated, staying, Component(role.name, workload, pods, engine))


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


def _role(inputs: Inputs, live: _Live, diagnosed: Diagnoses, target: Target | None) -> RoleObservation:
    decided = live.decided
    pinned = decided.plan if decided else live.role.recorded
    plan = pinned.plan if pinned else None
    before = inputs.resource.status.of_role(live.role.name, has_scale=live.role.has_scale)
    load = target.load if target else measured_load(before.autoscaling, None)
    return RoleObservation(
        component=live.component,
        engines=live.staying,
        pinned=pinned,
        kv_cache=kv_cache(inputs, before.engine, live.role.view.template, live.staying, plan),
        scaling=scaling_observation(inputs, live.stated, live.role, decided, target=target, engines=live.staying),
        unread=_unread(inputs.samples, before.engine, live.staying),
        has_scale=live.role.has_scale,
        network=network(
            inputs, before.engine, live.role.view.template, live.component.pods, _network_resource(decided)
        ),
        has_only_groups=bool(live.role.groups) and len(live.role.groups) == len(live.role.workloads),
        rollout=decided.rollout if decided else None,
        rollout_undecided=decided is not None and decided.rollout is None,
        missing_gpu_kind=decided.missing_gpu_kind if decided else "",
        capacity=sentences(*capacity(plan, _objective(live.stated), load)) if plan else "",
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
        doubt=decided.doubt if decided else "",
        disk_shortfall=decided.disk_shortfall if decided else "",
    )


def _network_resource(decided: Role | None) -> str | None:
    """The resource of the network devices that the pods of a group request; None without a group."""
    is_group = decided is not None and decided.plan.plan.parallel.nodes > 1
    return decided.context.spec.effective.network.resource if decided and is_group else None


def _lost(inputs: Inputs, role: LiveRole) -> str:
    lost = lost_pods(role.engines, inputs.nodes, inputs.now)
    return sentences(*(pod.sentence(inputs.resource.key.namespace) for pod in lost))


def _objective(stated: Spec | None) -> Objective:
    return Objective.requested(stated.autoscaling) if stated else Objective()


def _desired(inputs: Inputs, planned: Planned | None, workload: WorkloadView, live: Sequence[_Live]) -> int:
    """Engines that should run; those of the live workloads while nothing is changed."""
    spec = inputs.resource.spec
    if planned:
        return sum(role.replicas for role in planned.roles)
    is_live = workload.exists or not isinstance(spec, Spec)
    return workload.desired if is_live else sum(role.stated.replicas for role in live if role.stated)


def _source(inputs: Inputs) -> ModelSource | None:
    spec = inputs.resource.spec
    source = None if isinstance(spec, Refusal) else model_source(spec.model.source)
    return None if isinstance(source, Refusal) else source


def _unread(samples: Samples, recorded: EngineStatus | None, engines: Sequence[EngineView]) -> int:
    """Ready engines whose metrics cannot be read.

    Until each was scraped, as many as before: an operator that has just started knows nothing.
    """
    ready = [engine.uid for engine in engines if engine.ready]
    if all(uid in samples.engines or uid in samples.unread for uid in ready):
        return sum(uid in samples.unread for uid in ready)
    return min(recorded.unread_metrics if recorded else 0, len(ready))


def _out_of_traffic(roles: Sequence[_Live]) -> Sequence[str]:
    engines = (engine for role in roles for engine in role.role.engines)
    return sorted(engine.name for engine in engines if not (engine.traffic or engine.terminating))


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
