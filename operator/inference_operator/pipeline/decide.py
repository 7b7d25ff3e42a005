"""The pipeline: from everything requested and observed to the desired objects.

The reconciler, `infd plan` and `infd render` all call `outcome`, and nothing else composes the packages below. So
`infd plan` shows exactly the operator's decision. The steps of a decision:

1. The specification and the source of the model must be valid, and the owner's policy must allow them.
2. What is known about the model, from its inspection or from the catalogue, and the engine that is chosen for it.
3. Every engine must accept the specification.
4. The plan of each role: pinned, corrected or sized now.
5. The objects of all roles, of the router, of autoscaling and of adapters. Engines wait until their model is downloaded
   or verified.
6. Stalled engines and pods on lost nodes to delete, and engines to take out of traffic or back in.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from inference_operator.admission.administrator_refusals import refusal_of_gpus, refusal_of_policy
from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.api.spec import Spec
from inference_operator.manifest import (
    DEPLOYMENT,
    DISRUPTION_BUDGET,
    HORIZONTAL_POD_AUTOSCALER,
    HTTP_ROUTE,
    INGRESS,
    NETWORK_POLICY,
    SCALED_OBJECT,
    SERVICE,
    STATEFUL_SET,
    Kind,
    Manifest,
    Ref,
)
from inference_operator.models.source import model_source
from inference_operator.pipeline.adapters import with_adapters
from inference_operator.pipeline.budgets import decided_budgets, with_open_budgets
from inference_operator.pipeline.contexts import live_roles, role_contexts, role_specs, with_chosen_engines
from inference_operator.pipeline.engine_key import secret_to_create
from inference_operator.pipeline.gang import with_pod_groups
from inference_operator.pipeline.groups import refusal_of_groups
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.model_download import with_download
from inference_operator.pipeline.model_inspection import InspectedModel, inspected_model_of, with_inspection
from inference_operator.pipeline.model_wait import job_wait, needs_verification, with_verification
from inference_operator.pipeline.moves import router_move, with_marks
from inference_operator.pipeline.outcomes import NeedsInspection, Outcome, Paused, Planned, Refused
from inference_operator.pipeline.role import Role, role
from inference_operator.pipeline.routing import Routing, routers, routing, switch_recheck
from inference_operator.pipeline.scaling import external_objects, scaled
from inference_operator.pipeline.turns import with_fleet_state
from inference_operator.pipeline.validation import refusal_of_role
from inference_operator.planning.disk import DISK_CURE
from inference_operator.planning.engine_plan import ModelFindings
from inference_operator.planning.role_plan import PlanState, plan_state, role_plan
from inference_operator.roles.context import LiveRole
from inference_operator.roles.spec import RoleSpec
from inference_operator.settings import Capacity
from inference_operator.workload.hardware_errors import pods_to_move
from inference_operator.workload.lost_nodes import lost_due, pods_of_lost_nodes
from inference_operator.workload.stall import Removal, stalled_engines
from inference_operator.workload.traffic import TrafficChange, traffic_changes

_APPLY_ORDER: Mapping[Kind, int] = {
    SERVICE: 1,
    DEPLOYMENT: 2,
    STATEFUL_SET: 2,
    NETWORK_POLICY: 3,
    DISRUPTION_BUDGET: 4,
    INGRESS: 5,
    HTTP_ROUTE: 6,
    HORIZONTAL_POD_AUTOSCALER: 7,
    SCALED_OBJECT: 8,
}
"""Kinds in the order in which they are applied: ConfigMaps first, since Deployments mount them."""


def outcome(inputs: Inputs) -> Outcome:
    """The objects that an InferenceDeployment should have, and what to do about its engines."""
    specs = role_specs(inputs)
    live = live_roles(inputs, specs)
    decided = with_fleet_state(inputs, with_pod_groups(inputs, _decided(inputs, specs, live)))
    roles = tuple(live.values())
    decided = replace(decided, desired=with_open_budgets(inputs, decided, roles))
    if isinstance(decided, Paused):
        return decided
    due = [decided.recheck_at, *(lost_due(live.engines, inputs.nodes, inputs.now) for live in roles)]
    return replace(
        decided,
        removals=_removals(inputs, roles),
        traffic=_traffic(inputs, roles),
        recheck_at=min(filter(None, due), default=None),
    )


def _decided(inputs: Inputs, specs: Sequence[RoleSpec], live: Mapping[str, LiveRole]) -> Outcome:
    """The outcome without its engines: steps 1 to 3."""
    spec = inputs.resource.spec
    if isinstance(spec, Refusal):
        return Refused(desired=inputs.children, refusal=spec)
    source = model_source(spec.model.source)
    if isinstance(source, Refusal):
        return Paused(desired=inputs.children) if spec.paused else Refused(desired=inputs.children, refusal=source)
    states = [plan_state(context) for context in role_contexts(inputs, specs, live, source)]
    model = inspected_model_of(inputs, states)
    if spec.paused:
        return Paused(desired=inputs.children, model=model.known)
    is_new = all(state.kept is None for state in states)
    if refusal := refusal_of_policy(spec, inputs.settings.policy, inputs.settings.cluster_domain, is_new=is_new):
        return Refused(desired=inputs.children, refusal=refusal, model=model.known)
    chosen = with_chosen_engines(inputs, states, model.findings)
    if isinstance(chosen, Refusal):
        return Refused(desired=inputs.children, refusal=chosen, model=model.known)
    if refusal := next(filter(None, map(refusal_of_role, chosen)), None):
        return Refused(desired=inputs.children, refusal=refusal, model=model.known)
    return with_inspection(inputs, model, _planned(inputs, spec, chosen, model))


def _planned(
    inputs: Inputs, spec: Spec, states: Sequence[PlanState], model: InspectedModel
) -> Planned | Refused | NeedsInspection:
    """The outcome for a specification that every engine accepts: steps 4 and 5."""
    if model.inspection.running and any(state.kept is None for state in states):
        return NeedsInspection(desired=inputs.children, wait=job_wait(model.inspection, Reason.INSPECTING_MODEL))
    way = routing(inputs, spec)
    roles: list[Role] = []
    for state in states:
        decided = _role(inputs, state, model.findings, way)
        if isinstance(decided, Refusal):
            return Refused(desired=inputs.children, refusal=decided, model=model.known)
        roles.append(decided)
    moving = router_move(inputs, spec)
    router, external = routers(inputs, way, roles, moving), external_objects(inputs, roles[0])
    budgets = decided_budgets(inputs, spec, roles, moving)
    other = roles[0].scaling.external
    times = [
        switch_recheck(inputs, way),
        other.due if other else None,
        moving.due,
        *(one.recheck_at for one in roles),
    ]
    planned = Planned(
        desired=_in_apply_order([*(one.objects for one in roles), router.objects, budgets, external]),
        roles=tuple(roles),
        latest_router_template=router.latest_template,
        router_use=router.use,
        router_move=moving,
        engine_key=secret_to_create(inputs, [one.template for one in roles], router.engine_key),
        model=model.known,
        model_failure=model.inspection.progress.failure,
        lookups=tuple(lookup for one in roles for lookup in one.lookups),
        recheck_at=min(filter(None, times), default=None),
    )
    with_model = with_verification if needs_verification(inputs, spec) else with_download
    return with_adapters(inputs, with_marks(inputs, with_model(inputs, scaled(inputs, planned))))


def _role(inputs: Inputs, state: PlanState, model: ModelFindings, way: Routing) -> Role | Refusal:
    """One role with its plan; refused if it has none, or if the policy, an engine or the nodes do not allow it."""
    plan = role_plan(state, model)
    if isinstance(plan, Refusal):
        return plan
    stated, sizes = state.context.spec.stated, plan.pinned.plan
    if refusal := refusal_of_gpus(stated, inputs.settings.policy, per_engine=sizes.gpus_per_replica):
        return refusal
    if refusal := refusal_of_groups(inputs, state.context.engine, stated, sizes):
        return refusal
    decided = role(inputs, state.context, plan, open_to_all=way.open_to_all)
    if not plan.is_kept and decided.network_refusal:
        return decided.network_refusal
    if not plan.is_kept and decided.disk_shortfall and inputs.settings.capacity is Capacity.FIXED:
        return Refusal(Reason.INSUFFICIENT_DISK, "spec.model.source", decided.disk_shortfall, DISK_CURE)
    return decided


def _in_apply_order(parts: Iterable[Mapping[Ref, Manifest]]) -> Mapping[Ref, Manifest]:
    """The objects of all parts in the order in which they are applied; of two with one name, the later part's."""
    found = {ref: manifest for part in parts for ref, manifest in part.items()}
    return dict(sorted(found.items(), key=lambda item: _APPLY_ORDER.get(item[0].kind, 0)))


def _removals(inputs: Inputs, roles: Sequence[LiveRole]) -> tuple[Removal, ...]:
    namespace = inputs.resource.key.namespace
    removals: list[Removal] = []
    for live in roles:
        removals += stalled_engines(
            live.engines,
            inputs.samples,
            desired=live.view.desired,
            namespace=namespace,
            stall_seconds=inputs.settings.stall_seconds,
        )
        removals += pods_to_move(live.workload, live.engines, namespace=namespace)
        removals += pods_of_lost_nodes(live.engines, inputs.nodes, inputs.now, namespace=namespace)
    return tuple(removals)


def _traffic(inputs: Inputs, roles: Sequence[LiveRole]) -> tuple[TrafficChange, ...]:
    return tuple(
        change
        for live in roles
        for change in traffic_changes(
            live.engines,
            inputs.samples,
            namespace=inputs.resource.key.namespace,
            seconds=inputs.settings.no_progress_seconds,
        )
    )
