"""The node labels that an unschedulable engine needs, and since when it waits for a node that has them."""

from collections.abc import Iterator

from inference_operator.diagnosis.inputs import DiagnosisInputs
from inference_operator.manifest import ARCHITECTURE_LABEL, SYSTEM_LABEL, Manifest
from inference_operator.views.pod import PodView

NAMED_VALUES = 2
"""Values of one label that the message names."""

_NO_MATCH = "didn't match Pod's node affinity/selector"
"""The scheduler's words about a node without the labels (Kubernetes 1.36, plugins/nodeaffinity)."""


def node_requirements(pod: PodView, inputs: DiagnosisInputs) -> str:
    role = inputs.roles.get(pod.component)
    if role is None or pod.problem is None or _NO_MATCH not in pod.problem.cause:
        return ""
    pod_spec = role.workload.pod_spec or {}
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
    """The first label of each alternative, with its values."""
    nodes = (pod_spec.get("affinity") or {}).get("nodeAffinity") or {}
    terms = (nodes.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms") or ()
    for term in terms:
        named = [expression for expression in term.get("matchExpressions") or () if expression["operator"] == "In"]
        yield from (_named(expression["key"], expression["values"]) for expression in named[:1])


def _named(label: str, values: list[str]) -> str:
    more = f" and {len(values) - NAMED_VALUES} more" if len(values) > NAMED_VALUES else ""
    return f"`{label}` {' or '.join(f'`{value}`' for value in values[:NAMED_VALUES])}{more}"
