"""Limits the number of engine replicas in clusters of fixed capacity."""

from collections.abc import Sequence

from inference_operator.api.reasons import Reason
from inference_operator.manifest import Manifest
from inference_operator.planning.gpu_offers import room_for
from inference_operator.sizing.plan import Plan
from inference_operator.views.node import NodeView
from inference_operator.views.pod import PodView


def fixed_replicas(
    asked: int, nodes: Sequence[NodeView] | None, engines: Sequence[PodView], pod: Manifest, *, plan: Plan
) -> int:
    """The requested replicas, but at most as many as nodes have GPUs for. Engines that are already on a node stay.

    A node that is not ready for a while, is cordoned or restarts its device plugin still runs its engines.
    """
    if nodes is None or not plan.gpus_per_replica:
        return asked
    return min(asked, max(room_for(nodes, pod, plan), sum(_is_placed(engine) for engine in engines)))


def _is_placed(engine: PodView) -> bool:
    waits = engine.problem is not None and engine.problem.reason is Reason.UNSCHEDULABLE
    return not (waits or engine.failed or engine.terminating)


def capped(asked: int, replicas: int) -> str:
    """A sentence that says that there are fewer replicas than requested; empty if there are not.

    Examples:
        >>> capped(3, 2)
        "Nodes have room for 2 of 3, and none can be added (the operator's `capacity`)."
    """
    if replicas == asked:
        return ""
    return f"Nodes have room for {replicas} of {asked}, and none can be added (the operator's `capacity`)."
