"""The part of autoscaling: the operator scales each role, or creates an autoscaler for the one that has `/scale`."""

from collections.abc import Mapping

from inference_operator.api.router import RouterStrategy
from inference_operator.autoscaling.external import external_autoscaler
from inference_operator.autoscaling.inputs import ScalingInputs, corrected_target, measured_load, scaling_inputs
from inference_operator.autoscaling.query import engines_query
from inference_operator.autoscaling.target import Target, target_concurrency
from inference_operator.manifest import Manifest, Ref
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.outcomes import Planned
from inference_operator.pipeline.part import Feature, Part
from inference_operator.pipeline.role import Role
from inference_operator.roles.pinned_plan import PinnedPlan
from inference_operator.sizing.disaggregation import of_prompts
from inference_operator.sizing.shape import Objective


def scaling(inputs: Inputs, planned: Planned) -> Part:
    scaled = [role for role in planned.roles if role.context.spec.stated.autoscaling]
    targets = {role.name: _target(inputs, role) for role in scaled}
    requests = (_request(planned, role, targets[role.name]) for role in scaled if not role.scaling.is_frozen)
    observed = (state for role in scaled for state in (role.scaling.external, role.scaling.floor) if state)
    desired, kept = ({}, {}) if planned.hold.holds_others else _autoscaler(inputs, planned.scaled_role, targets)
    return Part(
        feature=Feature.SCALING,
        lookups=tuple(role.scaling.conflict.lookup for role in scaled if role.scaling.conflict),
        due=min((state.due for state in observed if state.due), default=None),
        scaling=tuple(filter(None, requests)),
        targets=targets,
        desired=desired,
        kept=kept,
    )


def _request(planned: Planned, role: Role, target: Target) -> ScalingInputs | None:
    return scaling_inputs(
        role.context,
        role.scaling.recorded,
        target=target,
        plan=_plan_id(role.plan),
        replicas=role.change.wanted,
        floor=role.scaling.floor,
        share=_share(planned, role),
    )


def _share(planned: Planned, role: Role) -> float:
    """The part of the requests that routers send to a role: by weights, as if all had the engines that are wanted.

    Engines that compute prompts for others get all of those.
    """
    if role.context.spec.computes_prompts:
        return 1.0
    weights = {other.name: other.context.spec.weight * max(other.change.wanted, 1) for other in planned.roles}
    return weights[role.name] / sum(weights.values())


def _target(inputs: Inputs, role: Role) -> Target:
    stated, scaling, recorded = role.context.spec.stated, role.scaling, role.context.live.recorded
    plan, objective = role.plan.plan, Objective.requested(stated.autoscaling)
    if role.context.spec.computes_prompts:
        plan, objective = of_prompts(plan, objective)
    computed = target_concurrency(
        plan,
        max_num_seqs=role.process.max_concurrency,
        requested=stated.autoscaling.target_concurrency if stated.autoscaling else None,
        objective=objective,
        load=measured_load(scaling.recorded, scaling.result),
    )
    return corrected_target(
        computed,
        scaling.recorded,
        scaling.result,
        plan=_plan_id(role.plan),
        recorded_plan=_plan_id(recorded) if recorded else "",
        is_edited=inputs.resource.status.observed_generation != inputs.resource.generation,
    )


def _plan_id(plan: PinnedPlan) -> str:
    """The identity of a plan of engines: a correction belongs to one plan."""
    return f"{plan.spec_hash}/{plan.plan.revision}"


def _autoscaler(
    inputs: Inputs, role: Role, targets: Mapping[str, Target]
) -> tuple[Mapping[Ref, Manifest], Mapping[Ref, Manifest]]:
    """The HorizontalPodAutoscaler or ScaledObject, as desired; and the live one, while its kind cannot be listed."""
    stated, floor = role.context.spec.stated, role.scaling.floor
    if stated.autoscaling is None:
        return {}, {}
    target = targets[role.name]
    query = engines_query(
        inputs.owner.key,
        role.name,
        target.concurrency,
        bypasses_routers=stated.router.strategy is RouterStrategy.EXTERNAL,
        metrics=role.context.engine.series,
        least_seconds=target.least_seconds,
        has_groups=role.plan.plan.parallel.nodes > 1,
    )
    prometheus = inputs.settings.prometheus
    least = floor.replicas if floor else stated.autoscaling.min_replicas
    built = external_autoscaler(stated.autoscaling, inputs.owner, role.name, query, prometheus=prometheus, least=least)
    if built is None:
        return {}, {}
    ref = Ref.of(built)
    if ref.kind in inputs.unavailable_kinds:
        return {}, {ref: live} if (live := inputs.child(ref)) else {}
    return {ref: built}, {}
