"""Whether a pod may be on a node: Kubernetes' rules of selectors, affinity and taints."""

from collections.abc import Iterable, Mapping

from inference_operator.manifest import Manifest
from inference_operator.views.node import NodeView, Taint

_HARD_EFFECTS = frozenset({"NoSchedule", "NoExecute"})
PASSING_TAINTS = "node.kubernetes.io/"
"""Kubernetes' own taints: what is not ready, cordoned or under pressure (Kubernetes documentation, "Taints and
Tolerations"). They say nothing about what a node is for."""


def matches_node(node: NodeView, pod: Manifest) -> bool:
    """Whether a pod of this specification may be on a node, whatever state the node is in now."""
    selector: dict[str, str] = pod.get("nodeSelector") or {}
    lasting = [t for t in node.taints if t.effect in _HARD_EFFECTS and not t.key.startswith(PASSING_TAINTS)]
    return (
        all(node.labels.get(name) == value for name, value in selector.items())
        and _is_in(node, pod)
        and all(_tolerated(taint, pod.get("tolerations") or ()) for taint in lasting)
    )


def schedulable_now(node: NodeView, pod: Manifest) -> bool:
    """Whether a pod of this specification may be put on a node now, if there is room."""
    passing = [t for t in node.taints if t.effect in _HARD_EFFECTS and t.key.startswith(PASSING_TAINTS)]
    tolerations = pod.get("tolerations") or ()
    return (
        node.ready
        and not node.unschedulable
        and matches_node(node, pod)
        and all(_tolerated(taint, tolerations) for taint in passing)
    )


def _tolerated(taint: Taint, tolerations: Iterable[Manifest]) -> bool:
    """Kubernetes' rule (API reference, Toleration): empty keys and effects match all."""
    return any(
        t.get("effect") in {None, "", taint.effect}
        and (t.get("key") or "") in {"", taint.key}
        and (t.get("operator") == "Exists" or (t.get("value") or "") == taint.value)
        for t in tolerations
    )


def _is_in(node: NodeView, pod: Manifest) -> bool:
    """Required node affinity: one term holds, and of that every expression (API reference, NodeSelector)."""
    affinity = ((pod.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    if not affinity:
        return True
    return any(
        all(_holds(node.labels, e) for e in term.get("matchExpressions") or ())
        and all(_holds({"metadata.name": node.name}, e) for e in term.get("matchFields") or ())
        for term in affinity.get("nodeSelectorTerms") or ()
        if term.get("matchExpressions") or term.get("matchFields")
    )


def _holds(labels: Mapping[str, str], expression: Manifest) -> bool:
    value, values = labels.get(expression["key"]), expression.get("values") or ()
    match expression["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" as comparison:
            return _compared(value, next(iter(values), ""), comparison)
        case _:
            return False


def _compared(value: str | None, bound: str, comparison: str) -> bool:
    if value is None or not (value.isdecimal() and bound.isdecimal()):
        return False
    return int(value) > int(bound) if comparison == "Gt" else int(value) < int(bound)
