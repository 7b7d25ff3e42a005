"""Drift detection: compares a live object with its desired state, so that no request is sent that changes nothing.

Every desired value must be in the live object. Values that others added or the API server defaulted do not count.
Builders write the API server's canonical form; a test against a real API server proves that.
"""

from collections.abc import Iterator, Sequence

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
    return next((path or "." for path, _, _ in drifts(live, desired)), None)


def drifts(live: object, desired: object, path: str = "") -> Iterator[tuple[str, object, object]]:
    """Each desired value that the live one lacks: its path, the live value, which is None without one, and itself."""
    if isinstance(desired, dict) and isinstance(live, dict):
        for name, value in desired.items():
            current, here = live.get(name), f"{path}.{name}"
            if name not in _WHOLE:
                yield from drifts(current, value, here)
            elif current != value:
                yield here, current, value
    elif isinstance(desired, list) and isinstance(live, list) and (pairs := _pairs(live, desired)) is not None:
        for index, current, value in pairs:
            yield from drifts(current, value, f"{path}[{index}]")
    elif type(live) is not type(desired) or live != desired:
        yield path, live, desired


def _pairs(live: Sequence[object], desired: Sequence[object]) -> list[tuple[object, object, object]] | None:
    """The items of two lists that are compared, with their index or key; None if the lists differ as a whole."""
    key = _merge_key(desired)
    if key is None:
        same = len(live) == len(desired)
        return [(i, a, b) for i, (a, b) in enumerate(zip(live, desired, strict=True))] if same else None
    current = {item.get(key): item for item in live if isinstance(item, dict)}
    return [(item[key], current.get(item[key]), item) for item in desired if isinstance(item, dict)]


def _merge_key(items: Sequence[object]) -> str | None:
    mappings = [item for item in items if isinstance(item, dict)]
    if not mappings or len(mappings) != len(items):
        return None
    for key in _MERGE_KEYS:
        values = [item.get(key) for item in mappings]
        if all(isinstance(v, str | int) for v in values) and len(set(values)) == len(values):
            return key
    return None
