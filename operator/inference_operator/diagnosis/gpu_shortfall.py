"""How many GPUs an unschedulable engine lacks, and which nodes come closest."""

import re
from collections.abc import Sequence

from inference_operator.diagnosis.inputs import DiagnosisInputs
from inference_operator.manifest import Manifest
from inference_operator.views.lookups import ClusterGpus, FreeGpusLookup, NodeGpus
from inference_operator.views.node import requested_amount
from inference_operator.views.node_fit import schedulable_now
from inference_operator.views.pod import PodView

NAMED_NODES = 3
"""Nodes that the message names, those with the most free GPUs first."""

_INSUFFICIENT = re.compile(r"\bInsufficient (?P<resource>[\w.-]+/[\w.-]+\w)")
"""The scheduler's words about an extended resource (Kubernetes 1.36, plugins/noderesources); CPU has no `/`."""


def shortfall_lookup(pod: PodView, inputs: DiagnosisInputs) -> FreeGpusLookup | None:
    pod_spec = _pod_spec(pod, inputs)
    if pod.problem is None or pod_spec is None or not inputs.nodes_visible:
        return None
    resources = lacked_resources(pod.problem.cause)
    return next((FreeGpusLookup(name) for name in resources if requested_amount(pod_spec, name)), None)


def lacked_resources(cause: str) -> tuple[str, ...]:
    """The extended resources of which nodes have too few, from the scheduler's words.

    Examples:
        >>> lacked_resources("0/9 nodes are available: 8 Insufficient nvidia.com/gpu, 1 Insufficient cpu.")
        ('nvidia.com/gpu',)
    """
    return tuple(match["resource"] for match in _INSUFFICIENT.finditer(cause))


def gpu_shortfall(pod: PodView, inputs: DiagnosisInputs) -> str:
    lookup, pod_spec = shortfall_lookup(pod, inputs), _pod_spec(pod, inputs)
    gpus = inputs.lookups.get(lookup) if lookup else None
    if lookup is None or pod_spec is None or not isinstance(gpus, ClusterGpus):
        return ""
    amount = requested_amount(pod_spec, lookup.resource)
    fitting = (node for node in gpus.nodes if schedulable_now(node.node, pod_spec))
    nodes = sorted(fitting, key=lambda node: (-node.free, -node.total, node.node.name))
    needs = f"It needs {amount} `{lookup.resource}` on one node"
    if not nodes:
        return f"{needs}, and no node that it may run on has any."
    if nodes[0].free >= amount:
        return ""
    if nodes[0].free <= 0:
        return f"{needs}, and none is free."
    return f"{needs} and is {amount - nodes[0].free} short: {_free(nodes[:NAMED_NODES])}."


def _free(nodes: Sequence[NodeGpus]) -> str:
    return "the most free are " + ", ".join(f"{max(0, n.free)} of {n.total} on `{n.node.name}`" for n in nodes)


def _pod_spec(pod: PodView, inputs: DiagnosisInputs) -> Manifest | None:
    role = inputs.roles.get(pod.component)
    return (role.workload.pod_spec or {}) if role else None
