"""Whether the nodes that exist have room for the engines: GPUs where no node can be added, and ephemeral storage."""

from collections.abc import Sequence

from inference_operator.manifest import Manifest
from inference_operator.planning.gpu_offers import room_for
from inference_operator.quantity import value
from inference_operator.sizing.plan import Plan
from inference_operator.views.engine import EngineView
from inference_operator.views.node import NodeView
from inference_operator.views.node_fit import matches_node


def fixed_replicas(
    requested: int, nodes: Sequence[NodeView] | None, engines: Sequence[EngineView], pod: Manifest, *, plan: Plan
) -> int:
    """The requested replicas, but at most as many as nodes have GPUs for. Engines that are already on a node stay.

    A node that is cordoned, restarts its device plugin or is temporarily not ready still runs its engines.
    """
    if nodes is None or not plan.gpus_per_replica:
        return requested
    placed = [engine for engine in engines if not (engine.is_unschedulable or engine.failed or engine.terminating)]
    return min(requested, max(room_for(nodes, pod, plan), len(placed)))


def capped(requested: int, replicas: int) -> str:
    if replicas == requested:
        return ""
    possible = f"Nodes have GPUs for {replicas} of {requested} engines"
    return f"{possible}, and the operator's setting `capacity` rules out new nodes."


_STORAGE = "ephemeral-storage"
NAMED_NODES = 3
DISK_CURE = (
    "Set `spec.cache`, so that engines need no disk for the model; or use nodes with larger disks, or request less in"
    " `spec.engine.resources.requests`."
)


def disk_shortfall(nodes: Sequence[NodeView] | None, pod: Manifest, resource: str) -> str:
    """Which nodes lack the disk for an engine, in a sentence; empty if one has it, or if no node is known."""
    requests = ((container.get("resources") or {}).get("requests") or {} for container in pod.get("containers") or ())
    requested = next((str(request[_STORAGE]) for request in requests if _STORAGE in request), "")
    suiting = [node for node in nodes or () if node.count(resource) and matches_node(node, pod)]
    amounts = [(node.name, node.allocatable.get(_STORAGE, "")) for node in suiting]
    if not requested or not amounts or any(not amount or value(amount) >= value(requested) for _, amount in amounts):
        return ""
    in_gib = [(name, int(value(amount)) // 2**30) for name, amount in sorted(amounts)]
    named = ", ".join(f"`{name}` has {amount}Gi" for name, amount in in_gib[:NAMED_NODES])
    more = f" and {len(amounts) - NAMED_NODES} more" if len(amounts) > NAMED_NODES else ""
    return f"An engine requests `{requested}` of disk, and no node for it has so much: {named}{more}."
