"""Readers for parts of Kubernetes objects that others wrote and that may have any shape."""

from collections.abc import Iterable
from datetime import datetime

from inference_operator.manifest import Manifest


def mapping(parent: Manifest, name: str) -> Manifest:
    """The field's value if it is an object, otherwise an empty object.

    Examples:
        >>> mapping({"status": {"phase": "Running"}}, "status"), mapping({"status": None}, "status")
        ({'phase': 'Running'}, {})
    """
    part = parent.get(name)
    return part if isinstance(part, dict) else {}


def annotations(manifest: Manifest | None) -> Manifest:
    """The annotations of an object; empty without an object.

    Examples:
        >>> annotations({"metadata": {"annotations": {"a": "b"}}}), annotations(None)
        ({'a': 'b'}, {})
    """
    return mapping(mapping(manifest or {}, "metadata"), "annotations")


def objects(parent: Manifest, name: str) -> Iterable[Manifest]:
    """The objects in a field's list; empty if the field has no list.

    Examples:
        >>> objects({"containers": [{"name": "engine"}, None]}, "containers"), objects({}, "containers")
        ([{'name': 'engine'}], [])
    """
    items = parent.get(name)
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def condition(status: Manifest, kind: str) -> Manifest:
    """The condition of this type; an empty object without one.

    Examples:
        >>> condition({"conditions": [{"type": "Ready", "status": "True"}]}, "Ready")["status"]
        'True'
    """
    return next((item for item in objects(status, "conditions") if item.get("type") == kind), {})


def timestamp(text: object) -> datetime | None:
    """The time of a Kubernetes timestamp; None for anything else.

    Examples:
        >>> timestamp("2026-01-02T03:04:05Z").isoformat()
        '2026-01-02T03:04:05+00:00'
    """
    try:
        return datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
