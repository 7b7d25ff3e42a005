"""Limits the number of engine replicas in clusters whose number of nodes is fixed."""

from collections.abc import Sequence

from inference_operator.manifest import Manifest
from inference_operator.planning.gpu_offers import room_for
from inference_operator.sizing.plan import Plan
from inference_operator.views.engine import EngineView
from inference_operator.views.node import NodeView


def fixed_replicas(
    requested: int, nodes: Sequence[NodeView] | None, engines: Sequence[EngineView], pod: Manifest, *, plan: Plan
) -> int:
    """The requested replicas, but at most as many as nodes have GPUs for. Engines that are already on a node stay.

    A node that is cordoned, restarts its device plugin or is temporarily not ready still runs its engines.
    """
    if nodes is None or not plan.gpus_per_replica:
        return requested
    return min(requested, max(room_for(nodes, pod, plan), sum(_is_placed(engine) for engine in engines)))


def _is_placed(engine: EngineView) -> bool:
    return not (engine.is_unschedulable or engine.failed or engine.terminating)


def capped(requested: int, replicas: int) -> str:
    if replicas == requested:
        return ""
    possible = f"Nodes have GPUs for {replicas} of {requested} engines"
    return f"{possible}, and the operator's setting `capacity` rules out new nodes."
