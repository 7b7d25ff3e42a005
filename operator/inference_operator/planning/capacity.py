"""Whether the nodes that exist have what engines ask for: GPUs where no node can be added, disk, and the network."""

from collections import Counter
from collections.abc import Iterator, Sequence

from inference_operator.api.effective_spec import EffectiveSpec
from inference_operator.api.hardware import NetworkSpec
from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.api.spec import Spec
from inference_operator.manifest import Manifest
from inference_operator.planning.gpu_offers import room_for
from inference_operator.quantity import value
from inference_operator.roles.context import RoleContext
from inference_operator.sentences import first_of, sentences
from inference_operator.settings import Capacity
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
    named = first_of([f"`{name}` has {amount}Gi" for name, amount in in_gib], NAMED_NODES)
    return f"An engine requests `{requested}` of disk, and no node for it has so much: {named}."


RESOURCE, TOPOLOGY_KEY = "spec.hardware.network.resource", "spec.scheduling.topologyKey"
_OF_DEFAULTS = "It comes from the operator's setting `engineDefaults`."


def refusal_of_network(context: RoleContext, plan: Plan, pod: Manifest) -> Refusal | None:
    """Why no nodes have the network or topology that a group asks for; None if they have, or may come.

    Nodes of a pool that has none yet are not judged: what they will have is not known.
    """
    if plan.parallel.nodes == 1:
        return None
    least = plan.gpus_per_pod
    suiting = [
        node for node in context.nodes or () if least and node.count(plan.resource) >= least and matches_node(node, pod)
    ]
    if not suiting:
        return None
    needed = plan.parallel.nodes if context.settings.capacity is Capacity.FIXED else 1
    return _of_devices(context.spec.effective, suiting, needed) or _of_topology(context.spec.effective, suiting, needed)


def _of_devices(spec: EffectiveSpec, suiting: Sequence[NodeView], needed: int) -> Refusal | None:
    resource, devices = spec.network.resource, spec.network.devices
    if resource is None:
        return None
    amounts = [node.count(resource) for node in suiting]
    if sum(amount >= devices for amount in amounts) >= needed:
        return None
    asked = f"`{resource}`" if devices == 1 else f"{devices} `{resource}`"
    most = f" The most that one has is {max(amounts)}." if max(amounts) else ""
    problem = f"{_too_few(needed)} for the engine offer {asked}.{most}"
    origin = "" if spec.stated.hardware.network.resource else _OF_DEFAULTS
    cure = "Install the device plugin of the network, or name a resource that these nodes have."
    return Refusal(Reason.NO_SUITABLE_NETWORK, RESOURCE, sentences(problem, origin), cure)


def _of_topology(spec: EffectiveSpec, suiting: Sequence[NodeView], needed: int) -> Refusal | None:
    key = spec.scheduling.topology_key
    if key is None:
        return None
    domains = Counter(node.labels[key] for node in suiting if key in node.labels)
    if max(domains.values(), default=0) >= needed:
        return None
    shared = " with the same value" if domains else ""
    problem = f"{_too_few(needed)} for the engine have the label `{key}`{shared}."
    return Refusal(Reason.NO_SUITABLE_NETWORK, TOPOLOGY_KEY, problem, "Use a label that such nodes have, or remove it.")


def _too_few(needed: int) -> str:
    return "No nodes" if needed == 1 else f"Fewer than {needed} nodes"


def unused_fields(stated: Spec, plan: Plan) -> str:
    """A notice about fields of groups that an engine on one node does not use; empty if there are none.

    Examples:
        >>> from inference_operator.sizing.plan import unchecked_plan
        >>> from inference_operator.sizing.shape import SizingInputs
        >>> asked = {"model": {"source": "hf://a/b"}, "hardware": {"network": {"interface": "net1"}}}
        >>> unused_fields(Spec.model_validate(asked), unchecked_plan(SizingInputs(tensor=8)))
        'An engine fits on one node: `spec.hardware.network` has no effect.'
    """
    fields = list(group_fields(stated)) if plan.parallel.nodes == 1 else []
    if not fields:
        return ""
    verb = "has" if len(fields) == 1 else "have"
    return f"An engine fits on one node: {' and '.join(f'`{field}`' for field in fields)} {verb} no effect."


def group_fields(stated: Spec) -> Iterator[str]:
    if stated.hardware.network != NetworkSpec():
        yield "spec.hardware.network"
    if stated.scheduling.topology_key:
        yield TOPOLOGY_KEY
