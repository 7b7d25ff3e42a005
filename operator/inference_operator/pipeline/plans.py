"""What is decided about the roles and the routers of a valid specification, or why it cannot be served."""

from collections.abc import Sequence

from inference_operator.admission.administrator_refusals import refusal_of_gpus
from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.api.spec import Spec
from inference_operator.engines.base import Engine
from inference_operator.objects.names import MAX_NAME_OF_GROUPS
from inference_operator.pipeline.disaggregation import of_prefill, refusal_of_transfer
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.model_claim import one_node_claim
from inference_operator.pipeline.model_inspection import InspectedModel
from inference_operator.pipeline.moves import router_move
from inference_operator.pipeline.outcomes import Planned
from inference_operator.pipeline.role import Role, role
from inference_operator.pipeline.routing import Routing, router_objects, routing
from inference_operator.planning.capacity import DISK_CURE
from inference_operator.planning.engine_plan import ModelFindings
from inference_operator.planning.role_plan import PlanState, role_plan
from inference_operator.roles.context import SharedContext
from inference_operator.settings import Capacity
from inference_operator.sizing.plan import Plan


def planned(
    inputs: Inputs, shared: SharedContext, states: Sequence[PlanState], model: InspectedModel
) -> Planned | Refusal:
    """The roles and the routers, as if nothing had to be done with the model's files before."""
    path = routing(inputs, shared.stated)
    roles: list[Role] = []
    for state in states:
        others = sum(role.plan.plan.gpus_per_replica * role.context.spec.stated.most_replicas for role in roles)
        decided = _role(inputs, state, model.findings, path, others=others)
        if isinstance(decided, Refusal):
            return decided
        roles.append(decided)
    move = router_move(inputs, shared.stated)
    return Planned(
        shared=shared,
        roles=tuple(roles),
        routing=path,
        router=router_objects(inputs, shared.effective, path, roles, move),
        router_move=move,
        model=model.known,
        model_failure=model.inspection.progress.failure,
    )


def _role(inputs: Inputs, state: PlanState, model: ModelFindings, path: Routing, *, others: int) -> Role | Refusal:
    """One role with its plan; refused if it has none, or if the policy, an engine or the nodes do not allow it.

    `others` are the GPUs of the roles before it.
    """
    plan = role_plan(state, model)
    if isinstance(plan, Refusal):
        return of_prefill(state.context, plan)
    stated, sizes = state.context.spec.stated, plan.pinned.plan
    if refusal := refusal_of_gpus(stated, inputs.settings.policy, per_engine=sizes.gpus_per_replica, others=others):
        return of_prefill(state.context, refusal)
    if refusal := refusal_of_groups(inputs, state.context.engine, stated, sizes):
        return refusal
    if refusal := refusal_of_transfer(state.context, plan, model.facts):
        return refusal
    decided = role(inputs, state.context, plan, open_to_all=path.open_to_all)
    if not plan.is_kept and decided.network_refusal:
        return decided.network_refusal
    if not plan.is_kept and decided.disk_shortfall and inputs.settings.capacity is Capacity.FIXED:
        return Refusal(Reason.INSUFFICIENT_DISK, "spec.model.source", decided.disk_shortfall, DISK_CURE)
    return decided


FEWER_NODES = "or set `spec.parallelism.nodes` to 1, if the model fits on one node"


def refusal_of_groups(inputs: Inputs, engine: Engine, spec: Spec, plan: Plan) -> Refusal | None:
    name, nodes = inputs.resource.key.name, plan.parallel.nodes
    if nodes == 1:
        return None
    if len(name) > MAX_NAME_OF_GROUPS:
        problem = f"has {len(name)} characters; engines over {nodes} nodes allow at most {MAX_NAME_OF_GROUPS}."
        return Refusal(Reason.INVALID_SPEC, "metadata.name", problem, f"Use a shorter name, {FEWER_NODES}.")
    if claim := one_node_claim(inputs, spec):
        problem = f"the pods of an engine are on {nodes} nodes, and only pods on one node can mount claim `{claim}`."
        cure = f"Use a claim with the access mode ReadWriteMany or ReadOnlyMany, {FEWER_NODES}."
        return Refusal(Reason.VOLUME_UNAVAILABLE, "spec.cache", problem, cure)
    return engine.check_member(spec.engine)
