"""The move of engines and of the only router away from nodes that are leaving: what it reads and changes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from inference_operator.api.router import RouterStrategy
from inference_operator.api.spec import Spec
from inference_operator.autoscaling.removal_order import new_costs
from inference_operator.manifest import DISRUPTION_BUDGET, Manifest, Ref
from inference_operator.objects.disruption_budget import disruption_budget
from inference_operator.objects.names import ROUTER, router_name, workload_name
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.outcomes import Outcome, Planned
from inference_operator.roles.context import LiveRole
from inference_operator.views.engine import engines_of
from inference_operator.workload.deployment import PULL_SECONDS
from inference_operator.workload.moving import LEAVING_COST, NO_MOVE, Move, MoveInputs, move
from inference_operator.workload.rollout import UNSCHEDULABLE_LIMIT


def router_move(inputs: Inputs, spec: Spec) -> Move:
    """How the only router moves. Of several, a drain ends one at a time, and their budget suffices for that.

    A router starts within seconds once its node has the image. So an eviction waits for a node and a pull by default.
    """
    wanted = spec.router.replicas
    if wanted != 1 or spec.router.strategy is RouterStrategy.EXTERNAL or inputs.leaving is None:
        return NO_MOVE
    live, settings, asked = inputs.router_deployment, inputs.settings, spec.scheduling.eviction_wait
    longest = timedelta(seconds=PULL_SECONDS)
    given = MoveInputs(
        engines=engines_of(inputs.pods_of(ROUTER)),
        template=inputs.routers.template or "",
        pod={},
        wanted=wanted,
        workloads=[live] if live else [],
        leaving=inputs.leaving,
        gpu_resource="",
        pods_per_engine=1,
        node_wait=settings.surge_wait,
        one_node=False,
        longest_start=longest,
        asked=longest + (settings.surge_wait or UNSCHEDULABLE_LIMIT) if asked is None else asked,
        budgets=settings.single_engine_budgets,
        can_record=inputs.can_write,
        what="the only router",
    )
    return move(given, {}, inputs.now)


def with_marks(inputs: Inputs, planned: Planned) -> Planned:
    """The outcome in which pods on nodes that are leaving go before all others, whenever there are too many."""
    moves = [planned.router_move, *(role.move for role in planned.roles)]
    leavers = [one.leader for found in moves for one in found.leavers if found.moves]
    if not leavers:
        return planned
    marks = new_costs([(pod, LEAVING_COST) for pod in leavers if not pod.group], inputs.resource.key.namespace)
    marked = {pod.uid for pod in leavers}
    others = (cost for cost in planned.deletion_costs if cost.uid not in marked)
    return replace(planned, deletion_costs=(*others, *marks))


def with_open_budgets(inputs: Inputs, decided: Outcome, roles: Sequence[LiveRole]) -> Mapping[Ref, Manifest]:
    """The desired objects, with budgets that let engines go where no successor can start.

    That is so where nothing new is decided: the resource is paused or refused, or waits for its model. A drain would
    wait for ever. The same holds where the operator cannot see nodes any more.
    """
    if isinstance(decided, Planned) and decided.model_wait is None:
        return decided.desired
    key, leaving = inputs.resource.key, inputs.leaving
    parts = [(workload_name(key.name, role.name), role.name, role.engines) for role in roles]
    if not isinstance(decided, Planned) or decided.is_frozen:
        parts.append((router_name(key.name), ROUTER, engines_of(inputs.pods_of(ROUTER))))
    opened: dict[Ref, Manifest] = {}
    for name, component, engines in parts:
        ref = Ref(DISRUPTION_BUDGET, key.namespace, name)
        must_go = leaving is None or any(node in leaving for one in engines for node in one.nodes)
        if must_go and ref in decided.desired:
            opened[ref] = disruption_budget(name, component, owner=inputs.owner)
    return {**decided.desired, **opened}
