"""The move of engines and of the only router away from nodes that are leaving: what it reads and changes."""

from dataclasses import replace
from datetime import timedelta

from inference_operator.api.router import RouterStrategy
from inference_operator.api.spec import Spec
from inference_operator.autoscaling.removal_order import new_costs
from inference_operator.objects.names import ROUTER
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.outcomes import Planned, Refused
from inference_operator.views.engine import engines_of
from inference_operator.workload.deployment import PULL_SECONDS
from inference_operator.workload.moving import DRAINING_COST, NO_MOVE, Move, MoveInputs, move
from inference_operator.workload.rollout import UNSCHEDULABLE_LIMIT


def router_move(inputs: Inputs, spec: Spec) -> Move:
    """How the only router moves. Of several, a drain ends one at a time, and their budget suffices for that.

    A router starts within seconds once its node has the image. So an eviction waits for a node and a pull by default.
    """
    wanted = spec.router.replicas
    if wanted != 1 or spec.router.strategy is RouterStrategy.EXTERNAL:
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
        noun="router",
    )
    return move(given, {}, inputs.now)


def with_marks(inputs: Inputs, decided: Planned | Refused) -> Planned | Refused:
    """The outcome in which pods on nodes that are leaving go before all others, whenever there are too many.

    The mark of a pod whose node stays after all is taken back, if that is one with GPUs: other nodes that stay cannot
    be told from those that are gone, whose pods keep it.
    """
    if not isinstance(decided, Planned) or decided.is_frozen:
        return decided
    leavers = {one.uid: one.leader for found in decided.all_moves for one in found.leavers if found.moves}
    others = [cost for cost in decided.deletion_costs if cost.uid not in leavers]
    known = {*leavers, *(cost.uid for cost in others)}
    staying = {node.name for node in inputs.nodes or ()} - set(inputs.leaving or ())
    marked = (pod for pod in inputs.pods if pod.deletion_cost == DRAINING_COST and not pod.terminating)
    costs = [
        *((pod, DRAINING_COST, "its node is leaving, so it goes first") for pod in leavers.values() if not pod.group),
        *((pod, 0, "its node stays") for pod in marked if pod.node in staying and pod.uid not in known),
    ]
    return replace(decided, deletion_costs=(*others, *new_costs(costs, inputs.resource.key.namespace)))
