"""Whether a live object already is what is wanted, so that nothing is sent that would change nothing.

Everything that is wanted must be there; what others added or the API server filled in does not count. Builders emit
the API server's canonical form, which a test against a real one proves.
"""

from collections.abc import Sequence

_MERGE_KEYS = ("mountPath", "name", "port", "topologyKey", "key", "uid")
"""What identifies an item of a list, the most telling first (Kubernetes' list-map keys of the kinds we write)."""

_WHOLE = frozenset(
    {
        *("selector", "labelSelector", "matchLabelKeys", "nodeSelector", "tolerations"),
        *(f"{kind}DuringSchedulingIgnoredDuringExecution" for kind in ("required", "preferred")),
    }
)
"""Fields that Kubernetes takes as a whole (`atomic` in its API): a key that somebody adds is a change of ours."""


def covers(live: object, desired: object) -> bool:
    """Whether all that is desired is in the live value.

    Examples:
        >>> covers({"a": 1, "added": 2}, {"a": 1})
        True
        >>> covers([{"name": "sidecar"}, {"name": "engine", "image": "x"}], [{"name": "engine", "image": "y"}])
        False
    """
    return difference(live, desired) is None


def difference(live: object, desired: object, path: str = "") -> str | None:
    """Where the live value falls short of the desired one, or None.

    Examples:
        >>> difference({"spec": {"replicas": 3}}, {"spec": {"replicas": 1}})
        '.spec.replicas'
    """
    if isinstance(desired, dict):
        if not isinstance(live, dict):
            return path or "."
        gaps = (_field_difference(name, live.get(name), value, f"{path}.{name}") for name, value in desired.items())
        return next((gap for gap in gaps if gap), None)
    if isinstance(desired, list):
        return _list_difference(live, desired, path)
    return None if type(live) is type(desired) and live == desired else path or "."


def _field_difference(name: str, live: object, desired: object, path: str) -> str | None:
    if name in _WHOLE:
        return None if live == desired else path
    return difference(live, desired, path)


def _list_difference(live: object, desired: Sequence[object], path: str) -> str | None:
    if not isinstance(live, list):
        return path
    key = _merge_key(desired)
    if key is None:
        if len(live) != len(desired):
            return path
        gaps = (difference(a, b, f"{path}[{i}]") for i, (a, b) in enumerate(zip(live, desired, strict=True)))
    else:
        found = {item.get(key): item for item in live if isinstance(item, dict)}
        gaps = (
            difference(found.get(item[key]), item, f"{path}[{item[key]}]") for item in desired if isinstance(item, dict)
        )
    return next((gap for gap in gaps if gap), None)


def _merge_key(items: Sequence[object]) -> str | None:
    mappings = [item for item in items if isinstance(item, dict)]
    if not mappings or len(mappings) != len(items):
        return None
    for key in _MERGE_KEYS:
        values = [item.get(key) for item in mappings]
        if all(isinstance(v, str | int) for v in values) and len(set(values)) == len(values):
            return key
    return None
