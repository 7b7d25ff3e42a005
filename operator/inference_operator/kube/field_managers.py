"""The managers of an object's fields, as `metadata.managedFields` records them.

A server-side apply removes the fields that its manager owned and no longer sends, unless others own them too. Who
creates an object owns its fields: also a tool that restores one without the managers that it had.
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy

from inference_operator.manifest import CONFIG_MAP, DEPLOYMENT, STATEFUL_SET, Kind, Manifest

_METADATA, _ANNOTATIONS, _OWN_PREFIX = "f:metadata", "f:annotations", "f:inference-operator.dev/"
_CONTENT: Mapping[str, Sequence[str]] = {
    DEPLOYMENT.name: ("f:spec", "f:template"),
    STATEFUL_SET.name: ("f:spec", "f:template"),
    CONFIG_MAP.name: ("f:data",),
}
"""The part of a kind that the operator writes as a whole, and that merges the items of several managers. All other
parts may have fields of other controllers, such as finalizers, classes and source ranges of load balancers."""


def adopted_fields(entries: Sequence[Manifest], kind: Kind, manager: str) -> list[Manifest]:
    """The entries after an object was adopted, so that the next apply removes what its manager does not send.

    - The manager gets the annotations with the operator's prefix, and what it has written other than by an apply.
    - If it has never applied the object, it gets the content of a workload or ConfigMap too. Otherwise it still owns
      what it has written, and the fields of others are theirs.
    - Other fields that were written through a subresource stay with their managers. So do those of another version of
      the kind, in which fields may have other names.

    Args:
        entries: `metadata.managedFields` of a live object.
        kind: its kind, in the version in which the manager applies it.
    """
    known = next((entry for entry in entries if _is_apply_of(entry, manager)), None)
    content = _CONTENT.get(kind.name) if known is None else None
    fields: Manifest = deepcopy(known["fieldsV1"]) if known else {}
    others = [deepcopy(entry) for entry in entries if entry is not known]
    for other in others:
        source, is_alike = other.get("fieldsV1") or {}, _is_alike(other, kind)
        if is_alike and other.get("manager") == manager:
            _add(fields, source)
            source.clear()
        _move_annotations(source, fields)
        if is_alike and content:
            _move(source, fields, content)
    kept = [other for other in others if other.get("fieldsV1")]
    own = {"manager": manager, "operation": "Apply", "apiVersion": kind.api_version, "fieldsType": "FieldsV1"}
    return [*kept, {**own, **(known or {}), "fieldsV1": fields}] if fields else kept


def _is_apply_of(entry: Manifest, manager: str) -> bool:
    return (entry.get("manager"), entry.get("operation")) == (manager, "Apply") and not entry.get("subresource")


def _is_alike(entry: Manifest, kind: Kind) -> bool:
    """Whether its fields have the names of this version of the kind, and were written as those of an apply are."""
    return not entry.get("subresource") and entry.get("apiVersion") == kind.api_version


def _move_annotations(source: Manifest, target: Manifest) -> None:
    annotations = (source.get(_METADATA) or {}).get(_ANNOTATIONS) or {}
    for name in [annotation for annotation in annotations if annotation.startswith(_OWN_PREFIX)]:
        _move(source, target, (_METADATA, _ANNOTATIONS, name))


def _move(source: Manifest, target: Manifest, path: Sequence[str]) -> None:
    """Move what is at a path, if anything is there; nothing is left of parents that are empty then."""
    name, *below = path
    if name not in source:
        return
    if below:
        _move(source[name], target.setdefault(name, {}), below)
        if not source[name]:
            del source[name]
        if not target[name]:
            del target[name]
    else:
        _add(target.setdefault(name, {}), source.pop(name))


def _add(fields: Manifest, more: Manifest) -> None:
    for name, below in more.items():
        _add(fields.setdefault(name, {}), below)
