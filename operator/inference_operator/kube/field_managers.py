"""The managers of an object's fields, as `metadata.managedFields` records them.

A server-side apply removes the fields that its manager owned and no longer sends, unless others own them too. Who
creates an object owns all of its fields: also a backup tool that restores one.
"""

from collections.abc import Sequence

from inference_operator.manifest import Manifest


def with_one_manager(entries: Sequence[Manifest], manager: str, api_version: str) -> list[Manifest]:
    """The entries in which one manager has applied all fields that others own.

    - Fields that were written through a subresource, such as a status or a scale, stay with their managers.
    - So do those of another version of the kind, in which fields may have other names.

    Args:
        entries: `metadata.managedFields` of a live object.
        manager: the field manager.
        api_version: the `apiVersion` in which it applies the object.

    Examples:
        >>> restored = {"manager": "velero", "operation": "Update", "apiVersion": "v1"}
        >>> (entry,) = with_one_manager([{**restored, "fieldsV1": {"f:data": {"f:a": {}}}}], "operator", "v1")
        >>> entry["manager"], entry["operation"], entry["fieldsV1"]
        ('operator', 'Apply', {'f:data': {'f:a': {}}})
    """
    taken = [one for one in entries if not one.get("subresource") and one.get("apiVersion") == api_version]
    if not taken:
        return list(entries)
    fields: Manifest = {}
    for one in taken:
        _add(fields, one.get("fieldsV1") or {})
    latest = max(taken, key=lambda one: str(one.get("time", "")))
    owned = {**latest, "manager": manager, "operation": "Apply", "fieldsV1": fields}
    return [*(one for one in entries if one not in taken), owned]


def _add(fields: Manifest, more: Manifest) -> None:
    for name, below in more.items():
        _add(fields.setdefault(name, {}), below)
