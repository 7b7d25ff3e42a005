"""What an unschedulable pod lacks: the scheduler's message as a sentence, how many GPUs, and labels that it needs."""

import re
from collections.abc import Iterator

from inference_operator.diagnosis.component import DiagnosisInputs
from inference_operator.manifest import ARCHITECTURE_LABEL, SYSTEM_LABEL, Manifest
from inference_operator.sentences import sentences
from inference_operator.text_tables import blocks
from inference_operator.views.lookups import ClusterGpus, FreeGpusLookup
from inference_operator.views.node import requested_amount
from inference_operator.views.node_fit import schedulable_now
from inference_operator.views.pod import PodView

_COUNT = re.compile(
    r"^0/(?P<nodes>\d+) nodes are available: (?P<causes>.*?)\.?"
    r"(?:\s+no new claims to deallocate,?)?(?:\s+preemption: .*)?$"
)
"""After the causes come remarks of the plugins that could free resources (Kubernetes 1.36, plugins/dynamicresources and
plugins/defaultpreemption). They contain nothing that a user could act upon."""
_CAUSE = re.compile(r"(?P<number>\d+) (?P<what>(?:(?!, \d+ ).)+)")

_CAUSES = [(re.compile(pattern), words) for pattern, words in blocks(__package__, "scheduler-causes")]

CURE = "Add a suitable node, free resources on an existing one, or request less"


def scheduler_sentence(message: str, more: str = "", *, cure: bool = True) -> str:
    """The scheduler's message as a sentence; unchanged if its form is unknown. No cure is needed if a node comes."""
    advice = f"{CURE}." if cure else ""
    if message.startswith("no nodes available"):
        return sentences("the cluster has no nodes.", more, advice)
    counted = _COUNT.match(message)
    if counted is None:
        return message
    causes = [_cause_text(int(match["number"]), match["what"]) for match in _CAUSE.finditer(counted["causes"])]
    if not causes:
        return message
    nodes = "it does not fit the only node" if counted["nodes"] == "1" else f"it fits none of {counted['nodes']} nodes"
    return sentences(f"{nodes}: {', '.join(causes)}.", more, advice)


def _cause_text(number: int, what: str) -> str:
    for pattern, words in _CAUSES:
        if match := pattern.match(what.strip()):
            return f"{number} {'has' if number == 1 else 'have'} {words.format(**match.groupdict())}"
    return f"{number} {what.strip()}"


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
    free = (f"{max(0, node.free)} of {node.total} on `{node.node.name}`" for node in nodes[:NAMED_NODES])
    return f"{needs} and is {amount - nodes[0].free} short: the most free are {', '.join(free)}."


def _pod_spec(pod: PodView, inputs: DiagnosisInputs) -> Manifest | None:
    role = inputs.roles.get(pod.component)
    return (role.workload.pod_spec or {}) if role else None


NAMED_VALUES = 2
"""Values of one label that the message names."""

_NO_MATCH = "didn't match Pod's node affinity/selector"
"""The scheduler's words about a node without the labels (Kubernetes 1.36, plugins/nodeaffinity)."""


def node_requirements(pod: PodView, inputs: DiagnosisInputs) -> str:
    pod_spec = _pod_spec(pod, inputs)
    if pod_spec is None or pod.problem is None or _NO_MATCH not in pod.problem.cause:
        return ""
    # The label of the image's architecture names no GPU, so the advice would not help.
    selector = pod_spec.get("nodeSelector") or {}
    labels = {name: value for name, value in selector.items() if name not in (ARCHITECTURE_LABEL, SYSTEM_LABEL)}
    selected = [f"`{label}={value}`" for label, value in labels.items()]
    either = list(dict.fromkeys(_alternatives(pod_spec)))
    wanted = [*selected, *([f"{'one of ' if len(either) > 1 else ''}{', '.join(either)}"] if either else [])]
    if not wanted:
        return ""
    since = f", since {pod.created:%Y-%m-%d %H:%M} UTC" if pod.created else ""
    return (
        f"It waits for a node with {' and '.join(wanted)}{since}. If no node pool can have such a node, name the label"
        " of your pool in the operator's setting `gpuNodeLabels`, or other GPUs in `spec.hardware.gpu.products`."
    )


def _alternatives(pod_spec: Manifest) -> Iterator[str]:
    nodes = (pod_spec.get("affinity") or {}).get("nodeAffinity") or {}
    terms = (nodes.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms") or ()
    for term in terms:
        named = [expression for expression in term.get("matchExpressions") or () if expression["operator"] == "In"]
        yield from (_named(expression["key"], expression["values"]) for expression in named[:1])


def _named(label: str, values: list[str]) -> str:
    more = f" and {len(values) - NAMED_VALUES} more" if len(values) > NAMED_VALUES else ""
    return f"`{label}` {' or '.join(f'`{value}`' for value in values[:NAMED_VALUES])}{more}"
