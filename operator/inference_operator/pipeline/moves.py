"""The move of engines away from nodes that are leaving, with everything that it reads and changes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from inference_operator.autoscaling.removal_order import new_costs
from inference_operator.manifest import DISRUPTION_BUDGET, Manifest, Ref
from inference_operator.objects.disruption_budget import disruption_budget
from inference_operator.objects.names import workload_name
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.outcomes import Outcome, Planned
from inference_operator.roles.context import LiveRole
from inference_operator.workload.moving import LEAVING_COST


def with_marks(inputs: Inputs, planned: Planned) -> Planned:
    """The outcome in which engines on nodes that are leaving go before all others, whenever there are too many."""
    leavers = [one.leader for role in planned.roles for one in role.move.leavers if role.move.moves]
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
    opened: dict[Ref, Manifest] = {}
    for role in roles:
        name = workload_name(key.name, role.name)
        ref = Ref(DISRUPTION_BUDGET, key.namespace, name)
        must_go = leaving is None or any(node in leaving for one in role.engines for node in one.nodes)
        if must_go and ref in decided.desired:
            opened[ref] = disruption_budget(name, role.name, owner=inputs.owner)
    return {**decided.desired, **opened}
