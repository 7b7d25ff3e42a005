"""The objects of one role: headless Services, workload and NetworkPolicy."""

from collections.abc import Mapping, Sequence

from inference_operator.engines.kv_transfer import SIDE_CHANNEL_PORT, TRANSFER_PORTS, KVTransfer, TransferRole
from inference_operator.manifest import SERVICE, STATEFUL_SET, Manifest, Owner, Ref
from inference_operator.objects.child import child
from inference_operator.objects.names import (
    ENGINE,
    PREFILL,
    ROUTER,
    headless_service_name,
    members_service_name,
    selector_labels,
    workload_name,
)
from inference_operator.objects.network_policy import metrics_readers, network_policy, rule
from inference_operator.views.pod import POD_INDEX_LABEL, TRAFFIC_LABEL
from inference_operator.workload.pod_spec import WorkloadInputs


def children(inputs: WorkloadInputs, workload: Sequence[Manifest], *, open_to_all: bool) -> dict[Ref, Manifest]:
    """All objects of the role but its budget by reference, in the order in which they are applied.

    A NetworkPolicy admits everybody if something else than our routers sends requests (`open_to_all`).
    """
    kinds = {manifest["kind"] for manifest in workload}
    has_groups = STATEFUL_SET.name in kinds
    built = [
        _service(inputs, leaders=kinds == {STATEFUL_SET.name}),
        *([_members_service(inputs)] if has_groups else []),
        *workload,
    ]
    if inputs.has_network_policy or (has_groups and inputs.settings.uses_network_policies):
        api_open = open_to_all or not inputs.has_network_policy
        built.append(_network_policy(inputs, open_to_all=api_open, has_groups=has_groups))
    return {Ref.of(manifest): manifest for manifest in built}


def engines_selector(objects: Mapping[Ref, Manifest], owner: Owner, roles: Sequence[str]) -> Mapping[str, str]:
    """The labels by which the headless Services of roles select the engines that take requests: those in common."""
    names = [headless_service_name(owner.key.name, role) for role in roles]
    selectors = [objects[Ref(SERVICE, owner.key.namespace, name)]["spec"]["selector"].items() for name in names]
    return {label: value for label, value in selectors[-1] if all((label, value) in selector for selector in selectors)}


def _service(inputs: WorkloadInputs, *, leaders: bool) -> Manifest:
    """The headless Service: one DNS record for each engine that is ready and in traffic, and none for the others.

    Of groups it selects the leaders. While pods of a Deployment serve too, which have no index, it selects all: routers
    send no request to a worker, since no API listens there.
    """
    selector = {**selector_labels(inputs.name, inputs.role), TRAFFIC_LABEL: "true"}
    spec = {
        "clusterIP": "None",
        "selector": {**selector, **({POD_INDEX_LABEL: "0"} if leaders else {})},
        "ports": [{"name": "http", "port": inputs.process.port, "protocol": "TCP", "targetPort": "http"}],
    }
    name = headless_service_name(inputs.name, inputs.role)
    return child(SERVICE, name, owner=inputs.owner, component=inputs.role, content={"spec": spec})


def _members_service(inputs: WorkloadInputs) -> Manifest:
    """The headless Service of the StatefulSets: a DNS name for each member of a group, before it is ready."""
    spec = {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": selector_labels(inputs.name, inputs.role),
    }
    name = members_service_name(inputs.name, inputs.role)
    return child(SERVICE, name, owner=inputs.owner, component=inputs.role, content={"spec": spec})


def _network_policy(inputs: WorkloadInputs, *, open_to_all: bool, has_groups: bool) -> Manifest:
    """Engines accept their own routers, the operator and the readers of metrics; or everybody.

    All other ports of an engine, such as those between its processes, have no authentication. The members of groups
    use a dozen of them, with numbers that the system chooses: they are open to the pods of the role. So groups
    have a policy also where their API is open to everybody, unless the settings switch it off.
    """
    routers: Manifest = {"podSelector": {"matchLabels": selector_labels(inputs.name, ROUTER)}}
    sources = [] if open_to_all and inputs.role != PREFILL else [routers, *metrics_readers(inputs.settings)]
    rules = [rule(sources, inputs.process.port)]
    if loader := inputs.process.adapter_loader:
        rules.append(rule(metrics_readers(inputs.settings), loader.port))
    if transfer := inputs.context.spec.transfer:
        rules.append(_of_transfer(inputs, transfer))
    if has_groups:
        rules.append({"from": [{"podSelector": {"matchLabels": selector_labels(inputs.name, inputs.role)}}]})
    return network_policy(workload_name(inputs.name, inputs.role), inputs.role, rules, owner=inputs.owner)


def _of_transfer(inputs: WorkloadInputs, transfer: KVTransfer) -> Manifest:
    """The ports by which an engine of the other role reads KV caches; handshakes are with prefill engines alone."""
    gives = transfer.role is TransferRole.PREFILL
    other: Manifest = {"podSelector": {"matchLabels": selector_labels(inputs.name, ENGINE if gives else PREFILL)}}
    first, last = TRANSFER_PORTS
    return rule([other], *([SIDE_CHANNEL_PORT] if gives else []), first, last=last)
