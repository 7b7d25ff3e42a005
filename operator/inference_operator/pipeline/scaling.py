"""The part of autoscaling: the first role is scaled, by the operator or by an autoscaler that it creates."""

from dataclasses import replace

from inference_operator.api.router import RouterStrategy
from inference_operator.autoscaling.external import ExternalInputs, external_autoscaler
from inference_operator.autoscaling.inputs import measured_load, scaling_inputs, target_factor
from inference_operator.autoscaling.query import QueryInputs, engines_query
from inference_operator.autoscaling.target import Target, target_concurrency
from inference_operator.manifest import Ref
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.outcomes import Planned
from inference_operator.pipeline.part import Feature, Part
from inference_operator.pipeline.role import Role
from inference_operator.roles.pinned_plan import PinnedPlan
from inference_operator.sizing.shape import Objective


def scaling(inputs: Inputs, planned: Planned) -> Part:
    """What autoscaling needs; nothing without autoscaling."""
    first = planned.roles[0]
    stated, observed = first.context.spec.stated, first.scaling
    if stated.autoscaling is None:
        return Part(feature=Feature.SCALING)
    target, conflict, floor = _target(first), observed.conflict, observed.floor
    request = scaling_inputs(
        stated,
        observed.recorded,
        target=target,
        plan=_plan_id(first.plan),
        role=first.name,
        replicas=first.replicas,
        engines=first.context.live.engines,
        floor=floor,
    )
    times = [observed.external.due if observed.external else None, floor.due if floor else None]
    part = Part(
        feature=Feature.SCALING,
        lookups=(conflict.lookup,) if conflict else (),
        due=min(filter(None, times), default=None),
        scaling=None if observed.is_frozen else request,
        target=target,
    )
    return part if planned.hold.holds_others else _with_autoscaler(inputs, first, target, part)


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


def _with_autoscaler(inputs: Inputs, first: Role, target: Target, part: Part) -> Part:
    """The part with the HorizontalPodAutoscaler or ScaledObject; a live one stays while its kind cannot be listed."""
    stated, floor = first.context.spec.stated, first.scaling.floor
    if stated.autoscaling is None:
        return part
    query = QueryInputs(
        key=inputs.owner.key,
        role=first.name,
        target=target.concurrency,
        bypasses_routers=stated.router.strategy is RouterStrategy.EXTERNAL,
        metrics=first.context.engine.series,
    )
    url = inputs.settings.prometheus_url
    least = floor.replicas if floor else stated.autoscaling.min_replicas
    built = external_autoscaler(ExternalInputs(stated.autoscaling, inputs.owner, engines_query(query), url, least))
    if built is None:
        return part
    ref = Ref.of(built)
    if ref.kind in inputs.unavailable_kinds:
        return replace(part, kept={ref: live}) if (live := inputs.child(ref)) else part
    return replace(part, desired={ref: built})
