"""The part of a decision that concerns the number of engines."""

from collections.abc import Sequence
from dataclasses import replace

from inference_operator.api.router import RouterStrategy
from inference_operator.api.spec import Spec
from inference_operator.autoscaling.conflict import scale_writers
from inference_operator.autoscaling.external import ExternalInputs, external_autoscaler
from inference_operator.autoscaling.query import QueryRequest, engines_query
from inference_operator.autoscaling.removal_order import DeletionCost, deletion_costs
from inference_operator.autoscaling.request import objective, scaling_request, target_factor, wanted_replicas
from inference_operator.autoscaling.target import Target, target_concurrency
from inference_operator.manifest import Manifest, Ref
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.outcomes import Planned
from inference_operator.pipeline.roles import Role
from inference_operator.planning.capacity import fixed_replicas
from inference_operator.settings import Capacity
from inference_operator.views.engine import engines_of
from inference_operator.views.pod import PodView
from inference_operator.views.workload import workload_view
from inference_operator.workload.pinned_plan import PinnedPlan


def engines_wanted(
    inputs: Inputs, spec: Spec, plan: PinnedPlan, pods: Sequence[PodView], pod_spec: Manifest, *, live: Manifest | None
) -> tuple[int, int]:
    """The replicas that are wanted, and those to have: with fixed capacity at most as many as fit on the nodes."""
    desired = workload_view(live).desired if live else None
    conflict = inputs.conflict
    if conflict is not None and conflict.holds and desired is not None:
        return desired, desired
    recorded, other = inputs.resource.status.autoscaling, inputs.autoscaler
    capped = inputs.settings.capacity is Capacity.FIXED
    is_own = not (capped or scale_writers(live))
    wanted = wanted_replicas(
        spec, recorded, live=desired, result=inputs.scaling, autoscaler=other, floor=inputs.floor, is_own=is_own
    )
    if not capped:
        return wanted, wanted
    return wanted, fixed_replicas(wanted, inputs.nodes, pods, pod_spec, plan=plan.plan)


def scaled(inputs: Inputs, spec: Spec, planned: Planned) -> Planned:
    """The outcome with what autoscaling needs; nothing without autoscaling."""
    if spec.autoscaling is None:
        return planned
    first, target = planned.roles[0], _target(inputs, spec, planned.roles[0])
    conflict = inputs.conflict
    planned = replace(planned, lookups=(*planned.lookups, conflict.lookup)) if conflict else planned
    request = scaling_request(
        spec,
        inputs.resource.status.autoscaling,
        target=target,
        plan=_plan_id(first.plan),
        role=first.name,
        replicas=first.replicas,
        engines=engines_of(first.pods),
        floor=inputs.floor,
    )
    if conflict and conflict.holds:
        request = None
    times = [planned.recheck_at, inputs.floor.due if inputs.floor else None]
    return replace(
        planned,
        recheck_at=min(filter(None, times), default=None),
        scaling=request,
        target=target,
        deletion_costs=_deletion_costs(inputs, planned.roles),
    )


def _target(inputs: Inputs, spec: Spec, first: Role) -> Target:
    """The target concurrency of one engine, corrected by what engines of this plan have measured."""
    status = inputs.resource.status
    recorded = f"{status.plan.spec_hash}/{status.plan.decision}" if status.plan else ""
    factor = target_factor(status.autoscaling, inputs.scaling, plan=_plan_id(first.plan), recorded_plan=recorded)
    return target_concurrency(
        first.plan.plan,
        max_num_seqs=first.process.max_concurrency,
        requested=spec.autoscaling.target_concurrency if spec.autoscaling else None,
        objective=objective(spec),
        factor=factor,
    )


def _plan_id(plan: PinnedPlan) -> str:
    """What tells one plan of the engines from another: a correction belongs to one plan."""
    return f"{plan.spec_hash}/{plan.plan.decision}"


def _deletion_costs(inputs: Inputs, roles: Sequence[Role]) -> tuple[DeletionCost, ...]:
    """Which engines should go later than others, where autoscaling takes some away."""
    namespace = inputs.resource.key.namespace
    return tuple(
        cost
        for role in roles
        for cost in deletion_costs(
            engines_of(role.pods),
            inputs.samples,
            live=workload_view(inputs.workload(role.name)).desired,
            wanted=workload_view(role.workload).desired,
            namespace=namespace,
        )
    )


def autoscaler(inputs: Inputs, spec: Spec, first: Role) -> dict[Ref, Manifest]:
    """The HorizontalPodAutoscaler or ScaledObject; a live one stays while its kind cannot be listed."""
    if spec.autoscaling is None:
        return {}
    query = QueryRequest(
        key=inputs.owner.key,
        role=first.name,
        target=_target(inputs, spec, first).concurrency,
        bypasses_routers=spec.router.strategy is RouterStrategy.EXTERNAL,
        metrics=first.engine.demand_metrics,
    )
    url = inputs.settings.prometheus_url
    least = inputs.floor.replicas if inputs.floor else spec.autoscaling.min_replicas
    request = ExternalInputs(spec.autoscaling, inputs.owner, engines_query(query), url, least)
    built = external_autoscaler(request)
    if built is None:
        return {}
    ref = Ref.of(built)
    if ref.kind in inputs.unavailable_kinds:
        return {ref: live} if (live := inputs.child(ref)) else {}
    return {ref: built}
