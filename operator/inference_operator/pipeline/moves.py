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
from inference_operator.views.leaving_node import LeavingNode
from inference_operator.views.raw import mapping
from inference_operator.workload.deployment import PULL_SECONDS
from inference_operator.workload.moving import LEAVING_COST, NO_MOVE, Move, MoveInputs, move
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
    marked = (pod for pod in inputs.pods if pod.deletion_cost == LEAVING_COST and not pod.terminating)
    costs = [
        *((pod, LEAVING_COST, "its node is leaving, so it goes first") for pod in leavers.values() if not pod.group),
        *((pod, 0, "its node stays") for pod in marked if pod.node in staying and pod.uid not in known),
    ]
    return replace(decided, deletion_costs=(*others, *new_costs(costs, inputs.resource.key.namespace)))


@dataclass(frozen=True, slots=True)
class _Component:
    """The engines of a role, or the routers, as observed."""

    budget: Ref
    name: str
    engines: Sequence[EngineView]
    wanted: int
    """Engines or routers that are wanted. Groups that are wanted and do not exist are not made now."""

    def leaves(self, leaving: Mapping[str, LeavingNode] | None) -> bool:
        """Whether a node with one of its pods is leaving, or nobody can see whether one is."""
        return leaving is None or any(node in leaving for one in self.engines for node in one.nodes)

    def kept(self, live: int | None, *, leaves: bool, guards: bool) -> int | None:
        """The pods that its budget keeps. While a node is leaving: all that are wanted, less one.

        Args:
            live: the pods that it keeps now.
            leaves: whether a node with one of its pods is leaving.
            guards: whether the eviction of the only one may be refused.
        """
        serving = [len(one.pods) for one in self.engines if one.is_serving]
        pods, wanted = min(serving, default=1), min(self.wanted, len(self.engines))
        if leaves:
            return max(1, wanted * pods, sum(serving)) - 1
        return max(live, pods) if guards and live is not None and wanted == 1 else None


def with_open_budgets(inputs: Inputs, decided: Outcome, roles: Sequence[LiveRole]) -> Mapping[Ref, Manifest]:
    """The desired objects, with budgets that let pods go where no successor can start.

    That is so where nothing new is decided: the resource is paused or refused, or waits for its model, or its routers
    stay only until something else routes. A drain would wait for ever. The same holds where the operator cannot see
    nodes any more.
    """
    opened: dict[Ref, Manifest] = {}
    spec = inputs.resource.spec
    asked = spec.scheduling.eviction_wait if isinstance(spec, Spec) else None
    guards = inputs.settings.single_engine_budgets and asked != timedelta(0)
    for one in _undecided(inputs, decided, roles):
        live, desired = inputs.child(one.budget), decided.desired.get(one.budget)
        leaves = one.leaves(inputs.leaving)
        if not (desired and one.engines and (live or leaves)):
            continue
        keeps = one.kept(_kept_now(live), leaves=leaves, guards=guards)
        if keeps != _kept_now(desired):
            opened[one.budget] = disruption_budget(one.budget.name, one.name, owner=inputs.owner, keeps=keeps)
    return {**decided.desired, **opened}


def _kept_now(budget: Manifest | None) -> int | None:
    """The number of pods that a budget keeps; None if it has none, or if somebody wrote a percentage."""
    found = mapping(budget or {}, "spec").get("minAvailable")
    return found if isinstance(found, int) else None


def _undecided(inputs: Inputs, decided: Outcome, roles: Sequence[LiveRole]) -> Iterator[_Component]:
    """The components whose moves are not carried out."""
    key, spec = inputs.resource.key, inputs.resource.spec
    planned = decided if isinstance(decided, Planned) else None
    for role in roles if planned is None or planned.model_wait else ():
        ref = Ref(DISRUPTION_BUDGET, key.namespace, workload_name(key.name, role.name))
        yield _Component(ref, role.name, role.engines, role.view.desired)
    is_external = isinstance(spec, Spec) and spec.router.strategy is RouterStrategy.EXTERNAL
    if planned is None or planned.is_frozen or is_external:
        ref = Ref(DISRUPTION_BUDGET, key.namespace, router_name(key.name))
        yield _Component(ref, ROUTER, engines_of(inputs.pods_of(ROUTER)), inputs.routers.desired)
