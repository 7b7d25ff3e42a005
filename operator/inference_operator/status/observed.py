"""The observation of a round: what was observed after its writes, its decision, and the results of its writes."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.api.spec import Spec
from inference_operator.diagnosis.component import Component, component
from inference_operator.diagnosis.diagnoses import Diagnoses, diagnoses
from inference_operator.diagnosis.request import DiagnosedRole, DiagnosisRequest
from inference_operator.models.source import ModelSource, model_source
from inference_operator.objects.names import ROUTER
from inference_operator.pipeline.contexts import live_roles, role_specs
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.outcomes import NeedsInspection, Outcome, Paused, Planned, Refused
from inference_operator.pipeline.role import Role
from inference_operator.roles.context import LiveRole
from inference_operator.status.autoscaling import scaling_observation
from inference_operator.status.kv_cache import kv_cache
from inference_operator.status.observation import Observation, RoleObservation
from inference_operator.status.request_path import request_path
from inference_operator.status.write_results import Conflict, Failed, Rejected, Waiting, WriteResult
from inference_operator.views.pod import PodView
from inference_operator.views.workload import WorkloadView, combined


def observed(inputs: Inputs, outcome: Outcome, results: Sequence[WriteResult]) -> Observation:
    """The observation of this round."""
    planned = outcome if isinstance(outcome, Planned) else None
    decided = {role.name: role for role in planned.roles} if planned else {}
    live = list(live_roles(inputs, role_specs(inputs)).values())
    routers = component(ROUTER, inputs.routers, inputs.pods_of(ROUTER))
    roles = [component(role.name, role.view, role.pods) for role in live]
    request = _diagnosis_request(inputs, outcome, live)
    found = diagnoses(roles, routers, inputs.resource.status.startup, request)
    engines = combined([role.workload for role in roles])
    staying = [pod for role in roles for pod in role.pods]
    return Observation(
        key=inputs.resource.key,
        roles=[_role(inputs, decided.get(one.name) or one, role, found) for one, role in zip(live, roles, strict=True)],
        desired=_desired(inputs, outcome, engines, roles=len(roles)),
        engines=engines,
        routers=routers.workload,
        path=request_path(inputs, live[0]),
        refusal=outcome.refusal if isinstance(outcome, Refused) else None,
        source=_source(inputs),
        inspection=outcome.message if isinstance(outcome, NeedsInspection) else "",
        model_wait=planned.model_wait if planned else None,
        paused=isinstance(outcome, Paused),
        blocked=_obstacle(results),
        failures=[result for result in results if isinstance(result, Failed)],
        problem=found.problem,
        router_problem=found.router_problem,
        stall="; ".join(removal.why for removal in outcome.removals if removal.reason is Reason.ENGINE_STALLED),
        unread=_unread(inputs, staying),
        out_of_traffic=_out_of_traffic(live),
        replacing=sum(pod.ready and not pod.terminating for role in live for pod in role.pods) < engines.desired,
        engine_since=min((pod.created for pod in staying if pod.created and not pod.failed), default=None),
        notice=planned.notice if planned else "",
        model=outcome.model,
        scaling=scaling_observation(inputs, outcome, live[0], staying),
        startup=found.startup.status,
        lookups=found.lookups(request),
        due=(*found.due, *([outcome.recheck_at] if outcome.recheck_at else [])),
        previous=inputs.resource.status,
        now=inputs.now,
    )


def _role(inputs: Inputs, decided: Role | LiveRole, role: Component, found: Diagnoses) -> RoleObservation:
    pinned = decided.plan if isinstance(decided, Role) else next(iter(decided.recorded), None)
    observation = RoleObservation(
        component=role,
        pinned=pinned,
        kv_cache=kv_cache(inputs, role, pinned.plan if pinned else None),
        problem=found.problems.get(role.name),
        startup=found.startups[role.name].status,
    )
    if not isinstance(decided, Role):
        return observation
    return replace(
        observation,
        rollout=decided.rollout,
        rollout_undecided=decided.rollout is None,
        missing_gpu_kind=decided.missing_gpu_kind,
        disk_shortfall=decided.disk_shortfall,
    )


def _desired(inputs: Inputs, outcome: Outcome, engines: WorkloadView, *, roles: int) -> int:
    """Engines that should run; those of the live workloads while nothing is changed."""
    spec, unchanged = inputs.resource.spec, not isinstance(outcome, Planned) and engines.exists
    if unchanged or not isinstance(spec, Spec):
        return engines.desired
    if isinstance(outcome, Planned):
        return sum(role.replicas for role in outcome.roles)
    return spec.replicas * roles


def _source(inputs: Inputs) -> ModelSource | None:
    spec = inputs.resource.spec
    source = None if isinstance(spec, Refusal) else model_source(spec.model.source)
    return None if isinstance(source, Refusal) else source


def _unread(inputs: Inputs, engines: Iterable[PodView]) -> int:
    """Ready engines whose metrics cannot be read.

    Until each was scraped, as many as before: an operator that has just started knows nothing.
    """
    samples, previous = inputs.samples, inputs.resource.status
    ready = [pod for pod in engines if pod.ready]
    if all(pod.uid in samples.engines or pod.uid in samples.unread for pod in ready):
        return sum(pod.uid in samples.unread for pod in ready)
    before = previous.engine.unread_metrics if previous.engine else 0
    return min(before, len(ready))


def _out_of_traffic(roles: Sequence[LiveRole]) -> Sequence[str]:
    """Names of the engines that get no new requests."""
    engines = (engine for role in roles for engine in role.engines)
    return sorted(engine.name for engine in engines if not (engine.traffic or engine.terminating))


def _obstacle(results: Sequence[WriteResult]) -> Conflict | Waiting | Rejected | Failed | None:
    """What stands in the way of a write; a failed request comes last, because it is repeated."""
    obstacles = (Conflict | Waiting | Rejected, Failed)
    return next((result for kinds in obstacles for result in results if isinstance(result, kinds)), None)


def _diagnosis_request(inputs: Inputs, outcome: Outcome, roles: Sequence[LiveRole]) -> DiagnosisRequest:
    """What diagnoses read; each role's engine is the one that its pinned plan names."""
    decided = {role.name: role.engine for role in outcome.roles} if isinstance(outcome, Planned) else {}
    return DiagnosisRequest(
        namespace=inputs.resource.key.namespace,
        roles={role.name: DiagnosedRole(decided.get(role.name) or role.engine, role.view) for role in roles},
        lookups=inputs.lookups,
        read_logs=inputs.settings.read_logs,
        nodes_visible=not inputs.settings.namespaces,
        now=inputs.now,
        one_node_claim=outcome.one_node_claim if isinstance(outcome, Planned) else "",
    )
