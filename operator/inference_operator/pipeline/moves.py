"""The move of engines and of the only router away from nodes that are leaving: what it reads, and its part."""

from datetime import timedelta

from inference_operator.api.router import RouterStrategy
from inference_operator.api.spec import Spec
from inference_operator.objects.names import ROUTER
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.outcomes import Planned
from inference_operator.pipeline.part import Feature, Part
from inference_operator.sentences import sentences
from inference_operator.views.engine import engines_of
from inference_operator.workload.deployment import PULL_SECONDS
from inference_operator.workload.eviction.drain import NO_MOVE, Move, move
from inference_operator.workload.eviction.obstacles import UNSCHEDULABLE_LIMIT
from inference_operator.workload.eviction.rollout import EngineSet

_STAYS = "{} on a node that is leaving do not move meanwhile: a drain ends them before their successors start."


def router_move(inputs: Inputs, spec: Spec) -> Move:
    """How the only router moves. Of several, a drain ends one at a time, and their budget suffices for that.

    A router starts within seconds once its node has the image. So an eviction waits for a node and a pull by default.
    """
    if spec.router.replicas != 1 or spec.router.strategy is RouterStrategy.EXTERNAL:
        return NO_MOVE
    live, settings, asked = inputs.router_deployment, inputs.settings, spec.scheduling.eviction_wait
    longest = timedelta(seconds=PULL_SECONDS)
    default = min(longest + (settings.surge_wait or UNSCHEDULABLE_LIMIT), settings.longest_eviction_wait)
    routers = EngineSet(
        engines=engines_of(inputs.pods_of(ROUTER)),
        template=inputs.routers.template or "",
        workloads=[live] if live else [],
        leaving=inputs.leaving,
        node_wait=settings.surge_wait,
        longest_start=longest,
        eviction_wait=default if asked is None else asked,
        budgets=settings.single_engine_budgets,
        can_record=inputs.can_write,
        noun="router",
    )
    return move(routers, {}, inputs.now)


def moves(planned: Planned) -> Part:
    """When to look at the router's move again, and the notices about all moves."""
    return Part(feature=Feature.MOVES, due=planned.router_move.due, notice=_notice(planned))


def _notice(planned: Planned) -> str:
    """The notices of moves that are carried out, and that pods stay whose moves are not."""
    by_hold = ((planned.hold.holds_others, [planned.router_move]), (planned.hold.holds_engines, planned.engine_moves))
    carried_out = [each for held, group in by_hold if not held for each in group]
    stays = any(each.draining for held, group in by_hold if held for each in group)
    kept = _STAYS.format("Pods" if planned.hold.holds_others else "Engines") if stays else ""
    return sentences(*(each.notice for each in carried_out), kept)
