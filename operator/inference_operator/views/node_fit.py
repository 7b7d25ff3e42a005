"""Whether the scheduler can place a pod on a node: Kubernetes' rules for node selectors, node affinity and taints."""

from collections.abc import Iterable, Mapping

from inference_operator.manifest import Manifest
from inference_operator.views.node import NodeView, Taint

_HARD_EFFECTS = frozenset({"NoSchedule", "NoExecute"})
PASSING_TAINTS = "node.kubernetes.io/"
"""Prefix of Kubernetes' own taints: not ready, cordoned or under pressure (Kubernetes documentation, "Taints and
Tolerations"). They describe the node's current state, not its purpose."""


def matches_node(node: NodeView, pod: Manifest) -> bool:
    """Whether a node's labels and lasting taints allow a pod of this specification; its current state is ignored."""
    selector: dict[str, str] = pod.get("nodeSelector") or {}
    lasting = [t for t in node.taints if t.effect in _HARD_EFFECTS and not t.key.startswith(PASSING_TAINTS)]
    return (
        all(node.labels.get(name) == value for name, value in selector.items())
        and _matches_affinity(node, pod)
        and all(_tolerated(taint, pod.get("tolerations") or ()) for taint in lasting)
    )


def schedulable_now(node: NodeView, pod: Manifest) -> bool:
    """Whether the scheduler would place a pod of this specification on a node now, given enough free resources."""
    passing = [t for t in node.taints if t.effect in _HARD_EFFECTS and t.key.startswith(PASSING_TAINTS)]
    tolerations = pod.get("tolerations") or ()
    return (
        node.ready
        and not node.unschedulable
        and matches_node(node, pod)
        and all(_tolerated(taint, tolerations) for taint in passing)
    )


def engines_in(places: Iterable[int], members: int) -> int:
    """How many engines have a place for each of their pods; the pods of one engine are on different nodes.

    Examples:
        >>> engines_in([4, 1], 1), engines_in([4, 1], 2), engines_in([4], 2)
        (5, 1, 0)
    """
    known = tuple(places)
    engines = sum(known) // members
    while members * engines > sum(min(place, engines) for place in known):
        engines -= 1
    return engines


def _tolerated(taint: Taint, tolerations: Iterable[Manifest]) -> bool:
    """Whether a toleration matches the taint; empty keys and effects match all (API reference, Toleration)."""
    return any(
        t.get("effect") in {None, "", taint.effect}
        and (t.get("key") or "") in {"", taint.key}
        and (t.get("operator") == "Exists" or (t.get("value") or "") == taint.value)
        for t in tolerations
    )


def _matches_affinity(node: NodeView, pod: Manifest) -> bool:
    """Required node affinity: all expressions of at least one term match (API reference, NodeSelector)."""
    affinity = ((pod.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    if not affinity:
        return True
    return any(
        all(matches_expression(node.labels, e) for e in term.get("matchExpressions") or ())
        and all(matches_expression({"metadata.name": node.name}, e) for e in term.get("matchFields") or ())
        for term in affinity.get("nodeSelectorTerms") or ()
        if term.get("matchExpressions") or term.get("matchFields")
    )


def matches_expression(labels: Mapping[str, str], expression: Manifest) -> bool:
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
