"""Whether nodes have the network and the topology that an engine over several nodes asks for, before any pod waits."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from inference_operator.api.effective_spec import EffectiveSpec
from inference_operator.api.network import NetworkSpec
from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.api.spec import Spec
from inference_operator.manifest import Manifest
from inference_operator.sentences import sentences
from inference_operator.settings import Capacity
from inference_operator.sizing.plan import Plan
from inference_operator.views.node import NodeView
from inference_operator.views.node_fit import matches_node

RESOURCE, TOPOLOGY_KEY = "spec.hardware.network.resource", "spec.scheduling.topologyKey"
_OF_DEFAULTS = "It comes from the operator's setting `engineDefaults`."


@dataclass(frozen=True, slots=True)
class NetworkInputs:
    """Requests of a group's members, and the nodes."""

    spec: EffectiveSpec
    plan: Plan
    nodes: Sequence[NodeView] | None
    """Nodes with GPUs; None if the operator cannot list nodes."""
    pod: Manifest
    """The pod specification of a member."""
    capacity: Capacity

    @property
    def suiting(self) -> Sequence[NodeView]:
        """The nodes with the GPUs of the plan on which a member may run."""
        least = self.plan.gpus_per_pod
        return [
            node
            for node in self.nodes or ()
            if least and node.count(self.plan.resource) >= least and matches_node(node, self.pod)
        ]


def refusal_of_network(inputs: NetworkInputs) -> Refusal | None:
    """Why no nodes have the network or topology that a group asks for; None if they have, or may come.

    Nodes of a pool that has none yet are not judged: what they will have is not known.
    """
    if inputs.plan.parallel.nodes == 1 or not inputs.suiting:
        return None
    return _of_devices(inputs) or _of_topology(inputs)


def _of_devices(inputs: NetworkInputs) -> Refusal | None:
    """No node, or where none can be added too few, have the devices."""
    network = inputs.spec.network
    resource, devices = network.resource, network.devices
    if resource is None:
        return None
    amounts = [node.count(resource) for node in inputs.suiting]
    if sum(amount >= devices for amount in amounts) >= _least_nodes(inputs):
        return None
    asked = f"`{resource}`" if devices == 1 else f"{devices} `{resource}`"
    most = f" The most that one has is {max(amounts)}." if max(amounts) else ""
    problem = f"{_too_few(inputs)} for the engine offer {asked}.{most}"
    origin = "" if inputs.spec.stated.hardware.network.resource else _OF_DEFAULTS
    cure = "Install the device plugin of the network, or name a resource that these nodes have."
    return Refusal(Reason.NO_SUITABLE_NETWORK, RESOURCE, sentences(problem, origin), cure)


def _of_topology(inputs: NetworkInputs) -> Refusal | None:
    """No node, or where none can be added too few of one domain, have the label."""
    key = inputs.spec.scheduling.topology_key
    if key is None:
        return None
    domains = Counter(node.labels[key] for node in inputs.suiting if key in node.labels)
    if max(domains.values(), default=0) >= _least_nodes(inputs):
        return None
    shared = " with the same value" if domains else ""
    problem = f"{_too_few(inputs)} for the engine have the label `{key}`{shared}."
    return Refusal(Reason.NO_SUITABLE_NETWORK, TOPOLOGY_KEY, problem, "Use a label that such nodes have, or remove it.")


def _least_nodes(inputs: NetworkInputs) -> int:
    """The nodes that must exist: those of one engine where none can be added, else one."""
    return inputs.plan.parallel.nodes if inputs.capacity is Capacity.FIXED else 1


def _too_few(inputs: NetworkInputs) -> str:
    least = _least_nodes(inputs)
    return "No nodes" if least == 1 else f"Fewer than {least} nodes"


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
    """The stated fields that only an engine over several nodes uses."""
    if stated.hardware.network != NetworkSpec():
        yield "spec.hardware.network"
    if stated.scheduling.topology_key:
        yield TOPOLOGY_KEY
