"""The outcome with autoscaling: the first role is scaled, by the operator or by an autoscaler that it creates."""

from collections.abc import Sequence
from dataclasses import replace

from inference_operator.api.router import RouterStrategy
from inference_operator.autoscaling.external import ExternalInputs, external_autoscaler
from inference_operator.autoscaling.inputs import measured_load, scaling_inputs, target_factor
from inference_operator.autoscaling.query import QueryInputs, engines_query
from inference_operator.autoscaling.removal_order import DeletionCost, deletion_costs
from inference_operator.autoscaling.target import Target, target_concurrency
from inference_operator.manifest import Manifest, Ref
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.outcomes import Planned
from inference_operator.pipeline.role import Role
from inference_operator.roles.pinned_plan import PinnedPlan
from inference_operator.sizing.shape import Objective


def scaled(inputs: Inputs, planned: Planned) -> Planned:
    """The outcome with what autoscaling needs; nothing without autoscaling."""
    first = planned.roles[0]
    stated, scaling = first.context.spec.stated, first.scaling
    if stated.autoscaling is None:
        return planned
    target, conflict, floor = _target(first), scaling.conflict, scaling.floor
    request = scaling_inputs(
        stated,
        scaling.recorded,
        target=target,
        plan=_plan_id(first.plan),
        role=first.name,
        replicas=first.replicas,
        engines=first.context.live.engines,
        floor=floor,
    )
    times = [planned.recheck_at, floor.due if floor else None]
    return replace(
        planned,
        lookups=(*planned.lookups, conflict.lookup) if conflict else planned.lookups,
        recheck_at=min(filter(None, times), default=None),
        scaling=None if scaling.is_frozen else request,
        target=target,
        deletion_costs=_deletion_costs(inputs, planned.roles),
    )


def _target(first: Role) -> Target:
    """The target concurrency of one engine, corrected by what engines of this plan have measured."""
    stated, scaling, recorded = first.context.spec.stated, first.scaling, first.context.live.recorded
    before = _plan_id(recorded) if recorded else ""
    factor = target_factor(scaling.recorded, scaling.result, plan=_plan_id(first.plan), recorded_plan=before)
    return target_concurrency(
        first.plan.plan,
        max_num_seqs=first.process.max_concurrency,
        requested=stated.autoscaling.target_concurrency if stated.autoscaling else None,
        objective=Objective.requested(stated.autoscaling),
        load=measured_load(scaling.recorded, scaling.result),
        factor=factor,
    )


def _plan_id(plan: PinnedPlan) -> str:
    """The identity of a plan of engines: a correction belongs to one plan."""
    return f"{plan.spec_hash}/{plan.plan.revision}"


def _deletion_costs(inputs: Inputs, roles: Sequence[Role]) -> tuple[DeletionCost, ...]:
    """Which engines should go later than others, where autoscaling takes some away."""
    namespace = inputs.resource.key.namespace
    return tuple(
        cost
        for role in roles
        for cost in deletion_costs(
            role.context.live.engines,
            inputs.samples,
            live=role.context.live.view.desired,
            desired=role.workload.replicas,
            namespace=namespace,
        )
    )


def external_objects(inputs: Inputs, first: Role) -> dict[Ref, Manifest]:
    """The HorizontalPodAutoscaler or ScaledObject; a live one stays while its kind cannot be listed."""
    stated, floor = first.context.spec.stated, first.scaling.floor
    if stated.autoscaling is None:
        return {}
    query = QueryInputs(
        key=inputs.owner.key,
        role=first.name,
        target=_target(first).concurrency,
        bypasses_routers=stated.router.strategy is RouterStrategy.EXTERNAL,
        metrics=first.context.engine.series,
    )
    url = inputs.settings.prometheus_url
    least = floor.replicas if floor else stated.autoscaling.min_replicas
    request = ExternalInputs(stated.autoscaling, inputs.owner, engines_query(query), url, least)
    built = external_autoscaler(request)
    if built is None:
        return {}
    ref = Ref.of(built)
    if ref.kind in inputs.unavailable_kinds:
        return {ref: live} if (live := inputs.child(ref)) else {}
    return {ref: built}
