"""Drift detection: compares a live object with its desired state, so that no request is sent that changes nothing.

Every desired value must be in the live object. Values that others added or the API server defaulted do not count.
Builders write the API server's canonical form; a test against a real API server proves that.
"""

from collections.abc import Mapping, Sequence

_MERGE_KEYS = ("mountPath", "name", "port", "topologyKey", "key", "uid")
"""Fields that identify an item of a list, the most specific first (the list-map keys of the kinds that are written)."""

_WHOLE = frozenset(
    {
        *("selector", "labelSelector", "matchLabelKeys", "nodeSelector", "tolerations"),
        *(f"{kind}DuringSchedulingIgnoredDuringExecution" for kind in ("required", "preferred")),
    }
)
"""Fields that Kubernetes replaces as a whole (`atomic` in its API): a key that somebody adds is drift."""


def first_drift(live: object, desired: object) -> str | None:
    """Compare two values; the path of the first desired value that the live one lacks, or None if there is none.

    Examples:
        >>> first_drift({"spec": {"replicas": 3}}, {"spec": {"replicas": 1}})
        '.spec.replicas'
    """
    drift = _drift(live, desired)
    return None if drift is None else drift or "."


def _drift(live: object, desired: object) -> str | None:
    """The path of the first drift, empty for the value itself; None if there is no drift."""
    if isinstance(desired, dict):
        return _dict_drift(live, desired)
    if isinstance(desired, list):
        return _list_drift(live, desired)
    return None if type(live) is type(desired) and live == desired else ""


def _dict_drift(live: object, desired: Mapping[str, object]) -> str | None:
    if not isinstance(live, dict):
        return ""
    for name, value in desired.items():
        current = live.get(name)
        drift = (None if current == value else "") if name in _WHOLE else _drift(current, value)
        if drift is not None:
            return f".{name}{drift}"
    return None


def _list_drift(live: object, desired: Sequence[object]) -> str | None:
    if not isinstance(live, list):
        return ""
    key = _merge_key(desired)
    if key is None:
        if len(live) != len(desired):
            return ""
        pairs = [(str(i), a, b) for i, (a, b) in enumerate(zip(live, desired, strict=True))]
    else:
        current = {item.get(key): item for item in live if isinstance(item, dict)}
        pairs = [(item[key], current.get(item[key]), item) for item in desired if isinstance(item, dict)]
    drifts = ((index, _drift(a, b)) for index, a, b in pairs)
    return next((f"[{index}]{drift}" for index, drift in drifts if drift is not None), None)


def _merge_key(items: Sequence[object]) -> str | None:
    mappings = [item for item in items if isinstance(item, dict)]
    if not mappings or len(mappings) != len(items):
        return None
    for key in _MERGE_KEYS:
        values = [item.get(key) for item in mappings]
        if all(isinstance(v, str | int) for v in values) and len(set(values)) == len(values):
            return key
    return None
