"""The part of deletion costs: which engines and routers go first whenever there are too many."""

from collections.abc import Collection

from inference_operator.autoscaling.removal_order import deletion_costs, new_costs
from inference_operator.objects.pod_patch import PodPatch
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.outcomes import Planned
from inference_operator.pipeline.part import Feature, Part
from inference_operator.workload.moving import DRAINING_COST


def removal_order(inputs: Inputs, planned: Planned) -> Part:
    """Pods on nodes that are leaving go first, then engines with few requests, where autoscaling takes some away.

    The mark of a pod whose node stays after all is taken back, if that is one with GPUs: other nodes that stay cannot
    be told from those that are gone, whose pods keep it.
    """
    if planned.hold.holds_others:
        return Part(feature=Feature.REMOVAL_ORDER, pods=_of_scaling(inputs, planned))
    leaving = {engine.uid: engine.leader for move in planned.all_moves for engine in move.leavers if move.moves}
    others = _of_scaling(inputs, planned, besides=leaving)
    known = {*leaving, *(cost.pod.uid for cost in others)}
    staying = {node.name for node in inputs.nodes or ()} - set(inputs.leaving or ())
    marked = (pod for pod in inputs.pods if pod.deletion_cost == DRAINING_COST and not pod.terminating)
    costs = [
        *((pod, DRAINING_COST, "its node is leaving, so it goes first") for pod in leaving.values() if not pod.group),
        *((pod, 0, "its node stays") for pod in marked if pod.node in staying and pod.uid not in known),
    ]
    marks = new_costs(costs)
    return Part(feature=Feature.REMOVAL_ORDER, pods=(*others, *marks))


def _of_scaling(inputs: Inputs, planned: Planned, besides: Collection[str] = ()) -> tuple[PodPatch, ...]:
    """Which engines should go later than others, where autoscaling takes some away; not the pods of these uids."""
    if planned.roles[0].context.spec.stated.autoscaling is None:
        return ()
    return tuple(
        cost
        for role in planned.roles
        for cost in deletion_costs(
            role.context.live.engines,
            inputs.samples,
            live=role.context.live.view.desired,
            desired=role.workload.replicas,
        )
        if cost.pod.uid not in besides
    )
