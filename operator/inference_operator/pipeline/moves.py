"""The move of engines and of the only router away from nodes that are leaving: what it reads and changes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from inference_operator.api.router import RouterStrategy
from inference_operator.api.spec import Spec
from inference_operator.autoscaling.removal_order import new_costs
from inference_operator.manifest import DISRUPTION_BUDGET, Manifest, Ref
from inference_operator.objects.disruption_budget import disruption_budget
from inference_operator.objects.names import ROUTER, router_name, workload_name
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.outcomes import Outcome, Planned, Refused
from inference_operator.roles.context import LiveRole
from inference_operator.views.engine import EngineView, engines_of
from inference_operator.views.pod import PodView
from inference_operator.workload.deployment import PULL_SECONDS
from inference_operator.workload.moving import LEAVING_COST, NO_MOVE, Move, MoveInputs, budget_of, move


def router_move(inputs: Inputs, spec: Spec) -> Move:
    """How the only router moves. Of several, a drain ends one at a time, and their budget suffices for that.

    A router starts within seconds once its node has the image. So an eviction waits for a node and a pull by default.
    """
    wanted = spec.router.replicas
    if wanted != 1 or spec.router.strategy is RouterStrategy.EXTERNAL:
        return NO_MOVE
    live, settings = inputs.router_deployment, inputs.settings
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
        longest_start=timedelta(seconds=PULL_SECONDS),
        asked=spec.scheduling.eviction_wait,
        budgets=settings.single_engine_budgets,
        can_record=inputs.can_write,
        noun="router",
    )
    return move(given, {}, inputs.now)


def with_marks(inputs: Inputs, decided: Planned | Refused) -> Planned | Refused:
    """The outcome in which pods on nodes that are leaving go before all others, whenever there are too many.

    The mark of a pod whose node stays after all is taken back.
    """
    if not isinstance(decided, Planned) or decided.is_frozen:
        return decided
    leavers = {one.uid: one.leader for found in decided.moves for one in found.leavers if found.moves}
    others = [cost for cost in decided.deletion_costs if cost.uid not in leavers]
    decided_pods = {*leavers, *(cost.uid for cost in others)}
    stay = [pod for pod in inputs.pods if _is_marked(inputs, pod) and pod.uid not in decided_pods]
    costs = [*((pod, LEAVING_COST) for pod in leavers.values() if not pod.group), *((pod, 0) for pod in stay)]
    return replace(decided, deletion_costs=(*others, *new_costs(costs, inputs.resource.key.namespace)))


def _is_marked(inputs: Inputs, pod: PodView) -> bool:
    """Whether a pod has the mark of a leaver, and its node stays."""
    is_leaver = inputs.leaving is None or pod.node in inputs.leaving
    return pod.deletion_cost <= LEAVING_COST and not (is_leaver or pod.terminating)


@dataclass(frozen=True, slots=True)
class _Component:
    """The engines of a role, or the routers, as observed."""

    budget: Ref
    name: str
    engines: Sequence[EngineView]
    workloads: Sequence[Manifest]
    wanted: int
    """Engines or routers that are wanted."""


def with_open_budgets(inputs: Inputs, decided: Outcome, roles: Sequence[LiveRole]) -> Mapping[Ref, Manifest]:
    """The desired objects, with budgets that let pods go where no successor can start.

    That is so where nothing new is decided: the resource is paused or refused, or waits for its model, or its routers
    stay only until something else routes. A drain would wait for ever. The same holds where the operator cannot see
    nodes any more.
    """
    leaving = inputs.leaving
    opened: dict[Ref, Manifest] = {}
    for one in _undecided(inputs, decided, roles):
        must_go = leaving is None or any(node in leaving for engine in one.engines for node in engine.nodes)
        if must_go and one.budget in decided.desired:
            pods = max((len(engine.pods) for engine in one.engines if engine.is_serving), default=1)
            workloads = [decided.desired.get(Ref.of(live), live) for live in one.workloads]
            budget = budget_of(NO_MOVE, workloads, one.wanted, pods)
            opened[one.budget] = disruption_budget(one.budget.name, one.name, budget, owner=inputs.owner)
    return {**decided.desired, **opened}


def _undecided(inputs: Inputs, decided: Outcome, roles: Sequence[LiveRole]) -> Iterator[_Component]:
    """The components whose moves are not carried out."""
    key, spec, live = inputs.resource.key, inputs.resource.spec, inputs.router_deployment
    planned = decided if isinstance(decided, Planned) else None
    for role in roles if planned is None or planned.model_wait else ():
        name = workload_name(key.name, role.name)
        ref = Ref(DISRUPTION_BUDGET, key.namespace, name)
        yield _Component(ref, role.name, role.engines, role.workloads, role.view.desired)
    is_external = isinstance(spec, Spec) and spec.router.strategy is RouterStrategy.EXTERNAL
    if live and (planned is None or planned.is_frozen or is_external):
        ref = Ref(DISRUPTION_BUDGET, key.namespace, router_name(key.name))
        yield _Component(ref, ROUTER, engines_of(inputs.pods_of(ROUTER)), [live], inputs.routers.desired)
