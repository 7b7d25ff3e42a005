"""Whether nodes have the network and the topology that an engine over several nodes asks for, before any pod waits."""

from collections import Counter
from collections.abc import Iterator, Sequence

from inference_operator.api.effective_spec import EffectiveSpec
from inference_operator.api.network import NetworkSpec
from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.api.spec import Spec
from inference_operator.manifest import Manifest
from inference_operator.roles.context import RoleContext
from inference_operator.sentences import sentences
from inference_operator.settings import Capacity
from inference_operator.sizing.plan import Plan
from inference_operator.views.node import NodeView
from inference_operator.views.node_fit import matches_node

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
