"""How many more engines the nodes have room for."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from inference_operator.manifest import Manifest
from inference_operator.observed.look import Gpus
from inference_operator.observed.node import NodeView, Taint

_HARD_EFFECTS = frozenset({"NoSchedule", "NoExecute"})


@dataclass(frozen=True, slots=True)
class Slots:
    """Room for engines."""

    free: int
    """Engines that could start now."""
    possible: bool
    """Whether a node would have room for one if nothing else were on it."""


def slots_for(gpus: Gpus, pod: Manifest, amount: int) -> Slots:
    """Room for pods of this specification on the nodes that it may be on, by GPUs alone.

    Pods of ours that have no node yet will take theirs first: they are counted off.
    """
    nodes = [one for one in gpus.nodes if _admits(one.node, pod)]
    free = sum(max(0, one.free) // amount for one in nodes)
    ahead = -(-gpus.awaited // amount)
    return Slots(max(0, free - ahead), possible=any(one.total >= amount for one in nodes))


def _admits(node: NodeView, pod: Manifest) -> bool:
    if not node.ready or node.unschedulable:
        return False
    selector: dict[str, str] = pod.get("nodeSelector") or {}
    return (
        all(node.labels.get(name) == value for name, value in selector.items())
        and _is_in(node, pod)
        and all(
            _tolerated(taint, pod.get("tolerations") or ()) for taint in node.taints if taint.effect in _HARD_EFFECTS
        )
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
