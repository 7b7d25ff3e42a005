"""How many engines there may be where no node can be added."""

from collections.abc import Sequence

from inference_operator.api.reasons import Reason
from inference_operator.manifest import Manifest
from inference_operator.observed.node import NodeView
from inference_operator.observed.pod import PodView
from inference_operator.planning.gpu_offers import room_for
from inference_operator.sizing.plan import Plan


def fixed_replicas(
    asked: int, nodes: Sequence[NodeView] | None, engines: Sequence[PodView], pod: Manifest, *, plan: Plan
) -> int:
    """As many as asked, if nodes hold as many; but none that has a node is ended because they do not.

    A node that does not answer for a while, is cordoned or has its device plugin started anew still has its engines.
    """
    if nodes is None or not plan.gpus_per_replica:
        return asked
    return min(asked, max(room_for(nodes, pod, plan), sum(_has_a_place(one) for one in engines)))


def _has_a_place(engine: PodView) -> bool:
    waits = engine.problem is not None and engine.problem.reason is Reason.UNSCHEDULABLE
    return not (waits or engine.failed or engine.terminating)


def capped(asked: int, replicas: int) -> str:
    """That there are fewer than asked, in a sentence; empty if there are not.

    Examples:
        >>> capped(3, 2)
        "Nodes have room for 2 of 3, and none can be added (the operator's `capacity`)."
    """
    if replicas == asked:
        return ""
    return f"Nodes have room for {replicas} of {asked}, and none can be added (the operator's `capacity`)."
