"""An object as the set of its fields, which is how server-side apply sees it.

A field is addressed by the names on the way to it. Items of list-maps are addressed by their keys; any other list is
one value (Kubernetes documentation, Server-Side Apply, "Merge strategy").
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

from inference_operator.manifest import Manifest

Step: TypeAlias = str | tuple[tuple[str, str], ...]
Path: TypeAlias = tuple[Step, ...]
Fields: TypeAlias = dict[Path, object]

LIST_MAP_KEYS: Mapping[str, tuple[str, ...]] = {
    "conditions": ("type",),
    "containers": ("name",),
    "env": ("name",),
    "ownerReferences": ("uid",),
    "ports": ("containerPort", "port", "protocol"),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "volumeMounts": ("mountPath",),
    "volumes": ("name",),
}
"""Keys by which items of these lists are known (Kubernetes 1.36, api/openapi-spec, x-kubernetes-list-map-keys)."""


def fields_of(value: object, path: Path = ()) -> Fields:
    """All fields of an object, with their values."""
    if isinstance(value, dict) and value:
        return {p: v for name, part in value.items() for p, v in fields_of(part, (*path, name)).items()}
    if isinstance(value, list) and value and path and path[-1] in LIST_MAP_KEYS:
        keys = LIST_MAP_KEYS[str(path[-1])]
        return {p: v for item in value for p, v in fields_of(item, (*path, _identity(item, keys))).items()}
    return {path: value}


def _identity(item: Manifest, keys: tuple[str, ...]) -> Step:
    return tuple((key, str(item[key])) for key in keys if key in item)


def manifest_of(fields: Fields) -> Manifest:
    """The object that has these fields."""
    root: dict[Step, Any] = {}
    for path, value in fields.items():
        node = root
        for step in path[:-1]:
            node = node.setdefault(step, {})
        if not (value == {} and path[-1] in node):
            node[path[-1]] = value
    result: Manifest = _lists(root)
    return result


def _lists(node: Any) -> Any:  # noqa: ANN401 - JSON
    """Items that are known by their keys become a list again."""
    if not isinstance(node, dict):
        return node
    if node and all(isinstance(step, tuple) for step in node):
        return [_lists(item) for item in node.values()]
    return {step: _lists(part) for step, part in node.items()}


def overlaps(path: Path, fields: Fields) -> bool:
    """Whether a field lies above or below one of others, so that both cannot be: a value and a mapping."""
    return any(path[: len(other)] == other or other[: len(path)] == path for other in fields)
