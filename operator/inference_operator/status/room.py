"""Which nodes come close to having room for an engine, where devices are what is missing."""

import re
from collections.abc import Sequence

from inference_operator.manifest import Manifest
from inference_operator.observed.admission import admits
from inference_operator.observed.look import FreeGpus, Gpus, NodeGpus
from inference_operator.observed.pod import PodView
from inference_operator.observed.reserved import reserved
from inference_operator.pipeline import Inputs
from inference_operator.resources.names import ENGINE

NAMED_NODES = 3
"""Nodes that are named; they are in the order of what is free on them."""

_SHORT = re.compile(r"\bInsufficient (?P<resource>[\w.-]+/[\w.-]+\w)")
"""What the scheduler says of an extended resource (Kubernetes 1.36, plugins/noderesources); CPU has no `/`."""


def look_for_room(pod: PodView, inputs: Inputs) -> FreeGpus | None:
    """What tells which nodes come close; None where other things are missing, or nodes cannot be seen."""
    if pod.problem is None or pod.component != ENGINE or inputs.settings.namespaces:
        return None
    asked = _asked(inputs)
    named = (found["resource"] for found in _SHORT.finditer(pod.problem.cause))
    return next((FreeGpus(resource) for resource in named if reserved(asked, resource)), None)


def closest(pod: PodView, inputs: Inputs) -> str:
    """How many of the devices are short, and where most are free, in a sentence; empty where that is not known."""
    look = look_for_room(pod, inputs)
    found = inputs.seen.get(look) if look else None
    if look is None or not isinstance(found, Gpus):
        return ""
    asked = _asked(inputs)
    amount = reserved(asked, look.resource)
    nodes = sorted((n for n in found.nodes if admits(n.node, asked)), key=lambda n: (-n.free, -n.total, n.node.name))
    needs = f"It needs {amount} `{look.resource}` on one node"
    if not nodes:
        return f"{needs}, and no node that it may be on has any."
    if nodes[0].free >= amount:
        return ""
    if nodes[0].free <= 0:
        return f"{needs}, and none is free."
    return f"{needs} and is {amount - nodes[0].free} short: {_free(nodes[:NAMED_NODES])}."


def _free(nodes: Sequence[NodeGpus]) -> str:
    return "the most free are " + ", ".join(f"{max(0, n.free)} of {n.total} on `{n.node.name}`" for n in nodes)


def _asked(inputs: Inputs) -> Manifest:
    """What an engine's pod asks for, as it stands in the live Deployment."""
    template: Manifest = ((inputs.engines or {}).get("spec") or {}).get("template") or {}
    return template.get("spec") or {}
