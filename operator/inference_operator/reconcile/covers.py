"""Whether a live object already is what is wanted, so that nothing is sent that would change nothing.

Everything that is wanted must be there; what others added or the API server filled in does not count. Builders emit
the API server's canonical form, which a test against a real one proves.
"""

from collections.abc import Mapping, Sequence

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


def difference(live: object, desired: object) -> str | None:
    """Where the live value falls short of the desired one, or None.

    Examples:
        >>> difference({"spec": {"replicas": 3}}, {"spec": {"replicas": 1}})
        '.spec.replicas'
    """
    gap = _gap(live, desired)
    return None if gap is None else gap or "."


def _gap(live: object, desired: object) -> str | None:
    """The path to what falls short, empty for the value itself; put together only where there is one."""
    if isinstance(desired, dict):
        return _dict_gap(live, desired)
    if isinstance(desired, list):
        return _list_gap(live, desired)
    return None if type(live) is type(desired) and live == desired else ""


def _dict_gap(live: object, desired: Mapping[str, object]) -> str | None:
    if not isinstance(live, dict):
        return ""
    for name, value in desired.items():
        there = live.get(name)
        gap = (None if there == value else "") if name in _WHOLE else _gap(there, value)
        if gap is not None:
            return f".{name}{gap}"
    return None


def _list_gap(live: object, desired: Sequence[object]) -> str | None:
    if not isinstance(live, list):
        return ""
    key = _merge_key(desired)
    if key is None:
        if len(live) != len(desired):
            return ""
        pairs = [(str(i), a, b) for i, (a, b) in enumerate(zip(live, desired, strict=True))]
    else:
        found = {item.get(key): item for item in live if isinstance(item, dict)}
        pairs = [(item[key], found.get(item[key]), item) for item in desired if isinstance(item, dict)]
    gaps = ((where, _gap(there, item)) for where, there, item in pairs)
    return next((f"[{where}]{gap}" for where, gap in gaps if gap is not None), None)


def _merge_key(items: Sequence[object]) -> str | None:
    mappings = [item for item in items if isinstance(item, dict)]
    if not mappings or len(mappings) != len(items):
        return None
    for key in _MERGE_KEYS:
        values = [item.get(key) for item in mappings]
        if all(isinstance(v, str | int) for v in values) and len(set(values)) == len(values):
            return key
    return None
